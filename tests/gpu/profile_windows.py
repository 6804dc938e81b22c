"""profile_windows.py PROGRAM.py OUT.json STEPS,STEPS [ARGUMENTS]: counts the events that torch.profiler sees.

Trains a few steps to settle, then profiles one window of steps for each number given. What the profiler itself calls at
a window's edges is in every window alike, so the difference of two windows belongs to their steps.
"""

import collections
import gc
import importlib.util
import json
import os
import sys
import tempfile

import torch
import train_common
from torch.profiler import ProfilerActivity, profile

SETTLING_STEPS = 6


def load(path):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def window(trainer, steps, block_steps):
    activities = [ProfilerActivity.CPU]
    if trainer.device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, acc_events=True) as profiler:
        # The program's own loop, its synchronizations and its reading of the losses included.
        train_common.run_blocks(trainer, steps, block_steps)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    counts = collections.defaultdict(collections.Counter)
    for event in events:
        category = event.get("cat")
        if event.get("ph") == "X" and category in (
            "cuda_runtime",
            "cuda_driver",
            "kernel",
            "gpu_memcpy",
            "gpu_memset",
            "cpu_op",
        ):
            # Names of kernels and operators matter only in number.
            name = event["name"] if category in ("cuda_runtime", "cuda_driver") else "all"
            counts[category][name] += 1
    return {category: dict(sorted(names.items())) for category, names in sorted(counts.items())}


def main():
    program, out, windows = sys.argv[1:4]
    module = load(program)
    args = module.parse(sys.argv[4:])
    trainer = module.build(args)
    for _ in range(SETTLING_STEPS):
        trainer.step()
    trainer.synchronize()
    gc.collect()
    record = [{"steps": int(steps), "counts": window(trainer, int(steps), args.block_steps)} for steps in windows.split(",")]
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"windows": record}, file, indent=1)


if __name__ == "__main__":
    main()
