"""What slipstream costs a training step: blocks of steps, taken in turn by processes that differ only in slipstream.

One round is one block in each process: bare, slipstream with everything off, slipstream with its default policy, and
bare again. The order rotates from round to round. A pair is bare's and a variant's block of one round, so whatever
drifts over seconds drifts for both. The second bare process is the control: its ratio says how small a difference the
method can see. One set of four processes is a group; every group is started afresh, since a process's place in memory
alone can shift its speed, and the interval is a bootstrap over groups and pairs in them (tools/bench/pairs.py).
"""

import json
import select
import subprocess
import time

import pairs

from . import harness
from .harness import GPU_TESTS, Failed

OFF_POLICY = """version = 1

[tracer]
counters = "off"
nvtx = false
"""

BARE, OFF, DEFAULT, CONTROL = "bare", "off", "default", "control"
VARIANTS = (BARE, OFF, DEFAULT, CONTROL)
BLOCK_SECONDS = 0.5
LEAD_STEPS = 3
# T10 and the "0.998-1.002" for engines off; T11 for the default policy, which counts and times every call.
LIMITS = {OFF: (0.998, 1.002), DEFAULT: (0.0, 1.01), CONTROL: (0.998, 1.002)}


def workloads(suite):
    """name -> (specification for paced_blocks.py, whether its ratio is asserted or only reported)."""
    lm, resnet = str(GPU_TESTS / "train_lm.py"), str(GPU_TESTS / "train_resnet.py")
    if suite.rehearsal:
        tiny = ["--device", "cpu", "--layers", "2", "--width", "32", "--heads", "2", "--length", "16", "--batch", "2"]
        return {"lm": ({"program": lm, "arguments": tiny}, False)}
    return {
        "resnet50": (
            {
                "program": resnet,
                "arguments": "--model resnet50 --batch 64 --autocast --workers 0 --in-memory 8".split(),
                "warm_up": 20,
            },
            True,
        ),
        "lm": (
            {
                "program": lm,
                "arguments": (
                    "--layers 12 --width 768 --heads 12 --length 512 --batch 16 --vocabulary 16384 --autocast".split()
                ),
                "warm_up": 15,
            },
            True,
        ),
        # Every step waits for the host: where a hook's nanoseconds show most. Reported.
        "lm_launch_bound": (
            {
                "program": lm,
                "arguments": "--layers 6 --width 128 --heads 4 --length 64 --batch 2".split(),
                "warm_up": 30,
            },
            False,
        ),
    }


