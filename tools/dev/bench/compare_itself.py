#!/usr/bin/env python3
"""What `slipstream compare` says of a program and itself, and of one that is slower by a known share, on a noisy host.

    compare_itself.py --build build/release [--comparisons 40] [--planted 10] [--slower 0.03] [--noise 2] [--seconds 0.4]

Every comparison is `slipstream compare --commands` of one training loop (Python, on the simulated device) with itself, or with the
same loop with --slower more work in each step. Beside it run --noise processes that load a processor for a random while
and rest for a random while, so that two runs alike may differ by a factor of two. Printed, as JSON: how many comparisons
of the same found no difference; of the planted ones, how many found it, how many said how many pairs that takes, and how many were wrong;
and how far apart single runs of the same were. Exit status: 0 measured, 1 a comparison failed.

No GPU is needed: what is tried is the arithmetic, and the noise is the host's.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import ctypes, sys
ctypes.CDLL('libcudart.so.13', ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(None)
host = (ctypes.c_char * 4096)()
device = ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(device), 4096) == 0
work = int(sys.argv[1])
for step in range(int(sys.argv[2])):
    cuda.cudaMemcpy(device, host, ctypes.c_size_t(4096), 1)
    total = 0
    for i in range(work):
        total += i
    cuda.cudaDeviceSynchronize()
print('total', total)
"""
STEPS = 100


def make_noise(seed):
    """Loads a processor now and then, until it is ended."""
    draw = random.Random(seed)
    while True:
        end = time.monotonic() + draw.expovariate(1 / 0.4)
        while time.monotonic() < end:
            pass
        time.sleep(draw.expovariate(1 / 0.8))


def work_of(seconds):
    """Turns of the loop of one step, so that a run's steps take about so many seconds."""
    best = None
    for _ in range(5):
        begin = time.perf_counter()
        total = 0
        for i in range(100_000):
            total += i
        took = time.perf_counter() - begin
        best = took if best is None else min(best, took)
    return max(1000, int(100_000 * seconds / STEPS / best))


def compare(args, program, works):
    """The JSON of one comparison."""
    commands = [[sys.executable, program, str(work), str(STEPS)] for work in works]
    build = pathlib.Path(args.build).resolve()
    env = dict(os.environ, LD_LIBRARY_PATH=str(build / "sim"))
    argv = [build / "slipstream", "compare", "--json", "--commands", "-n", str(args.pairs)]
    # The numbers printed are not the same if the work is not.
    argv += ["--result", "nothing of it", "--", *commands[0], "--", *commands[1]]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"slipstream compare ended with {done.returncode}:\n{done.stderr}\n{done.stdout[-2000:]}")
    made = json.loads(done.stdout)
    if made["measured"] != "steps":
        raise RuntimeError(f"measured by {made['measured']}: {made['why_no_steps']}")
    return made


def spread(made):
    """The longest step time of a comparison's runs by the shortest."""
    figures = [figure for side in made["sides"] for figure in side["figures"]]
    return max(figures) / min(figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--comparisons", type=int, default=40, help="of the program with itself")
    parser.add_argument("--planted", type=int, default=10, help="comparisons with a slower one")
    parser.add_argument("--slower", type=float, default=0.03)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--noise", type=int, default=2, help="processes that load the machine now and then")
    parser.add_argument("--seconds", type=float, default=0.4, help="of a run's steps, on a quiet machine")
    args = parser.parse_args()

    work = work_of(args.seconds)
    made_noise = []
    for seed in range(args.noise):
        child = os.fork()
        if child == 0:
            make_noise(seed)
        made_noise.append(child)
    same, planted = [], []
    try:
        with tempfile.TemporaryDirectory() as place:
            program = pathlib.Path(place) / "train.py"
            program.write_text(PROGRAM, encoding="utf-8")
            for number in range(args.comparisons):
                same.append(compare(args, program, (work, work)))
                print(f"{number + 1} of {args.comparisons}: {same[-1]['speed_ratio']}", file=sys.stderr, flush=True)
            for number in range(args.planted):
                planted.append(compare(args, program, (work, round(work * (1 + args.slower)))))
                print(f"planted {number + 1} of {args.planted}: {planted[-1]['speed_ratio']}", file=sys.stderr, flush=True)
    except RuntimeError as error:
        print(f"compare_itself.py: {error}", file=sys.stderr)
        return 1
    finally:
        for child in made_noise:
            os.kill(child, 9)
            os.waitpid(child, 0)

    found = [made["speed_ratio"] for made in planted]
    slower = [ratio for ratio in found if ratio["different"] and ratio["high"] < 1]
    told = [ratio for ratio in found if not ratio["different"] and ratio["pairs_to_see"][0]["pairs"]]
    spreads = sorted(spread(made) for made in same) or [1.0]
    print(
        json.dumps(
            {
                "pairs_of_a_comparison": args.pairs,
                "noise_processes": args.noise,
                "same_program": len(same),
                "no_difference": sum(not made["speed_ratio"]["different"] for made in same),
                "spread_of_runs_median": spreads[len(spreads) // 2],
                "spread_of_runs_most": spreads[-1],
                "planted": len(planted),
                "planted_share": args.slower,
                "found_slower": len(slower),
                "said_how_many_pairs": len(told),
                "pairs_it_would_take": [ratio["pairs_to_see"][0]["pairs"] for ratio in told],
                "found_faster": sum(ratio["different"] and ratio["low"] > 1 for ratio in found),
                "intervals_that_hold_the_truth": sum(ratio["low"] <= 1 / (1 + args.slower) <= ratio["high"] for ratio in found),
            },
            indent=2,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
