"""How fast programs train under slipstream that nobody tuned: blocks of steps, taken in turn by processes.

Two kinds of examples. Those with a loader have a third process, which runs the same program tuned by hand (pinned
batches, copies that do not wait); their throughput must rise. All other ways of writing a loop (train_patterns.py) must
at least not become slower. One set of processes for each example; the order of the turns rotates from round to round,
a pair is two blocks of the same round.

Something stays with a process, such as where its memory lies, that makes its steps faster or slower for as long as it lives:
of pairs of processes that do the same, ratios were 0.986 to 1.016 with intervals of 0.002. So a set that is over its limit decides nothing alone; four more
decide with it.
"""

import dataclasses
import json
import os
import statistics
import time

import pairs

from .harness import GPU_TESTS, Failed, needs_gpu
from .paced import Paced, end_all

BARE, SLIPSTREAM, HAND_TUNED = "bare", "slipstream", "hand_tuned"
ROUNDS = 7
# T2 asks for more; this is what must hold on every machine. The rest: no example may lose more than this.
LEAST_THROUGHPUT = 1.35
MOST_STEP_TIME = 1.01
MOST_OF_A_REQUEST = 1.1
# At most, start of the processes included; together about 200 are expected.
LOADERS_SECONDS, EXAMPLES_SECONDS = 150, 130
# Further sets of processes of an example that seems slower, and at most how long all of them take together.
MORE_SETS, MORE_SECONDS = 4, 120
START_SECONDS = 80
WORKERS = 8
# DataLoader's default of 2 for each worker.
PREFETCHED = 2 * WORKERS


@dataclasses.dataclass
class Example:
    program: str
    arguments: list
    batch: int
    # Beside it, the same program tuned by hand, which these arguments make it.
    hand_tuned: bool = False
    tuning: tuple = ("--pin",)
    # Beside the training, what its loader delivers alone; and what a batch of loader processes takes in /dev/shm.
    fetches: bool = False
    shared_batch_bytes: int = 0
    # Untimed steps at each turn. With a loader: more than it has ready, so that what is timed is its steady pace.
    lead: int = 4
    # Blocks are a multiple of so many steps, so that what happens every few steps is in each block equally often.
    multiple: int = 1
    block_seconds: float = 0.3
    warm_up: int = 12
    # More rounds than the others have, where blocks of the same program differ much.
    rounds: int = 0
    env: dict = dataclasses.field(default_factory=dict)
    # Variables of the run under slipstream alone, and what stands in front of every run.
    policy: dict = dataclasses.field(default_factory=dict)
    prefix: tuple = ()

    def variants(self):
        return (BARE, SLIPSTREAM, HAND_TUNED) if self.hand_tuned else (BARE, SLIPSTREAM)

    def specification(self, variant):
        arguments = [*self.arguments, *(self.tuning if variant == HAND_TUNED else ())]
        return {"program": str(GPU_TESTS / self.program), "arguments": arguments, "warm_up": self.warm_up}


def image_bytes(batch, size, bytes_of_value=4):
    return batch * 3 * size * size * bytes_of_value


def loaders(suite):
    """Models that a loader feeds: name -> Example."""
    if suite.rehearsal:
        tiny = "--device cpu --batch 4 --size 32 --workers 2 --model mobilenet_v2".split()
        return {
            "mobilenet_v2": Example(
                "train_resnet.py",
                tiny,
                4,
                hand_tuned=True,
                fetches=True,
                shared_batch_bytes=image_bytes(4, 32),
                lead=6,
                warm_up=2,
            )
        }
    return {
        model: Example(
            "train_resnet.py",
            f"--model {model} --batch 128 --size 224 --workers {WORKERS} --autocast --channels-last".split(),
            128,
            hand_tuned=True,
            fetches=True,
            shared_batch_bytes=image_bytes(128, 224),
            lead=PREFETCHED + 4,
            # A block begins with an idle device: the first step's latency must not count for much.
            block_seconds=1.3,
            warm_up=30,
        )
        for model in ("resnet50", "mobilenet_v2")
    }