class Paced:
    """A paced_blocks.py process and its conversation."""

    def __init__(self, suite, variant, prefix, specification):
        self.suite = suite
        self.variant = variant
        # Hash randomisation alone moves a host-bound step by tenths of a percent; both sides get the same.
        env = harness.environment_with(
            {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1" if suite.rehearsal else "4", "PYTHONWARNINGS": "ignore"}
        )
        argv = [*prefix, suite.python, GPU_TESTS / "paced_blocks.py", json.dumps(specification)]
        self.log = open(suite.logs / f"ratio.{variant}.stderr.txt", "ab")  # pylint: disable=consider-using-with
        self.process = suite.spawn(argv, env, stdin=subprocess.PIPE, stderr=self.log)

    def read(self, timeout):
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            raise Failed(f"{self.variant} did not answer within {timeout:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.variant} ended: see ratio.{self.variant}.stderr.txt in the logs")
        try:
            return json.loads(line)
        except ValueError:
            raise Failed(f"{self.variant} printed {line!r:.200}") from None

    def block(self, workload, steps):
        request = {"workload": workload, "lead": LEAD_STEPS, "steps": steps}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return self.read(60)["seconds"]

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        self.suite.kill_group(self.process)
        self.process.stdout.close()
        self.process.wait()
        self.suite.forget(self.process)
        self.log.close()


def measure_group(suite, prefixes, specification, rounds, block_steps):
    """One set of processes; rounds and block_steps are by workload, the latter filled at the first use.

    Returns {workload: [{variant: seconds} for each round]}.
    """
    processes = {}
    try:
        for variant in VARIANTS:
            processes[variant] = Paced(suite, variant, prefixes[variant], specification)
        for process in processes.values():
            process.read(120)
        measured = {}
        for workload in specification:
            if workload not in block_steps:
                probe = 5
                seconds = processes[BARE].block(workload, probe) / probe
                block_steps[workload] = max(probe, round(BLOCK_SECONDS / seconds))
            # One round that does not count: the first block after another workload's.
            for process in processes.values():
                process.block(workload, block_steps[workload])
            measured[workload] = []
            for number in range(rounds[workload]):
                order = [VARIANTS[(number + place) % len(VARIANTS)] for place in range(len(VARIANTS))]
                measured[workload].append(
                    {variant: processes[variant].block(workload, block_steps[workload]) for variant in order}
                )
        return measured
    finally:
        for process in processes.values():
            process.end()


def verdict(summary, limits):
    """None when the ratio is within its limits, else what is wrong."""
    low, high = limits
    if low <= summary["ratio_median"] <= high:
        return None
    return f"{summary['ratio_median']:.4f} is outside {low} to {high}"


def text(summary):
    return f"{summary['ratio_median']:.4f} ({summary['ratio_low']:.4f} to {summary['ratio_high']:.4f})"


def checks(suite):
    # One check measures all; the others read from it.
    measured = {}
    block_steps = {}

    def measure(data):
        policy = suite.scratch("ratio") / "off.toml"
        policy.write_text(OFF_POLICY, encoding="utf-8")
        prefixes = {
            BARE: [],
            CONTROL: [],
            OFF: suite.run_prefix("--policy", policy, "--quiet"),
            DEFAULT: suite.run_prefix("--quiet"),
        }
        specification = {name: specification for name, (specification, _) in workloads(suite).items()}
        groups, most = (2, 4) if suite.quick else (5, 6)
        rounds = {name: most if asserted else 4 for name, (_, asserted) in workloads(suite).items()}
        # What comes after this (benchmarks in C++) needs its share of the time.
        reserve = 40
        longest = 0.0
        done = 0
        while done < groups and (done < 2 or suite.remaining() - reserve > longest * 1.1):
            start = time.monotonic()
            for name, values in measure_group(suite, prefixes, specification, rounds, block_steps).items():
                measured.setdefault(name, []).append(values)
            longest = max(longest, time.monotonic() - start)
            done += 1
        data.update(groups=done, rounds=rounds, block_steps=block_steps)
        for name, all_rounds in measured.items():
            for variant in (OFF, DEFAULT, CONTROL):
                per_step = [
                    [(r[BARE] / block_steps[name], r[variant] / block_steps[name]) for r in rounds_of_group]
                    for rounds_of_group in all_rounds
                ]
                suite.add_benchmark(
                    {
                        "name": name,
                        "variant": variant,
                        "unit": "s",
                        "block_steps": block_steps[name],
                        "groups": per_step,
                        "limits": LIMITS[variant],
                        "asserted": workloads(suite)[name][1],
                        "summary": pairs.summarize(per_step),
                    }
                )
        return f"{done} sets of 4 processes, rounds {rounds}, steps in a block {block_steps}"

    def judged(workload, variant, asserted):
        def check(data):
            found = [b for b in suite.results["benchmarks"] if b["name"] == workload and b["variant"] == variant]
            if not found:
                raise Failed("not measured (ratio.measure failed, or --only left it out)")
            summary = data["summary"] = found[-1]["summary"]
            if summary["pairs"] < 7:
                raise Failed(f"only {summary['pairs']} pairs")
            milliseconds = (
                f"{summary['a_median'] * 1e3:.3f} ms a step bare, ratio {text(summary)}, {summary['pairs']} pairs"
            )
            problem = verdict(summary, LIMITS[variant])
            if problem and asserted:
                raise Failed(f"{problem}; {milliseconds}")
            return milliseconds + ("" if asserted else "; reported, not asserted")

        return check

    result = [("ratio.measure", measure)]
    for workload, (_, asserted) in workloads(suite).items():
        for variant in (CONTROL, OFF, DEFAULT):
            result.append((f"ratio.{workload}.{variant}", judged(workload, variant, asserted)))
    return result
