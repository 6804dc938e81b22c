#!/usr/bin/env python3
"""What a hook costs: hook_cost run bare and under the preload, alternating, by policy.

Usage: hook_cost.py [--build DIR] [--rounds N] [--out FILE] [--runtime DIR] [--python | --driver]

Prints, for each function, the time of a call bare and what each policy adds to it: median over the rounds, with the smallest
and the largest difference. --runtime names a folder with a real libcudart.so.13 to call instead of one that returns at once.

A recorded call is measured at a pace at which records can be written (Paced), and as a ratio: what recording adds to a call
over what counting and timing it adds, in the same rounds. --python measures that alone, with the calls made from 28 functions
deep in the Python that runs this, so that there are stacks to read. "dropped" must be 0 for those figures to mean anything.

--driver measures functions of the driver, and look-ups by name: "passing" is the runtime level without engines, at which their hooks
are jumps; "watched" and "served" are the runtime and the driver level with the engines there; the others the driver level without. For
what an older libcuda lacks name one as --runtime (build/release/sim).
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

VARIANTS = {
    "off": {"SLIPSTREAM_TRACER_COUNTERS": "off"},
    "calls": {"SLIPSTREAM_TRACER_COUNTERS": "calls"},
    "time": {"SLIPSTREAM_TRACER_COUNTERS": "time"},
}
NO_ENGINES = {"SLIPSTREAM_TRANSFER_H2D": "off", "SLIPSTREAM_TRANSFER_D2H": "off",
              "SLIPSTREAM_ALLOCATOR_MODE": "off"}
DRIVER_LEVEL = {"SLIPSTREAM_INTERCEPT_LEVEL": "driver"}
ENGINES = {"SLIPSTREAM_TRANSFER_START": "now"}  # and START_RUNTIME
DRIVER_VARIANTS = {"passing": NO_ENGINES, "watched": ENGINES, "served": {**DRIVER_LEVEL, **ENGINES},
                   **{name: {**DRIVER_LEVEL, **NO_ENGINES, **settings} for name, settings in VARIANTS.items()}}
START_RUNTIME = "HOOK_COST_START_RUNTIME"
RECORDED = {
    "record": {"SLIPSTREAM_TRACER_RECORD": "on", "SLIPSTREAM_TRACER_STACKS": "none"},
    "record, lines": {"SLIPSTREAM_TRACER_RECORD": "on", "SLIPSTREAM_TRACER_STACKS": "line"},
    "record, stacks": {"SLIPSTREAM_TRACER_RECORD": "on", "SLIPSTREAM_TRACER_STACKS": "python"},
    "record, full": {"SLIPSTREAM_TRACER_RECORD": "on", "SLIPSTREAM_TRACER_STACKS": "full"},
}
COUNTED = "time"  # what recorded calls are compared with: they are counted and timed too
PACED = "Paced"


def measure(command, environment, seconds, only=""):
    """ns per call by benchmark name."""
    output = subprocess.run(
        [*command, "--benchmark_format=json", f"--benchmark_min_time={seconds}", f"--benchmark_filter={only or '.'}"],
        env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    result = {}
    for row in json.loads(output)["benchmarks"]:
        name = row.get("label") or row["name"]
        name = name.replace("/real_time", "").replace("/manual_time", "").replace("/iterations:400", "")
        # Real time of the whole loop over all calls of all threads; a call's own time is that times the threads.
        result[name] = row["real_time"] * row["threads"]
    return result


def dropped(directory):
    """How many records the traces in the directory lack, by the last bytes of each; they are removed."""
    total = 0
    for path in pathlib.Path(directory).glob("*.spool"):
        reason, _, _, lost, _, _ = struct.unpack("=IiQQQQ", path.read_bytes()[-40:])
        if reason != 1:
            sys.exit(f"{path} was not finished")
        total += lost
        path.unlink()
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    parser.add_argument("--rounds", default=7, type=int)
    parser.add_argument("--seconds", default="0.1")
    parser.add_argument("--runtime", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--python", action="store_true")
    which.add_argument("--driver", action="store_true")
    options = parser.parse_args()
    bench = (options.build / "bench").resolve()
    command = [str(bench / "hook_cost")]
    if options.python:
        command = [sys.executable, str(pathlib.Path(__file__).with_name("python_stack.py")), str(bench / "libhook_cost.so")]
    if options.driver:
        command = [str(bench / "driver_hook_cost")]
    second = {"HOOK_COST_SECOND_RUNTIME": str(bench / "null12" / "libcudart.so.12")}
    variants = {COUNTED: VARIANTS[COUNTED]} if options.python else {**VARIANTS, "off, two runtimes": {**VARIANTS["off"], **second}}
    recorded = RECORDED
    if options.driver:
        variants, recorded = DRIVER_VARIANTS, {}
        for name in ("watched", "served"):
            variants[name] = {**variants[name], START_RUNTIME: str(bench / "null" / "libcudart.so.13")}
    library = str((options.build / "libslipstream.so").resolve())

    bare = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    if options.runtime:
        bare["LD_LIBRARY_PATH"] = str(options.runtime.resolve())
    only = PACED if options.python else ""
    rounds = []
    lost = dict.fromkeys(recorded, 0)
    counters = tempfile.mkdtemp(prefix="slipstream-bench-")
    try:
        for _ in range(options.rounds):
            measured = {"bare": measure(command, bare, options.seconds, only)}
            preloaded = dict(bare, LD_PRELOAD=library, SLIPSTREAM_RUN_DIRECTORY=counters)
            for variant, settings in variants.items():
                measured[variant] = measure(command, dict(preloaded, **settings), options.seconds, only)
            for variant, settings in recorded.items():
                measured[variant] = measure(command, dict(preloaded, **settings), options.seconds, PACED)
                lost[variant] += dropped(counters)
            rounds.append(measured)
    finally:
        shutil.rmtree(counters)

    columns = [*variants, *recorded]
    print(f"{'ns a call':28}{'bare':>8}" + "".join(f"{'+ ' + name:>22}" for name in columns))
    for name in rounds[0]["bare"]:
        line = f"{name:28}{statistics.median(r['bare'][name] for r in rounds):8.2f}"
        for variant in columns:
            if name not in rounds[0][variant]:
                line += "-".rjust(22)
                continue
            added = [r[variant][name] - r["bare"][name] for r in rounds]
            line += f"{statistics.median(added):10.2f} ({min(added):.1f}..{max(added):.1f})".rjust(22)
        print(line)
    if recorded:
        print(f"\nwhat a recorded call adds / what a counted and timed one does{' (Python, 28 deep)' if options.python else ''}")
    for variant in recorded:
        for name in rounds[0][variant]:
            ratios = [(r[variant][name] - r["bare"][name]) / (r[COUNTED][name] - r["bare"][name]) for r in rounds]
            print(f"{variant + ', ' + name:36}{statistics.median(ratios):6.2f} ({min(ratios):.2f}..{max(ratios):.2f})")
        print(f"{variant + ', dropped':36}{lost[variant]:6}")
    if options.out:
        record = {"benchmark": "hook_cost", "rounds": rounds, "dropped": lost}
        options.out.write_text(json.dumps(record, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
