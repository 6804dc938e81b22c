"""Training that moves data at every step (train_transfer.py, train_lm.py): plain, tuned by hand, plain under slipstream.

Three processes for each workload take turns, as in speed. A plain script under slipstream shall be as fast as the one
tuned by hand (T1), 1.40 times as fast as bare where copies are what it waits for (T2), and nowhere slower than bare.
Only default settings count for that. Identity: bare, under slipstream and tuned by hand, the same bits.
"""

import dataclasses
import os
import shutil
import statistics
import time

from . import accounts, identity, speed
from .harness import Failed, Skipped
from .speed import Example
from .summary import decided, expect_acted

GROUP = "workloads"
ROUNDS = 5
# For those that one core limits, whose blocks differ by a tenth: a median of five pairs says nothing about 1 %.
MANY_ROUNDS = 15
# T1, each and as geometric mean; T2; and what "not slower than bare" is: by no more than 1 %.
LEAST_TO_HAND_TUNED, LEAST_MEAN = 1.00, 1.05
# Where every step moves more than its own batch.
LEAST_OF_MOVING = {"offload": 0.97, "checkpoint": 0.95}
LEAST_GAIN = 1.40
LEAST_OF_BARE = 0.99
# A wave's processes start side by side; this is the most for one, their start included.
WAVE_SECONDS = 150
WORKERS = speed.WORKERS
# Of a trace, which says where the time goes and not how much it is.
TRACED_STEPS = 10
TUNED = ("--tuned",)
NO_D2H = {"SLIPSTREAM_TRANSFER_D2H": "off"}
# The same program twice: what the method can tell apart. It has nothing to tune, so it is no part of T1.
CONTROL = "on_device"
# Not the default settings, or not tuned by hand: no part of T1 either.
NOT_DEFAULT = ("checkpoint_no_d2h",)
TWO_CORES = ("two_cores_vision", "two_cores_small_tensors")

# T2 is about loops that are transfer-bound: those in which, bare, the copies of a step to the device take at least 0.4
# of what the rest of it takes, so that hiding them is worth 1.40. By the driver's 15 GB/s from pageable memory, and ten
# microseconds for a small copy:
TRANSFER_BOUND = {
    "vision_float32_workers": "77 MB a step, 5 ms, and 8 ms to unmap the batch, beside 30 ms of kernels",
    "nested": "130 blocking copies a step, 22 MB in all, 3 ms, beside 5 ms of kernels",
    "offload": "537 MB of weights a step, 36 ms, beside 18 ms of kernels",
}
# The others are not: uint8 batches are 19 MB (1.3 ms beside 9), a batch that is collated without worker processes takes
# longer to collate than to copy, and tokens, small tensors and a loss are few bytes. Checkpoints wait for copies to the
# host, which are the program's own by default.


def transfer(workload, arguments, batch, **more):
    return Example(
        "train_transfer.py",
        ["--workload", workload, "--batch", str(batch), *arguments.split()],
        batch,
        hand_tuned=True,
        tuning=TUNED,
        **{"block_seconds": 0.6, **more},
    )


def vision(pixels, workers, model, batch=128, size=224, **more):
    arguments = f"--pixels {pixels} --workers {workers} --model {model} --size {size} --classes 100"
    if workers:
        value = 1 if pixels == "uint8" else 4
        more = {
            "lead": speed.PREFETCHED + 4,
            "warm_up": 24,
            "shared_batch_bytes": speed.image_bytes(batch, size, value),
            **more,
        }
    return transfer("vision", f"{arguments} --autocast --channels-last", batch, **more)


def waves(suite):
    """Lists of name -> Example: those of one start side by side, as many as fit on the device."""
    return tiny_waves(suite) if suite.rehearsal else full_waves(suite)


