"""What the report says that slipstream gained (docs/report.md, "What slipstream gained"), against steps that were timed.

A training runs bare and recorded in turns. The report claims nothing of a step as certain; what it gives is a bound from
above, where it gives one, and that is held against the steps. Host time is held against the time there was.
"""

import glob
import json
import statistics

from .harness import GPU_TESTS, Failed, needs_gpu, read_json

GROUP = "gains"
TURNS = 4
WARM_UP_BLOCKS = 1
# More than a wait takes by itself: to enter it, to wake up, and to launch to a device that has nothing to do.
WAIT_SECONDS = 50e-6
PROGRAMS = {
    "lm": ("train_lm.py", "--steps 60 --batch 8"),
    "small_tensors": ("train_transfer.py", "--workload small_tensors --steps 60"),
    "on_device": ("train_transfer.py", "--workload on_device --steps 60"),
}


def step_of(record):
    """Seconds of a step, of the blocks of a run behind its warm-up."""
    blocks = record["step_seconds"][WARM_UP_BLOCKS:]
    if not blocks:
        raise Failed("the training ran too few steps")
    return statistics.median(blocks)


def spread_of(seconds):
    return max(seconds) - min(seconds)


def measured_gain(bare, recorded):
    """(seconds by which a step is shorter, what the turns differ by)."""
    gain = statistics.median(bare) - statistics.median(recorded)
    return gain, spread_of(bare) + spread_of(recorded)


def bound_of(process):
    """The most seconds by which a step can be shorter, as the report has it; None: it has none."""
    gains, steps = process["gains"], process["steps"]["measured"]
    if gains["steps_shorter_by_at_most_ns"] is None:
        return None
    return (gains["steps_shorter_by_at_most_ns"] * 1e-9 + gains["skipped_waits"] * WAIT_SECONDS) / max(1, steps)


def wrong(process, bare, recorded):
    """What is wrong with what the report says; None: nothing."""
    gains, steps = process["gains"], process["steps"]
    if not steps["measured"]:
        return "no steps were found"
    for key in ("measured_ns", "estimated_ns"):
        values = [row[key] for row in gains["rows"] if row[key] is not None]
        if gains[key] is not None and gains[key] != sum(values):
            return f"{key} is {gains[key]} and its rows add up to {sum(values)}"
    if process["ahead"] is None:
        return "the devices were not recorded"
    went_on = process["ahead"]["step_thread"]["went_on_ns"]
    if went_on > steps["measured_ns"]:
        return f"the host went on for {went_on} ns in {steps['measured_ns']} ns of steps"
    gain, spread = measured_gain(bare, recorded)
    bound = bound_of(process)
    if bound is not None and gain > bound + spread:
        return f"a step is shorter by more than the bound of {bound * 1e3:.3f} ms"
    return None


def shown(process, bare, recorded):
    gain, spread = measured_gain(bare, recorded)
    bound = bound_of(process)
    steps = max(1, process["steps"]["measured"])
    of = lambda key: "none" if process["gains"][key] is None else f"{process['gains'][key] / steps / 1e6:.3f} ms"
    most = f"at most {bound * 1e3:.3f} ms" if bound is not None else f"no bound ({process['gains']['why_no_bound']})"
    return (
        f"a step takes {statistics.median(bare) * 1e3:.3f} ms bare and is shorter by {gain * 1e3:.3f} ms recorded "
        f"(spread {spread * 1e3:.3f}); claimed as certain: nothing, {most}; host time a step: measured "
        f"{of('measured_ns')}, estimated {of('estimated_ns')}"
    )


def check_of(suite, name):
    program, arguments = PROGRAMS[name]

    def run(side, turn, prefix):
        folder = suite.scratch(f"{GROUP}/{name}/{side}.{turn}")
        argv = [*prefix, suite.python, GPU_TESTS / program, *arguments.split(), "--out", folder / "record.json"]
        env = {"SLIPSTREAM_TRACER_DEVICE": "cupti", "PYTHONWARNINGS": "ignore"}
        suite.command(f"{GROUP}.{name}.{side}", argv, env=env, timeout=120, cwd=folder).expect_success(f"{name} {side}")
        return folder, step_of(read_json(folder / "record.json", f"the record of {name}"))

    def check(data):
        bare, recorded, folder = [], [], None
        for turn in range(TURNS):
            for side in ("bare", "recorded") if turn % 2 == 0 else ("recorded", "bare"):
                if side == "bare":
                    bare.append(run(side, turn, [])[1])
                else:
                    folder, seconds = run(side, turn, suite.run_prefix("--quiet", "--record"))
                    recorded.append(seconds)
        runs = glob.glob(str(folder / "slipstream-trace-*"))
        if len(runs) != 1:
            raise Failed(f"{len(runs)} folders with traces, not one")
        argv = [suite.slipstream, "report", runs[0], "--json"]
        answer = suite.command(f"{GROUP}.{name}", argv, timeout=120).expect_success("slipstream report")
        report = json.loads(answer.stdout)
        process = report["processes"][report["shown_process"]]
        data.update(bare=bare, recorded=recorded, gains=process["gains"], ahead=process["ahead"])
        if problem := wrong(process, bare, recorded):
            raise Failed(f"{problem}; {shown(process, bare, recorded)}")
        return shown(process, bare, recorded)

    return check


def checks(suite):
    return [(f"{GROUP}.{name}", needs_gpu(suite, check_of(suite, name))) for name in PROGRAMS]
