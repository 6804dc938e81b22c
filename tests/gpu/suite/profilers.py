"""What recording every call costs a training step, beside what torch.profiler costs the same step.

A set of processes takes turns with blocks of steps, as in `ratio`: bare, under `slipstream run --record` without
what the devices did (`tracer.device = "off"`), with it, recorded so for its first seconds only (`tracer.device_for`), bare again
(the control), two that are bare but for CUPTI, attached by a library of the suite's, and, in one round of five, a process each for
torch.profiler watching the device alone, the host and the device, and both with stacks. In these three every timed block
lies inside a profile of its own: starting it, and making its events when it ends, is not timed. A profile that saw no kernel is a failure, and so is a recorded process that left no trace, and CUPTI
alone that delivered no record.

T12 is about what slipstream adds: what its step takes beyond a bare one, as a multiple of what CUPTI alone takes there for the same
kinds of records.
"""

import glob
import json
import statistics
import time

import pairs

from . import speed
from .harness import GPU_TESTS, REPOSITORY, Failed, needs_gpu
from .paced import Paced, end_all

GROUP = "profilers"
BARE, RECORD, DEVICES, AFTER, CONTROL = "bare", "record", "record_devices", "after_devices", "control"
# variant -> the level of device_cost.cpp: the kinds of records that slipstream asks for and nothing else; and with all the
# callbacks, the reading and the fetching that a recorder of such records does.
KINDS, ALL_OF_CUPTI = "cupti_kinds", "cupti_all"
ATTACHED = {KINDS: 2, ALL_OF_CUPTI: 5}
# variant -> what torch.profiler watches there (paced_blocks.py)
WATCHED = {"torch_cuda": "cuda", "torch_cpu_cuda": "cpu_cuda", "torch_stacks": "stacks"}
VARIANTS = (BARE, RECORD, DEVICES, AFTER, *ATTACHED, *WATCHED, CONTROL)
RECORDED = {RECORD: {"SLIPSTREAM_TRACER_DEVICE": "off"}, DEVICES: {}, AFTER: {"SLIPSTREAM_TRACER_DEVICE_FOR": "5"}}
SETS, ROUNDS = 3, 20
# torch.profiler costs tens of percent, which few rounds tell.
PROFILER_EVERY = 5
BLOCK_SECONDS = 0.2
LEAD_STEPS = 3
WORKLOAD = "resnet50_batch16"
# T11. What torch.profiler costs is its own affair.
LIMITS = {RECORD: 1.01}
# T12: of what CUPTI alone costs, and of what torch.profiler costs that watches the device alone.
MOST_OF_CUPTI, MOST_OF_PROFILER = 1.3, 0.5


def specification(suite):
    program = str(GPU_TESTS / "train_resnet.py")
    if suite.rehearsal:
        arguments = "--device cpu --model mobilenet_v2 --size 32 --batch 2 --workers 0 --in-memory 2".split()
        return {WORKLOAD: {"program": program, "arguments": arguments, "warm_up": 1}}
    arguments = "--model resnet50 --batch 16 --autocast --workers 0 --in-memory 8".split()
    return {WORKLOAD: {"program": program, "arguments": arguments, "warm_up": 20}}


class Turns:
    """One set of processes. rounds: a list of {variant: seconds}; seen: events of the device, or bytes of records, by variant."""

    def __init__(self, suite, number):
        self.suite = suite
        self.number = number
        self.processes = {}
        self.rounds = []
        self.seen = dict.fromkeys((*WATCHED, *ATTACHED), 0)

    def start(self):
        for variant in VARIANTS:
            prefix = self.suite.run_prefix("--quiet", "--record") if variant in RECORDED else []
            env = dict(RECORDED.get(variant, {}))
            if variant in ATTACHED:
                env["PACED_CUPTI"] = f"{ATTACHED[variant]}:{library_of(self.suite)}"
            log = f"{GROUP}.{self.number}.{variant}"
            self.processes[variant] = Paced(self.suite, log, prefix, specification(self.suite), env)
        for process in self.processes.values():
            process.read(120)

    def block(self, variant, steps):
        process = self.processes[variant]
        if variant in ATTACHED:
            answer = process.counted(WORKLOAD, LEAD_STEPS, steps)
            self.seen[variant] = answer["bytes"]
            return answer["seconds"]
        if variant not in WATCHED:
            return process.block(WORKLOAD, LEAD_STEPS, steps)
        answer = process.profiled(WORKLOAD, LEAD_STEPS, steps, WATCHED[variant])
        self.seen[variant] += answer["device_events"]
        return answer["seconds"]

    def run(self, rounds, steps):
        """Steps in a block: given, or found out."""
        try:
            self.start()
            if not steps:
                probe = 5
                seconds = self.processes[BARE].block(WORKLOAD, LEAD_STEPS, probe) / probe
                steps = speed.steps_of_block(BLOCK_SECONDS, seconds, 1)
            for variant in VARIANTS:
                self.block(variant, steps)  # the first turn does not count: a profiler's first start sets it up
            for number in range(rounds):
                turn = [name for name in VARIANTS if name not in WATCHED or number % PROFILER_EVERY == 0]
                order = [turn[(number + place) % len(turn)] for place in range(len(turn))]
                found = {variant: self.block(variant, steps) for variant in order}
                self.rounds.append(found)
            return steps
        finally:
            end_all(self.processes.values())


