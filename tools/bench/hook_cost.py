#!/usr/bin/env python3
"""What a hook costs: hook_cost run bare and under the preload, alternating, by policy.

Usage: hook_cost.py [--build DIR] [--rounds N] [--out FILE] [--runtime DIR]

Prints, for each function, the time of a call bare and what each policy adds to it: median over the rounds, with the smallest
and the largest difference. --runtime names a folder with a real libcudart.so.13 to call instead of one that returns at once.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

VARIANTS = {
    "off": {"SLIPSTREAM_TRACER_COUNTERS": "off"},
    "calls": {"SLIPSTREAM_TRACER_COUNTERS": "calls"},
    "time": {"SLIPSTREAM_TRACER_COUNTERS": "time"},
}


def measure(program, environment, seconds):
    """ns per call by benchmark name."""
    output = subprocess.run(
        [program, "--benchmark_format=json", f"--benchmark_min_time={seconds}"],
        env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    result = {}
    for row in json.loads(output)["benchmarks"]:
        # Real time of the whole loop over all calls of all threads; a call's own time is that times the threads.
        result[row["name"].replace("/real_time", "")] = row["real_time"] * row["threads"]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    parser.add_argument("--rounds", default=7, type=int)
    parser.add_argument("--seconds", default="0.1")
    parser.add_argument("--runtime", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    program = str((options.build / "bench" / "hook_cost").resolve())
    second = {"HOOK_COST_SECOND_RUNTIME": str((options.build / "bench" / "null12" / "libcudart.so.12").resolve())}
    variants = dict(VARIANTS, **{"off, two runtimes": dict(VARIANTS["off"], **second)})
    library = str((options.build / "libslipstream.so").resolve())

    bare = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    if options.runtime:
        bare["LD_LIBRARY_PATH"] = str(options.runtime.resolve())
    rounds = []
    counters = tempfile.mkdtemp(prefix="slipstream-bench-")
    try:
        for _ in range(options.rounds):
            measured = {"bare": measure(program, bare, options.seconds)}
            for variant, settings in variants.items():
                environment = dict(bare, LD_PRELOAD=library, SLIPSTREAM_RUN_DIRECTORY=counters, **settings)
                measured[variant] = measure(program, environment, options.seconds)
            rounds.append(measured)
    finally:
        shutil.rmtree(counters)

    print(f"{'ns a call':28}{'bare':>8}" + "".join(f"{'+ ' + name:>22}" for name in variants))
    for name in rounds[0]["bare"]:
        line = f"{name:28}{statistics.median(r['bare'][name] for r in rounds):8.2f}"
        for variant in variants:
            added = [r[variant][name] - r["bare"][name] for r in rounds]
            line += f"{statistics.median(added):10.2f} ({min(added):.1f}..{max(added):.1f})".rjust(22)
        print(line)
    if options.out:
        options.out.write_text(json.dumps({"benchmark": "hook_cost", "rounds": rounds}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
