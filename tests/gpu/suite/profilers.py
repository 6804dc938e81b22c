"""What recording every call costs a training step, beside what torch.profiler costs the same step.

A set of processes takes turns with blocks of steps, as in `ratio`: bare, under `slipstream run --record` without
what the devices did (`tracer.device = "off"`), with it, bare again (the control), and, in one round of five, a process each for
torch.profiler watching the device alone, the host and the device, and both with stacks. In these three every timed block lies inside a profile of its own: starting it, and making its events when it
ends, is not timed. A profile that saw no kernel is a failure, and so is a recorded process that left no trace.
"""

import glob
import json
import time

import pairs

from . import speed
from .harness import GPU_TESTS, REPOSITORY, Failed, needs_gpu
from .paced import Paced, end_all

GROUP = "profilers"
BARE, RECORD, DEVICES, CONTROL = "bare", "record", "record_devices", "control"
# variant -> what torch.profiler watches there (paced_blocks.py)
WATCHED = {"torch_cuda": "cuda", "torch_cpu_cuda": "cpu_cuda", "torch_stacks": "stacks"}
VARIANTS = (BARE, RECORD, DEVICES, *WATCHED, CONTROL)
SETS, ROUNDS = 3, 20
# torch.profiler costs tens of percent, which few rounds tell; what slipstream may cost is three.
PROFILER_EVERY = 5
BLOCK_SECONDS = 0.2
LEAD_STEPS = 3
WORKLOAD = "resnet50_batch16"
# T11, T12. What torch.profiler costs is its own affair.
LIMITS = {RECORD: 1.01, DEVICES: 1.03}


def specification(suite):
    program = str(GPU_TESTS / "train_resnet.py")
    if suite.rehearsal:
        arguments = "--device cpu --model mobilenet_v2 --size 32 --batch 2 --workers 0 --in-memory 2".split()
        return {WORKLOAD: {"program": program, "arguments": arguments, "warm_up": 1}}
    arguments = "--model resnet50 --batch 16 --autocast --workers 0 --in-memory 8".split()
    return {WORKLOAD: {"program": program, "arguments": arguments, "warm_up": 20}}


class Turns:
    """One set of processes. rounds: a list of {variant: seconds}; seen: events of the device by variant."""

    def __init__(self, suite, number):
        self.suite = suite
        self.number = number
        self.processes = {}
        self.rounds = []
        self.seen = dict.fromkeys(WATCHED, 0)

    def start(self):
        for variant in VARIANTS:
            prefix = self.suite.run_prefix("--quiet", "--record") if variant in (RECORD, DEVICES) else []
            env = {"SLIPSTREAM_TRACER_DEVICE": "off"} if variant == RECORD else {}
            log = f"{GROUP}.{self.number}.{variant}"
            self.processes[variant] = Paced(self.suite, log, prefix, specification(self.suite), env)
        for process in self.processes.values():
            process.read(120)

    def block(self, variant, steps):
        process = self.processes[variant]
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


def checks(suite):
    measured = {}

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
        if len(traces) < 2 * len(turns) and not suite.rehearsal:
            raise Failed(f"{2 * len(turns)} recorded processes left {len(traces)} traces")
        for variant in WATCHED:
            if not all(turn.seen[variant] for turn in turns) and not suite.rehearsal:
                raise Failed(f"{variant}: the profiler saw nothing on the device")
        for variant in VARIANTS[1:]:
            groups = [
                [(r[BARE] / steps, r[variant] / steps) for r in turn.rounds if variant in r] for turn in turns
            ]
            limits = (None, LIMITS[variant]) if variant in LIMITS else None
            found = speed.benchmark(WORKLOAD, f"{GROUP}.{variant}", "s", steps, groups[0], limits)
            found.update(groups=groups, summary=pairs.summarize(groups))
            suite.add_benchmark(found)
            measured[variant] = found["summary"]
        data.update(sets=len(turns), steps=steps, seen=[turn.seen for turn in turns])
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

    def parts(data):
        """Reported: what of it is CUPTI's, each part with those before it, in one process."""
        found = specification(suite)[WORKLOAD]
        out = suite.scratch(GROUP) / "parts.json"
        rounds = "4" if suite.quick else "20"
        library = suite.build / "bench" / "gpu" / "libdevice_cost.so"
        bench = REPOSITORY / "tools" / "dev" / "bench" / "device_cost.py"
        argv = [suite.python, bench, library, found["program"], "--rounds", rounds, "--out", out]
        suite.command(f"{GROUP}.parts", [*argv, "--", *found["arguments"]], timeout=150).expect_success("device_cost.py")
        data.update(json.loads(out.read_text(encoding="utf-8")))
        return "; ".join(f"{name} {speed.spread(level)}" for name, level in data["levels"].items() if name != BARE)

    return [(f"{GROUP}.parts", needs_gpu(suite, parts)), (f"{GROUP}.measure", measure), *((f"{GROUP}.{variant}", judged(variant)) for variant in VARIANTS[1:])]
