"""Recorded allocations of real programs, made again through every allocator (tools/dev/bench/replay.py).

The traces are tests/gpu/traces/*.alloc, as `slipstream export RUN --allocations FILE` writes them. Two checks of each: one
compares every byte of every block, the other takes times and memory, which are reported and not asserted. In a rehearsal
both run on the simulated device, where the build has one.
"""

from . import harness
from .allocator import simulator
from .harness import GPU_TESTS, Failed, Skipped, needs_gpu
from .sanitizer import library_path

GROUP = "replay"
TRACES = GPU_TESTS / "traces"
PROGRAM = harness.REPOSITORY / "tools" / "dev" / "bench" / "replay.py"
TURNS, REPLAYS = 3, 2
# Of one process, and of all of a check; the driver's own calls take the longest.
RUN_SECONDS, CHECK_SECONDS = 120, 500
# After these no further turn begins.
TURN_SECONDS = 60


def replayed(suite, trace, log, *options):
    """(what replay.py printed, its record); Failed where there is none."""
    if not (suite.build / "bench" / "gpu" / "replay_allocations").exists():
        raise Failed("the build folder has no bench/gpu/replay_allocations: the one that travels must have it")
    if suite.rehearsal and not (suite.build / "sim").exists():
        raise Skipped("a rehearsal, and the build has no simulated device")
    out = suite.scratch(GROUP) / f"{log}.json"
    env = simulator(suite, "256GiB") | {"SIMCUDA_POISON": "0"} if suite.rehearsal else {}
    env.setdefault("LD_LIBRARY_PATH", library_path(suite) or None)
    argv = [suite.python, PROGRAM, trace, "--library", suite.library, "--timeout", RUN_SECONDS]
    # The CUDA runtime inside RMM does not run on the simulated device.
    argv += ["--allocators", "driver,async,segments"] if suite.rehearsal else []
    argv += ["--seconds", TURN_SECONDS, "--out", out, *options]
    result = suite.command(log, argv, env=env, timeout=CHECK_SECONDS)
    if result.timed_out:
        raise Failed("did not end in time")
    # With 1 there is a record, which says what failed.
    if result.status not in (0, 1):
        result.expect_success("replay.py")
    return result.stdout.decode(), harness.read_json(out, "replay.py")


def problems_of(record):
    return [
        f"{name}: {figures['status'].replace('_', ' ')}: {figures['problem']}"
        for name, figures in record["summary"].items()
        if figures["status"] != "ok"
    ]


def shown(record):
    """One line of all allocators' figures."""
    parts = []
    for name, figures in record["summary"].items():
        if figures["status"] != "ok":
            continue
        text = f"{name}"
        for what, key in (("allocation", "allocation_ns_p50"), ("free", "free_ns_p50")):
            text += f" {what} {figures[key]:.0f} ns" if figures[key] is not None else ""
        if ratio := figures.get("turn_ratio"):
            text += f", replay {ratio['ratio_median']:.3f} ({ratio['least']:.3f} to {ratio['most']:.3f}) of the driver's"
        had = figures["live_of_reserved"] or figures["live_of_driver_used"]
        text += f", live {had:.3f} of what it had" if had else ""
        parts.append(text)
    return "; ".join(parts)


def compared(record):
    """How much was compared, in words; Failed where an allocator compared nothing."""
    parts = []
    for name, runs in record["runs"].items():
        checked = [run["check"] for run in runs if run.get("check")]
        if not checked or not all(check["blocks"] for check in checked):
            raise Failed(f"{name}: no block was compared: this shows nothing")
        parts.append(f"{name} {sum(check['blocks'] for check in checked)}")
    return f"blocks as they were written: {', '.join(parts)}"


def trace_checks(suite, trace):
    name = f"{GROUP}.{trace.stem}"
    few = ("--turns", 1, "--replays", 1)

    def check(data):
        _, record = replayed(suite, trace, f"{name}.bytes", "--check", *few)
        data["record"] = record
        if problems := problems_of(record):
            raise Failed("; ".join(problems))
        return compared(record)

    def measure(data):
        counts = few if suite.rehearsal or suite.quick else ("--turns", TURNS, "--replays", REPLAYS)
        text, record = replayed(suite, trace, name, *counts)
        data["record"], data["table"] = record, text
        if problems := problems_of(record):
            raise Failed(f"{'; '.join(problems)}; {shown(record)}")
        return f"{shown(record)}; reported, not asserted"

    return [
        (each, run if suite.rehearsal else needs_gpu(suite, run))
        for each, run in ((f"{name}.bytes", check), (name, measure))
    ]


def none(_data):
    raise Skipped(
        "no recorded trace in tests/gpu/traces: `slipstream export RUN --allocations FILE` writes one of a recorded run"
    )


def checks(suite, folder=TRACES):
    traces = sorted(folder.glob("*.alloc"))
    return [check for trace in traces for check in trace_checks(suite, trace)] or [(GROUP, none)]