def other_examples(suite):
    """Every other way of writing a loop: name -> Example."""
    caches = {"TORCHINDUCTOR_COMPILE_THREADS": "4"}
    if suite.rehearsal:
        net = "--device cpu --batch 4 --size 32 --width 8".split()
        lm = "--device cpu --layers 2 --width 32 --heads 2 --length 16 --batch 2".split()
        names = ("item", "prefetch_thread", "validation")
    else:
        net = "--batch 128 --size 96 --width 96".split()
        lm = "--layers 8 --width 768 --heads 12 --length 512 --batch 8 --vocabulary 16384 --autocast".split()
        names = (
            "plain",
            "item",
            "prefetch_thread",
            "prefetch_stream",
            "grad_scaler",
            "accumulation",
            "validation",
            "two_streams",
            "cuda_graph",
            "compiled",
        )
    result = {
        name: Example(
            "train_patterns.py",
            ["--pattern", name, *net],
            int(net[net.index("--batch") + 1]),
            multiple=5 if name == "validation" else 1,
            env=caches,
        )
        for name in names
    }
    result["lm"] = Example("train_lm.py", lm, int(lm[lm.index("--batch") + 1]))
    if not suite.rehearsal:
        # What somebody has tuned already loses nothing either.
        result["lm_pinned"] = Example("train_lm.py", [*lm, "--pin"], result["lm"].batch)
    return result


def steps_of_block(block_seconds, seconds_per_step, multiple):
    """The steps of a block of about so many seconds: a multiple, at least one."""
    return max(1, round(block_seconds / seconds_per_step / multiple)) * multiple


def shared_memory_needed(example):
    """Bytes in /dev/shm that the loaders of one example's processes hold when their queues are full, and some slack."""
    batches = len(example.variants()) * (PREFETCHED + WORKERS)
    return batches * example.shared_batch_bytes


def waves(examples, available):
    """The examples that run side by side: all, or one after the other where shared memory is short of that."""
    needed = {name: shared_memory_needed(example) for name, example in examples.items()}
    if sum(needed.values()) <= available:
        return [examples]
    return [{name: example} for name, example in examples.items()]


def shared_memory_available():
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


class Turns:
    """The processes of some examples, all started at once, and what was measured of each.

    measured: name -> list of rounds {variant: seconds}; problems: name -> why an example could not be measured.
    """

    def __init__(self, suite, examples, group="speed"):
        self.suite = suite
        self.examples = examples
        self.group = group
        self.processes = {}
        self.measured = {}
        self.block_steps = {}
        self.problems = {}
        self.batches_per_second = {}

    def start(self, deadline):
        for name, example in self.examples.items():
            for variant in example.variants():
                under = variant == SLIPSTREAM
                prefix = [*example.prefix, *(self.suite.run_prefix("--quiet") if under else [])]
                caches = self.suite.scratch(f"{self.group}/{name}/{variant}")
                env = {
                    "TORCHINDUCTOR_CACHE_DIR": caches / "inductor",
                    "TRITON_CACHE_DIR": caches / "triton",
                    **example.env,
                    **(example.policy if under else {}),
                }
                log = f"{self.group}.{name}.{variant}"
                specification = {name: example.specification(variant)}
                self.processes[name, variant] = Paced(self.suite, log, prefix, specification, env)
        until = min(deadline, time.monotonic() + START_SECONDS)
        for (name, _), process in self.processes.items():
            try:
                process.read(until - time.monotonic())
            except Failed as problem:
                self.problems.setdefault(name, str(problem))
        # What did not come up must not take the machine's time from the others.
        end_all([process for (name, _), process in self.processes.items() if name in self.problems], timeout=1)

    def measure(self, name, rounds, deadline):
        example = self.examples[name]
        variants = example.variants()

        def block(variant, steps):
            return self.processes[name, variant].block(name, example.lead, steps, timeout=30)

        probe = 2 * example.multiple if example.multiple > 1 else 6
        step_seconds = block(BARE, probe) / probe
        steps = self.block_steps[name] = steps_of_block(example.block_seconds, step_seconds, example.multiple)
        for variant in variants:
            block(variant, steps)  # Its first turn does not count.
        rounds = max(rounds, example.rounds)
        measured = self.measured[name] = []
        for number in range(rounds):
            if time.monotonic() > deadline:
                raise Failed(f"its time was over after {number} of {rounds} pairs")
            order = [variants[(number + place) % len(variants)] for place in range(len(variants))]
            measured.append({variant: block(variant, steps) for variant in order})
        if example.fetches:
            process = self.processes[name, BARE]
            count = 2 * example.lead
            self.batches_per_second[name] = count / process.block(name, example.lead, count, fetch=True, timeout=30)

    def run(self, rounds, deadline, measured=lambda name: None, afterwards=lambda name: None):
        """Measures all; calls measured(name) after each example that was, and behind all of them, while there is time,
        afterwards(name)."""
        try:
            self.start(deadline)
            for name in self.examples:
                if name in self.problems:
                    continue
                try:
                    self.measure(name, rounds, deadline)
                except Failed as problem:
                    self.problems[name] = str(problem)
                else:
                    measured(name)
            for name in self.measured:
                if name not in self.problems and time.monotonic() < deadline:
                    afterwards(name)
        finally:
            end_all(process for (name, _), process in self.processes.items() if not process.ended)