def full_waves(suite):
    net = "--size 96 --width 96"
    # Three of ResNet-50 and nine of ResNet-18: 80 GB of the device.
    images = {
        "vision_uint8": vision("uint8", 0, "resnet18"),
        "vision_uint8_workers": vision("uint8", WORKERS, "resnet18"),
        "vision_float32": vision("float32", 0, "resnet18"),
        # Large enough that eight workers bring its batches.
        "vision_float32_workers": vision("float32", WORKERS, "resnet50"),
    }
    small = {
        "lm": dataclasses.replace(speed.other_examples(suite)["lm"], hand_tuned=True, block_seconds=0.6),
        "small_tensors": transfer("small_tensors", "--layers 8 --width 256 --autocast", 64),
        "nested": transfer("nested", "--size 224 --width 64 --autocast", 32),
        "item": transfer("item", net, 128),
        CONTROL: transfer("on_device", net, 128),
    }
    # Of 23 million parameters, and as much twice for the optimizer: 277 MB.
    checkpoint = transfer(
        "checkpoint",
        "--layers 6 --width 512 --length 256 --every 10 --autocast",
        16,
        multiple=10,
        lead=0,
        rounds=MANY_ROUNDS,
    )
    large = {
        "offload": transfer("offload", "--layers 8 --width 2048 --length 1024", 16, lead=2, warm_up=4),
        "checkpoint": checkpoint,
        "checkpoint_no_d2h": dataclasses.replace(checkpoint, policy=NO_D2H),
    }
    return [images, small, large, two_cores(images["vision_float32"], small["small_tensors"])]


def tiny_waves(suite):
    cpu = "--device cpu"
    net = f"{cpu} --size 32 --width 8"
    quick = {"block_seconds": 0.05, "warm_up": 2, "lead": 1}

    def images(pixels, workers):
        found = vision(pixels, workers, "resnet18", 4, 32, **quick)
        found.arguments += cpu.split()
        return found

    small = {
        "vision_uint8": images("uint8", 0),
        "vision_float32_workers": images("float32", 1),
        "lm": dataclasses.replace(speed.other_examples(suite)["lm"], hand_tuned=True, **quick),
    }
    checkpoint = transfer(
        "checkpoint", f"{cpu} --layers 1 --width 64 --length 16 --every 2", 2, **{**quick, "multiple": 2}
    )
    others = {
        "small_tensors": transfer("small_tensors", f"{cpu} --layers 1 --width 16", 64, **quick),
        "nested": transfer("nested", net, 2, **quick),
        "item": transfer("item", net, 4, **quick),
        CONTROL: transfer("on_device", net, 4, **quick),
    }
    large = {
        "offload": transfer("offload", f"{cpu} --layers 3 --width 32 --length 8", 2, **quick),
        "checkpoint": checkpoint,
        "checkpoint_no_d2h": dataclasses.replace(checkpoint, policy=NO_D2H),
    }
    return [small, others, large, two_cores(small["vision_uint8"], others["small_tensors"])]


