"""What slipstream costs a training step whose data is there already.

Blocks of steps are taken in turn by processes that differ only in slipstream.

One round is one block in each process: bare, slipstream with everything off, slipstream with its default policy, the
same with every call recorded, and bare again. The order rotates from round to round. A pair is bare's and a variant's block of one round, so whatever
drifts over seconds drifts for both. The second bare process is the control: its ratio says how small a difference the
method can see. One set of five processes is a group; every group is started afresh, since a process's place in memory
alone can shift its speed, and the interval is a bootstrap over groups and pairs in them (tools/dev/bench/pairs.py).
"""

import time

import pairs

from .harness import GPU_TESTS, OFF_POLICY, Failed
from .paced import Paced, end_all

BARE, OFF, DEFAULT, RECORD, CONTROL = "bare", "off", "default", "record", "control"
VARIANTS = (BARE, OFF, DEFAULT, RECORD, CONTROL)
BLOCK_SECONDS = 0.5
LEAD_STEPS = 3
LEAST_PAIRS = 7
# What a set takes where that is not known yet.
FIRST_SET_SECONDS = 76
# T10 and the "0.998-1.002" for engines off; T11 for the default policy, which counts and times every call and
# makes copies its own way, and for a trace of every call with its Python line.
LIMITS = {OFF: (0.998, 1.002), DEFAULT: (0.0, 1.01), RECORD: (0.0, 1.01), CONTROL: (0.998, 1.002)}


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


def measure_group(suite, prefixes, specification, rounds, block_steps):
    """One set of processes; rounds and block_steps are by workload, the latter filled at the first use.

    Returns {workload: [{variant: seconds} for each round]}.
    """
    processes = {}
    try:
        for variant in VARIANTS:
            processes[variant] = Paced(suite, f"ratio.{variant}", prefixes[variant], specification)
        for process in processes.values():
            process.read(120)
        measured = {}
        for workload in specification:
            if workload not in block_steps:
                probe = 5
                seconds = processes[BARE].block(workload, LEAD_STEPS, probe) / probe
                block_steps[workload] = max(probe, round(BLOCK_SECONDS / seconds))
            # One round that does not count: the first block after another workload's.
            for process in processes.values():
                process.block(workload, LEAD_STEPS, block_steps[workload])
            measured[workload] = []
            for number in range(rounds[workload]):
                order = [VARIANTS[(number + place) % len(VARIANTS)] for place in range(len(VARIANTS))]
                steps = block_steps[workload]
                measured[workload].append(
                    {variant: processes[variant].block(workload, LEAD_STEPS, steps) for variant in order}
                )
        return measured
    finally:
        end_all(processes.values())


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
        policy = suite.policy("off", OFF_POLICY)
        prefixes = {
            BARE: [],
            CONTROL: [],
            OFF: suite.run_prefix("--policy", policy, "--quiet"),
            DEFAULT: suite.run_prefix("--quiet"),
            RECORD: ["env", "SLIPSTREAM_TRACER_DEVICE=off", *suite.run_prefix("--quiet", "--record")],  # T11
        }
        specification = {name: specification for name, (specification, _) in workloads(suite).items()}
        groups, most = (2, 4) if suite.quick else (5, LEAST_PAIRS)
        rounds = {name: most if asserted else 4 for name, (_, asserted) in workloads(suite).items()}
        longest = FIRST_SET_SECONDS
        done = 0
        while done < groups and suite.remaining() > longest * 1.1:
            start = time.monotonic()
            for name, values in measure_group(suite, prefixes, specification, rounds, block_steps).items():
                measured.setdefault(name, []).append(values)
            longest = max(longest if done else 0.0, time.monotonic() - start)
            done += 1
        if not done:
            raise Failed(f"only {suite.remaining():.0f} s were left: not enough for one set of processes")
        data.update(groups=done, rounds=rounds, block_steps=block_steps)
        for name, all_rounds in measured.items():
            for variant in (OFF, DEFAULT, RECORD, CONTROL):
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
        return f"{done} sets of {len(VARIANTS)} processes, rounds {rounds}, steps in a block {block_steps}"

    def judged(workload, variant, asserted):
        def check(data):
            found = [b for b in suite.results["benchmarks"] if b["name"] == workload and b["variant"] == variant]
            if not found:
                raise Failed("not measured (ratio.measure failed, or --only left it out)")
            summary = data["summary"] = found[-1]["summary"]
            if summary["pairs"] < LEAST_PAIRS and asserted:
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
        for variant in (CONTROL, OFF, DEFAULT, RECORD):
            result.append((f"ratio.{workload}.{variant}", judged(workload, variant, asserted)))
    return result