def library_of(suite):
    return suite.build / "bench" / "gpu" / "libdevice_cost.so"


def excess(turns, of, other):
    """What `of` takes beyond a bare step as a multiple of what `other` does: (multiple, low, high), over the rounds that
    have both. None where the other takes nothing that could be told."""
    rows = [[(r[BARE], r[of], r[other]) for r in turn.rounds if of in r and other in r] for turn in turns]

    def multiple(found):
        beyond = statistics.median(there - bare for bare, _, there in found)
        return statistics.median(ours - bare for bare, ours, _ in found) / beyond if beyond > 0 else float("inf")

    value = multiple([row for turn in rows for row in turn])
    return (value, *pairs.bootstrap_interval(rows, multiple)) if value != float("inf") else None


def excess_text(found):
    return "{:.2f} ({:.2f} to {:.2f})".format(*found) if found else "not told from none"


def checks(suite):
    measured, multiples = {}, {}

    def measure(data):
        sets, rounds = (1, 2) if suite.rehearsal or suite.quick else (SETS, ROUNDS)
        turns, steps, longest = [], 0, 0.0
        for number in range(sets):
            if turns and suite.remaining() < 1.2 * longest:
                break
            start = time.monotonic()
            turns.append(Turns(suite, number))
            steps = turns[-1].run(rounds, steps)
            longest = max(longest, time.monotonic() - start)
        traces = glob.glob(str(suite.scratch("paced") / "slipstream-trace-*"))
        expected = len(RECORDED) * len(turns)
        if len(traces) < expected and not suite.rehearsal:
            raise Failed(f"{expected} recorded processes left {len(traces)} traces")
        for variant in (*WATCHED, *ATTACHED):
            if not all(turn.seen[variant] for turn in turns) and not suite.rehearsal:
                raise Failed(f"{variant}: it saw nothing on the device")
        for variant in VARIANTS[1:]:
            groups = [
                [(r[BARE] / steps, r[variant] / steps) for r in turn.rounds if variant in r] for turn in turns
            ]
            limits = (None, LIMITS[variant]) if variant in LIMITS else None
            found = speed.benchmark(WORKLOAD, f"{GROUP}.{variant}", "s", steps, groups[0], limits)
            found.update(groups=groups, summary=pairs.summarize(groups))
            suite.add_benchmark(found)
            measured[variant] = found["summary"]
        for other in (*ATTACHED, "torch_cuda"):
            multiples[other] = excess(turns, DEVICES, other)
        data.update(sets=len(turns), steps=steps, seen=[turn.seen for turn in turns], excess=multiples)
        return f"{len(turns)} sets of {len(VARIANTS)} processes, {rounds} rounds, {steps} steps in a block"

    def judged(variant):
        def check(data):
            if variant not in measured:
                raise Failed(f"not measured ({GROUP}.measure failed, or --only left it out)")
            summary = data["summary"] = measured[variant]
            text = (
                f"{summary['a_median'] * 1e3:.3f} ms a step bare, ratio {speed.spread(summary)}, {summary['pairs']} pairs"
            )
            limit = LIMITS.get(variant)
            if limit is None or suite.rehearsal:
                return text + "; reported, not asserted"
            if summary["ratio_median"] > limit:
                raise Failed(f"over the target of {limit}; {text}")
            return text

        return check

    def beside_cupti(data):
        """T12."""
        if not multiples:
            raise Failed(f"not measured ({GROUP}.measure failed, or --only left it out)")
        data.update(multiples)
        text = (
            f"beyond a bare step it takes {excess_text(multiples[KINDS])} of what CUPTI takes for the same kinds alone, "
            f"{excess_text(multiples[ALL_OF_CUPTI])} with its callbacks and records read, "
            f"{excess_text(multiples['torch_cuda'])} of what torch.profiler does that watches the device"
        )
        if suite.rehearsal:
            return text + "; not asserted"
        most = {KINDS: MOST_OF_CUPTI, "torch_cuda": MOST_OF_PROFILER}
        if over := [other for other, limit in most.items() if not multiples[other] or multiples[other][0] > limit]:
            raise Failed(f"over the target beside {' and '.join(over)}; {text}")
        return text

    def parts(data):
        """Reported: what of it is CUPTI's, each part with those before it, in one process."""
        found = specification(suite)[WORKLOAD]
        out = suite.scratch(GROUP) / "parts.json"
        rounds = "4" if suite.quick else "20"
        library = library_of(suite)
        bench = REPOSITORY / "tools" / "dev" / "bench" / "device_cost.py"
        argv = [suite.python, bench, library, found["program"], "--rounds", rounds, "--out", out]
        suite.command(f"{GROUP}.parts", [*argv, "--", *found["arguments"]], timeout=150).expect_success("device_cost.py")
        data.update(json.loads(out.read_text(encoding="utf-8")))
        return "; ".join(f"{name} {speed.spread(level)}" for name, level in data["levels"].items() if name != BARE)

    return [
        (f"{GROUP}.parts", needs_gpu(suite, parts)),
        (f"{GROUP}.measure", measure),
        *((f"{GROUP}.{variant}", judged(variant)) for variant in VARIANTS[1:]),
        (f"{GROUP}.beside_cupti", beside_cupti),
    ]