def two_cores(*examples):
    """The same on two cores, bare and under slipstream: its threads must not take from the program what it needs."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    return {
        name: dataclasses.replace(
            example,
            hand_tuned=False,
            prefix=("taskset", "-c", cores),
            env={**example.env, "OMP_NUM_THREADS": "2"},
            rounds=0 if example.block_seconds < 0.1 else MANY_ROUNDS,  # not in a rehearsal
        )
        for name, example in zip(TWO_CORES, examples)
    }


class Measured:
    """What was measured of each workload; a wave is measured when the first check asks for one of its workloads."""

    def __init__(self, suite):
        self.suite = suite
        self.waves = waves(suite)
        self.rounds = 2 if suite.rehearsal else ROUNDS
        self.found = {}  # name -> {variant: benchmark}
        self.accounts = {}  # name -> {variant: milliseconds of a step by part, or what went wrong}
        self.problems = {}

    def names(self):
        return [name for wave in self.waves for name in wave]

    def of(self, name):
        if name not in self.found and name not in self.problems:
            self._measure(self._asked(name))
        if name in self.problems:
            raise Failed(self.problems[name])
        return self.found[name]

    def _asked(self, name):
        """Of this workload's wave what --only names and what was not measured yet, or else this one alone."""
        (wave,) = (wave for wave in self.waves if name in wave)
        asked = {
            other: example
            for other, example in wave.items()
            if self.suite.wanted(f"{GROUP}.{other}") and other not in self.found and other not in self.problems
        }
        return asked if name in asked else {name: wave[name]}

    def _measure(self, examples):
        deadline = time.monotonic() + min(WAVE_SECONDS, self.suite.remaining())
        # Whatever breaks off here is not tried again by the next check.
        self.problems.update({name: "its measurement broke off" for name in examples})
        for part in speed.waves(examples, speed.shared_memory_available()):
            turns = speed.Turns(self.suite, part, GROUP)
            turns.run(
                self.rounds,
                deadline,
                lambda name, turns=turns: self._add(name, turns),
                lambda name, turns=turns: self._account_for(name, turns),
            )
            self.problems.update(turns.problems)

    def _add(self, name, turns):
        example = turns.examples[name]
        gain = (LEAST_GAIN if name in TRANSFER_BOUND else LEAST_OF_BARE, None)
        rest = (least_to_hand_tuned(name), None) if in_t1(name) else None
        found = speed.throughput_benchmarks(
            name, example, turns.measured[name], turns.block_steps[name], "workload", gain, rest
        )
        self.found[name] = {}
        resident = {variant: turns.processes[name, variant].peak_resident(name) for variant in example.variants()}
        for benchmark in found:
            benchmark["peak_resident"] = resident
            self.suite.add_benchmark(benchmark)
            self.found[name][benchmark["variant"].removeprefix("workload.")] = benchmark
        del self.problems[name]

    def _account_for(self, name, turns):
        """Behind all that is measured: a profiler leaves its marks on a process."""
        if in_t1(name) and self.suite.wanted(f"{GROUP}.{name}.accounts"):
            variants = turns.examples[name].variants()
            self.accounts[name] = {variant: self._account(name, variant, turns) for variant in variants}

    def _account(self, name, variant, turns):
        example = turns.examples[name]
        multiple = example.multiple
        steps = min(max(multiple, TRACED_STEPS // multiple * multiple), turns.block_steps[name])
        trace = self.suite.scratch(f"{GROUP}/{name}/{variant}") / "trace.json"
        try:
            answer = turns.processes[name, variant].trace(name, example.lead, steps, trace)
            found = accounts.of_file(trace, answer, steps)
        except (Failed, KeyError, OSError, ValueError) as problem:
            return f"{type(problem).__name__}: {problem}"
        trace.unlink()
        return found


def in_t1(name):
    """Whether T1 is about this one."""
    return name != CONTROL and name not in NOT_DEFAULT + TWO_CORES


def least_to_hand_tuned(name):
    return LEAST_OF_MOVING.get(name, LEAST_TO_HAND_TUNED)


def rate(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def described(found):
    """One workload's figures in words."""
    gain = found["slipstream"]["summary"]
    text = f"{rate(gain['a_median'])} samples/s bare, {rate(gain['b_median'])} slipstream"
    if "hand_tuned" in found:
        text += f", {rate(found['hand_tuned']['summary']['b_median'])} tuned by hand"
    text += f"; slipstream/bare {speed.spread(gain)}"
    if "hand_tuned" in found:
        text += f", slipstream/tuned {speed.spread(found['slipstream_to_hand_tuned']['summary'])}"
    resident = found["slipstream"]["peak_resident"].items()
    text += f"; host memory at most {', '.join(f'{size / 2**30:.2f} {name}' for name, size in resident)} GiB"
    return f"{text}, {gain['pairs']} pairs of {found['slipstream']['block_steps']} steps"


def measurements(suite):
    """What must have the machine to itself."""
    measured = Measured(suite)

    def ratio(name, variant, limits):
        def check(data):
            if name in TWO_CORES:
                if not shutil.which("taskset"):
                    raise Skipped("there is no taskset")
                if len(os.sched_getaffinity(0)) < 2:
                    raise Skipped("there is one core only")
            found = measured.of(name)
            summary = data["summary"] = found[variant]["summary"]
            text = described(found)
            low, high = summary["ratio_low"], summary["ratio_high"]
            if any(limit is not None and low <= limit <= high for limit in limits):
                text += "; the limit lies within the interval"
            return speed.judge(suite, summary, limits, measured.rounds, text)

        return check

    def account(name):
        def check(data):
            found = measured.of(name)
            if name not in measured.accounts:
                raise Failed("its traces broke off")
            steps = data["milliseconds_a_step"] = measured.accounts[name]
            wrong = [f"{variant}: {what}" for variant, what in steps.items() if isinstance(what, str)]
            if wrong:
                raise Failed("; ".join(wrong))
            lines = [f"{variant}: {accounts.in_words(of_variant)}" for variant, of_variant in steps.items()]
            if not suite.rehearsal and not all(of_variant["kernels"] > 0 for of_variant in steps.values()):
                raise Failed("a trace without kernels; " + " | ".join(lines))
            return f"slipstream/tuned {speed.spread(found['slipstream_to_hand_tuned']['summary'])}; " + " | ".join(lines)

        return check

    def mean(data):
        ratios = data["ratios"] = {
            name: measured.of(name)["slipstream_to_hand_tuned"]["summary"]["ratio_median"]
            for name in measured.names()
            if in_t1(name)
        }
        value = data["geometric_mean"] = statistics.geometric_mean(ratios.values())
        text = f"slipstream/tuned by hand {value:.4f}, geometric mean of {len(ratios)} workloads"
        if suite.rehearsal:
            return text + "; a rehearsal: not asserted"
        if value < LEAST_MEAN:
            raise Failed(f"at least {LEAST_MEAN} was expected; {text}")
        return text

    found = []
    for name in measured.names():
        found.append((f"{GROUP}.{name}.not_slower", ratio(name, "slipstream", (LEAST_OF_BARE, None))))
        if in_t1(name):
            limits = (least_to_hand_tuned(name), None)
            found.append((f"{GROUP}.{name}.hand_tuned", ratio(name, "slipstream_to_hand_tuned", limits)))
        if name in TRANSFER_BOUND:
            found.append((f"{GROUP}.{name}.gain", ratio(name, "slipstream", (LEAST_GAIN, None))))
        if in_t1(name):
            found.append((f"{GROUP}.{name}.accounts", account(name)))
        if name == CONTROL:
            limits = (LEAST_OF_BARE, 2 - LEAST_OF_BARE)
            found.append((f"{GROUP}.{name}.control", ratio(name, "hand_tuned", limits)))
    return [*found, (f"{GROUP}.geometric_mean", mean)]


# -- the same bits


def examples(suite):
    """name -> (identity.Example, variables of the run under slipstream, what its summary must show)."""
    steps = "6" if suite.rehearsal else "10" if suite.quick else "16"

    def example(workload, arguments, tiny, **more):
        chosen = f"--device cpu --batch 2 {tiny}" if suite.rehearsal else arguments
        argv = ["--workload", workload, "--steps", steps, *chosen.split()]
        return identity.Example("train_transfer.py", argv, tuning=TUNED, **more)

    def images(pixels, workers):
        return example(
            "vision",
            f"--pixels {pixels} --workers {workers} --autocast",
            f"--pixels {pixels} --workers {min(workers, 1)} --size 32",
            shared_batches=int(steps) // 2 if workers else 0,
        )

    # The last checkpoint is not of the last step, so that it tells more than the weights at the end.
    checkpoint = example(
        "checkpoint",
        "--layers 2 --width 256 --length 64 --every 5 --to-file",
        "--layers 1 --width 64 --length 16 --every 4 --to-file",
    )
    lm = "--device cpu --batch 2 --layers 1 --width 32 --heads 2 --length 16" if suite.rehearsal else "--autocast"
    net = "--size 32 --width 8"
    found = {
        "vision_uint8": images("uint8", 0),
        "vision_uint8_workers": images("uint8", 4),
        "vision_float32": images("float32", 0),
        "vision_float32_workers": images("float32", 4),
        "lm": identity.Example("train_lm.py", ["--steps", steps, *lm.split()], tuning=("--pin",)),
        "small_tensors": example("small_tensors", "--layers 2 --width 64 --autocast", "--layers 1 --width 16"),
        "nested": example("nested", "--batch 8 --size 128 --width 16", net),
        "offload": example(
            "offload", "--layers 5 --width 512 --length 64 --batch 4", "--layers 3 --width 32 --length 8"
        ),
        "item": example("item", "--size 64 --width 32", net),
    }
    return {
        **{name: (of_name, None, None) for name, of_name in found.items()},
        "checkpoint": (checkpoint, None, expect_fetched),
        CONTROL: (example("on_device", "--size 64 --width 32", net), None, nothing_to_do),
    }


def expect_fetched(seen):
    """That the copies of checkpoints went through staging memory, besides those of batches."""
    text = expect_acted(seen)
    fetched = decided(seen, "transfer.d2h.promoted")
    if not fetched:
        raise Failed("the summary shows no copy to the host through staging memory: the engine did not act")
    return f"{text}, {fetched} copies fetched"


def nothing_to_do(seen):
    """Only its weights are copied, while staging memory may not be there yet."""
    return f"{decided(seen, 'transfer.h2d.promoted')} copies promoted"


def side_by_side(suite):
    return [
        (f"{GROUP}.{name}.identity", identity.identical(suite, name, example, GROUP, policy, acted))
        for name, (example, policy, acted) in examples(suite).items()
    ]
