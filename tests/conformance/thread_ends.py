#!/usr/bin/env python3
"""How often a program hangs whose threads end with work pending in their default streams, while it uses stream-ordered memory.

    thread_ends.py BUILD [--rounds N] [--limit SECONDS] [--json FILE]

That the driver hangs then is its own fault (README.md); whether the library makes it more frequent is what this asks. The fuzzer runs, in
turns:

    bare        with nothing underneath
    off         with the library passing through
    pool        over its pool, which frees in stream order what it gives back
    pool.waits  over the same pool with frees that wait (cuMemFree): the test build's rule S73, broken

Prints for each how many runs hung, and the probability (Fisher's exact test, one-sided) that the pool would hang so often at least, were it no
different from each of the others. For a machine with a GPU: on the simulated device none hangs.

Exit status: 0 all ran, whatever hung; 1 a run failed otherwise.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys


def ways(build):
    library = (build / "libslipstream.so").resolve(strict=True)
    mutants = (build / "preload" / "libslipstream_mutants.so").resolve(strict=True)
    pool = ("--allocator", "segments", "--require", "parked,reused")
    return {
        "bare": (),
        "off": ("--library", library, "--allocator", "off"),
        "pool": ("--library", library, *pool),
        "pool.waits": ("--library", mutants, *pool, "--set", "BROKEN_RULE=S73"),
    }


def p_as_many(hung, runs, other_hung, other_runs):
    """That of hung + other_hung hangs, put down at random to runs + other_runs runs, at least `hung` are of the first."""
    all_hung, whole = hung + other_hung, math.comb(runs + other_runs, hung + other_hung)
    return sum(math.comb(runs, k) * math.comb(other_runs, all_hung - k) for k in range(hung, min(runs, all_hung) + 1)) / whole


def one(build, options, seed, limit):
    """Of one run: "ended", "hung" or what else it printed."""
    argv = [build / "conformance" / "run_conformance", "--program", build / "conformance" / "conformance_fuzz13_ptds",
            "--limit", str(limit), *options, "--", "--seed", str(seed), "--steps", "200", "--threads", "8", "--wait", "0"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=limit + 60, check=False)
    if done.returncode == 0:
        return "ended"
    said = done.stdout + done.stderr
    return "hung" if "stuck" in said else said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--limit", type=int, default=10, help="seconds after which a run hangs")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()
    hung, runs, wrong = dict.fromkeys(ways(build), 0), dict.fromkeys(ways(build), 0), []
    for seed in range(options.rounds):
        for way, underneath in ways(build).items():
            said = one(build, underneath, seed, options.limit)
            runs[way] += 1
            hung[way] += said == "hung"
            if said not in ("ended", "hung"):
                wrong.append(f"{way}, seed {seed}:\n{said}")
        print(f"{seed + 1} of {options.rounds}: hung {hung}", file=sys.stderr, flush=True)
    p = {way: p_as_many(hung["pool"], runs["pool"], hung[way], runs[way]) for way in runs if way != "pool"}
    print(f"{'underneath':<12}{'runs':>6}{'hung':>6}   p of the pool's hangs")
    for way in runs:
        print(f"{way:<12}{runs[way]:>6}{hung[way]:>6}   {f'{p[way]:.3g}' if way in p else ''}".rstrip())
    if options.json:
        options.json.write_text(json.dumps({"runs": runs, "hung": hung, "p": p}, indent=2) + "\n")
    print("\n".join(wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
