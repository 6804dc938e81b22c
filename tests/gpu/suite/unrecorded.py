"""What `slipstream advise` claims of a recorded training, beside what the repair gains where nobody records.

The scripts are those of the group advice (tests/gpu/faulty), which compares recorded runs with each other: a recording makes
steps longer, and those of many calls most. Here the training with its fault is recorded, its devices in its second part alone, so
that advise can leave out what recording them adds. Before that it runs with its fault and without it under `slipstream run`
alone, and step_clock.py times its steps.
"""

import json
import statistics

from . import advice, recorded
from .harness import GPU_TESTS, Failed, needs_gpu

GROUP = "unrecorded"
CLOCK = GPU_TESTS / "step_clock.py"
LEAST_STEPS = 10
# Of a recorded training: how long it trains, and how long after its first use of CUDA its devices are recorded. It begins to
# train two to four seconds after that.
TRAINS_SECONDS, DEVICES_AFTER_SECONDS = 12, 8
MOST_STEPS = 2000  # of short ones; a replay has room for two million calls
# The first two are medians of steps, what is gained a difference of means: what is claimed is one of all steps, too. The third
# is what advise left out as added by the recording.
COLUMNS = ("script", "recorded ms", "unrecorded ms", "left out ms", "claimed ms", "gained ms", "ratio")


def steps_of(times):
    """{mean, median} of the steps, in ns, from the times at which they began and the end of the last one."""
    lengths = [after - before for before, after in zip(times, times[1:])]
    if len(lengths) < LEAST_STEPS:
        raise Failed(f"{len(lengths)} steps are too few")
    return {"mean": statistics.fmean(lengths), "median": statistics.median(lengths)}


def row_of(script, findings, faulty, fixed):
    """What is claimed and what was gained; `faulty`, `fixed`: as of steps_of."""
    rules, _ = advice.faults(script)
    costs = (one["cost_per_step_ns"] for one in findings["advice"] if one["rule"] in rules)
    claimed, gained = next(costs, None), faulty["mean"] - fixed["mean"]
    can_tell = claimed is not None and gained > 0
    return {
        "script": script.stem,
        "recorded_ns": findings["step_time_median_ns"],
        "unrecorded_ns": faulty["median"],
        "left_out_ns": findings["recording_left_out_per_step_ns"],
        "claimed_ns": claimed,
        "gained_ns": gained,
        "ratio": claimed / gained if can_tell else None,
    }


def cells(row):
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
    times = (row[name] for name in ("recorded_ns", "unrecorded_ns", "left_out_ns", "claimed_ns", "gained_ns"))
    return (row["script"], *map(advice.milliseconds, times), ratio)


def steps_to_record(median):
    """How many of so many ns."""
    return max(LEAST_STEPS, min(MOST_STEPS, round(TRAINS_SECONDS * 1e9 / median)))


def clock(suite, script, fixed):
    """As of steps_of, of one run."""
    options = ["--device", "cpu", "--steps", "20", *advice.REHEARSED[script.stem].split()] if suite.rehearsal else []
    log = f"{GROUP}.{script.stem}"
    folder = suite.scratch(log.replace(".", "/", 1))
    out = folder / f"times{'-fixed' * fixed}.json"
    argv = [*suite.run_prefix("--quiet"), suite.python, CLOCK, out, script, *options, *["--fixed"] * fixed]
    environment = {"PYTHONWARNINGS": "ignore"} | recorded.settings(script)
    suite.command(log, argv, env=environment, timeout=120, cwd=folder).expect_success(log)
    return steps_of(json.loads(out.read_text(encoding="utf-8")))


def check_of(suite, script, rows):
    log = f"{GROUP}.{script.stem}"

    def check(data):
        data["faulty"], data["fixed"] = faulty, fixed = clock(suite, script, False), clock(suite, script, True)
        if suite.rehearsal:
            return f"a rehearsal: steps of {advice.milliseconds(faulty['median'])} and {advice.milliseconds(fixed['median'])} ms"
        options = ["--steps", steps_to_record(faulty["median"])]
        run = recorded.record(suite, log, script, options, environment={"SLIPSTREAM_TRACER_DEVICE_AFTER": DEVICES_AFTER_SECONDS})
        data["findings"] = findings = recorded.advise(suite, run, log)
        data["row"] = row = row_of(script, findings, faulty, fixed)
        rows.append(row)
        return ", ".join(f"{name} {cell}" for name, cell in zip(COLUMNS[1:], cells(row)[1:]))

    return check


def table_check(suite, rows):
    def check(data):
        if suite.rehearsal:
            return "a rehearsal: nothing is claimed"
        data["rows"] = rows
        data["table"] = text = advice.columns([COLUMNS, *map(cells, rows)])
        return f"reported, not asserted\n{text}"

    return check


def checks(suite):
    rows = []
    scripts = [script for script in advice.scripts() if script.stem not in advice.WELL_TUNED]
    found = [(f"{GROUP}.{script.stem}", check_of(suite, script, rows)) for script in scripts]
    found.append((f"{GROUP}.table", table_check(suite, rows)))
    return [(name, check if suite.rehearsal else needs_gpu(suite, check)) for name, check in found]
