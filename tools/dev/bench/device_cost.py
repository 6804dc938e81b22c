#!/usr/bin/env python3
"""What recording the work of devices costs a training step, part by part, within one process (device_cost.cpp).

    device_cost.py LIBRARY PROGRAM.py [--rounds N] [--seconds S] [--out FILE] [-- PROGRAM'S ARGUMENTS]

Levels take turns in blocks of steps, each round in another order. PROGRAM.py is one of tests/gpu (train_resnet.py). Needs PyTorch and a GPU; run it bare.
Printed: for each level the median step, and of its ratios to the round's bare block the median and a bootstrap 95 % interval.
"""

import argparse
import ctypes
import glob
import importlib.util
import json
import os
import random
import statistics
import sys
import time

import pairs

LEVELS = ("bare", "kernels", "copies, sets and waits", "driver callbacks", "records read", "fetched 4 times a second",
          "driver records, no callbacks")


def load(path):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find_cupti():
    """The one that PyTorch is linked to."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            if "libcupti.so" in line:
                return line.split(None, 5)[5].strip()
    sys.exit("no libcupti in this process")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.25, help="of a block")
    parser.add_argument("--out")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args = parser.parse_args(sys.argv[1:split])
    arguments = sys.argv[split + 1 :]
    module = load(args.program)
    trainer = module.build(module.parse(arguments))
    for _ in range(20):
        trainer.step()
    trainer.synchronize()
    library = ctypes.CDLL(args.library)
    library.device_cost_records.restype = library.device_cost_calls.restype = ctypes.c_uint64
    if library.device_cost_open(find_cupti().encode()):
        sys.exit("libcupti cannot be opened")

    def block(level, steps):
        status = library.device_cost_switch(level)
        if status:
            sys.exit(f"{LEVELS[level]}: CUPTI said {status}")
        for _ in range(3):
            trainer.step()
        trainer.synchronize()
        calls, start = library.device_cost_calls(), time.perf_counter()
        for _ in range(steps):
            trainer.step()
        trainer.synchronize()
        seconds = (time.perf_counter() - start) / steps
        return seconds, (library.device_cost_calls() - calls) / steps

    steps = max(2, int(args.seconds / block(0, 5)[0]))
    order = random.Random(1)
    rounds = []
    for _ in range(args.rounds + 1):
        levels = list(range(len(LEVELS)))
        order.shuffle(levels)
        rounds.append({level: block(level, steps) for level in levels})
    library.device_cost_switch(0)
    rounds = rounds[1:]  # the first sets CUPTI up
    found = {}
    for level, name in enumerate(LEVELS):
        summary = pairs.summarize([[(one[0][0], one[level][0]) for one in rounds]])
        calls = statistics.median(one[level][1] for one in rounds)
        found[name] = {**summary, "callbacks_per_step": calls}
        print(
            f"{name:26} {summary['b_median'] * 1e3:8.3f} ms  {summary['ratio_median']:.4f} "
            f"({summary['ratio_low']:.4f} to {summary['ratio_high']:.4f})  {calls:.0f} callbacks a step"
        )
    print(f"{library.device_cost_records()} records read, {steps} steps in a block, {args.rounds} rounds")
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump({"levels": found, "steps": steps, "rounds": args.rounds}, file, indent=1)
    trainer.close()


if __name__ == "__main__":
    main()