def ratios(rounds, a, b, steps, batch=None):
    """Pairs of two variants: seconds a step, or with a batch samples a second."""
    if batch is None:
        return [(r[a] / steps, r[b] / steps) for r in rounds]
    return [(batch * steps / r[a], batch * steps / r[b]) for r in rounds]


def throughput_benchmarks(name, example, rounds, steps, kind="throughput", gain=(LEAST_THROUGHPUT, None), rest=None):
    """Of slipstream / bare, tuned by hand / bare and slipstream / tuned by hand; limits of the first and the last."""
    found = [("slipstream", BARE, SLIPSTREAM, gain)]
    if example.hand_tuned:
        found += [("hand_tuned", BARE, HAND_TUNED, None), ("slipstream_to_hand_tuned", HAND_TUNED, SLIPSTREAM, rest)]
    for variant, a, b, limits in found:
        values = ratios(rounds, a, b, steps, example.batch)
        yield benchmark(name, f"{kind}.{variant}", "samples/s", steps, values, limits)


def benchmark(name, variant, unit, steps, values, limits):
    return {
        "name": name,
        "variant": variant,
        "unit": unit,
        "block_steps": steps,
        "groups": [values],
        "limits": limits,
        "asserted": limits is not None,
        "summary": pairs.summarize([values]),
    }


def decide(suite, example, found, rounds, deadline):
    """Measures more sets of processes of an example whose step time is over its limit, and takes them into `found`, its
    benchmark, while there is time."""
    if verdict(found["summary"], found["limits"]) is None:
        return
    name = found["name"]
    for _ in range(MORE_SETS):
        if time.monotonic() > deadline:
            break
        turns = Turns(suite, {name: example})
        turns.run(rounds, deadline)
        if turns.problems:
            # That it does not end in time is no finding. That a process fails is one.
            if time.monotonic() < deadline:
                found["problem"] = turns.problems[name]
            break
        found["groups"].append(ratios(turns.measured[name], BARE, SLIPSTREAM, turns.block_steps[name]))
        found["summary"] = pairs.summarize(found["groups"])


def verdict(summary, limits):
    """None when the median ratio is within (at least, at most), else what is wrong."""
    least, most = limits
    ratio = summary["ratio_median"]
    if least is not None and ratio < least:
        return f"ratio {ratio:.4f}, and at least {least} was expected"
    if most is not None and ratio > most:
        return f"ratio {ratio:.4f}, and at most {most} was expected"
    return None


def spread(summary):
    return f"{summary['ratio_median']:.4f} ({summary['ratio_low']:.4f} to {summary['ratio_high']:.4f})"


def judge(suite, summary, limits, rounds, text):
    """The text when the ratio is within its limits and of enough pairs, else Failed."""
    if suite.rehearsal:
        return text + "; a rehearsal: not asserted"
    if summary["pairs"] < rounds:
        raise Failed(f"only {summary['pairs']} pairs; {text}")
    if problem := verdict(summary, limits):
        raise Failed(f"{problem}; {text}")
    return text


def serve_beside_training(suite):
    """S65: a thread with work of its own waits no longer than it does bare. In turns, and the medians of the ratios."""

    def measured(which, prefix):
        program = [*prefix, suite.python, GPU_TESTS / "programs" / "serve_beside_training.py"]
        name = f"speed.serve_beside_training.{which}"
        return json.loads(suite.command(name, program, timeout=60).expect_success(name).stdout)

    def check(data):
        pairs_of = [(measured("bare", []), measured("slipstream", suite.run_prefix("--quiet"))) for _ in range(3)]
        data["pairs"] = pairs_of
        ratio = {key: statistics.median(under[key] / bare[key] for bare, under in pairs_of) for key in pairs_of[0][0]}
        text = (
            f"90th percentile of a request {pairs_of[0][0]['p90_ms']:.1f} ms bare, ratio {ratio['p90_ms']:.3f}; "
            f"requests a second {ratio['served_per_s']:.3f}, steps a second {ratio['steps_per_s']:.3f}"
        )
        if ratio["p90_ms"] > MOST_OF_A_REQUEST:
            raise Failed(text)
        return text

    return check


def offload_weights(suite):
    """Weights that travel both ways in every step, in turns: the median of the ratios."""

    def measured(which, prefix):
        program = [*prefix, suite.python, GPU_TESTS / "programs" / "offload_weights.py"]
        name = f"speed.offload_weights.{which}"
        return json.loads(suite.command(name, program, timeout=60).expect_success(name).stdout)["step_ms"]

    def check(data):
        pairs_of = [(measured("bare", []), measured("slipstream", suite.run_prefix("--quiet"))) for _ in range(5)]
        data["pairs"] = pairs_of
        ratios_of = sorted(under / bare for bare, under in pairs_of)
        text = (
            f"{statistics.median(bare for bare, _ in pairs_of):.1f} ms a step bare, ratio "
            f"{statistics.median(ratios_of):.3f} ({ratios_of[0]:.3f} to {ratios_of[-1]:.3f})"
        )
        if statistics.median(ratios_of) > MOST_STEP_TIME:
            raise Failed(text)
        return text

    return check


def checks(suite):
    problems = {}
    waiting = []  # (example, benchmark) of those that more sets of processes may decide
    rounds = 2 if suite.rehearsal else ROUNDS

    def deadline(seconds):
        return time.monotonic() + min(seconds, suite.remaining())

    def add(name, example, turns):
        steps, measured = turns.block_steps[name], turns.measured[name]
        if example.hand_tuned:
            for found in throughput_benchmarks(name, example, measured, steps):
                found["loader_batches_per_second"] = round(turns.batches_per_second[name], 1)
                suite.add_benchmark(found)
        else:
            values = ratios(measured, BARE, SLIPSTREAM, steps)
            waiting.append((example, benchmark(name, "step.slipstream", "s", steps, values, (None, MOST_STEP_TIME))))

    def measure(examples, seconds, data):
        until = deadline(seconds)
        done = {}
        for wave in examples:
            turns = Turns(suite, wave)
            turns.run(rounds, until, lambda name, turns=turns: add(name, turns.examples[name], turns))
            problems.update(turns.problems)
            done |= turns.block_steps
        data.update(block_steps=done, problems=dict(problems))
        failed = [name for wave in examples for name in wave if name in problems]
        if failed:
            raise Failed("; ".join(f"{name}: {problems[name]}" for name in failed))
        return f"{rounds} rounds, steps in a block {done}"

    def measure_loaders(data):
        available = shared_memory_available()
        data["shared_memory_bytes"] = available
        return measure(waves(loaders(suite), available), LOADERS_SECONDS, data)

    def measure_others(data):
        try:
            return measure([other_examples(suite)], EXAMPLES_SECONDS, data)
        finally:
            until = deadline(MORE_SECONDS)
            for example, found_ in waiting:
                if not suite.rehearsal:
                    decide(suite, example, found_, rounds, until)
                suite.add_benchmark(found_)

    def found(name, variant):
        measured = [b for b in suite.results["benchmarks"] if (b["name"], b["variant"]) == (name, variant)]
        if not measured:
            raise Failed(problems.get(name, "not measured (--only left out speed.loaders or speed.examples)"))
        return measured[-1]

    def throughput(name):
        def check(data):
            gain, tuned, rest = (
                found(name, f"throughput.{variant}")
                for variant in ("slipstream", "hand_tuned", "slipstream_to_hand_tuned")
            )
            for benchmark_ in (gain, tuned, rest):
                data[benchmark_["variant"]] = benchmark_["summary"]
            summary = gain["summary"]
            text = (
                f"{summary['a_median']:.0f} samples/s bare, {summary['b_median']:.0f} slipstream, "
                f"{tuned['summary']['b_median']:.0f} tuned by hand; slipstream/bare {spread(summary)}, "
                f"slipstream/tuned {spread(rest['summary'])}, {summary['pairs']} pairs; the loader alone delivers "
                f"{gain['loader_batches_per_second']:.0f} batches/s"
            )
            return judge(suite, summary, gain["limits"], ROUNDS, text)

        return check

    def step_time(name):
        def check(data):
            measured = found(name, "step.slipstream")
            if "problem" in measured:
                raise Failed(measured["problem"])
            summary = data["summary"] = measured["summary"]
            text = (
                f"{summary['a_median'] * 1e3:.3f} ms a step bare, ratio {spread(summary)}, {summary['pairs']} pairs"
            )
            if summary["groups"] > 1:
                text += f" of {summary['groups']} sets of processes"
            return judge(suite, summary, measured["limits"], ROUNDS, text)

        return check

    return [
        ("speed.loaders", measure_loaders),
        *((f"speed.{name}", throughput(name)) for name in loaders(suite)),
        ("speed.examples", measure_others),
        *((f"speed.{name}", step_time(name)) for name in other_examples(suite)),
        ("speed.serve_beside_training", needs_gpu(suite, serve_beside_training(suite))),
        ("speed.offload_weights", needs_gpu(suite, offload_weights(suite))),
    ]
