"""device_windows.py PROGRAM.py OUT.json STEPS WATCHED,... [ARGUMENTS]: what torch.profiler says that the device did.

Trains a few steps to settle, then three windows of steps, each with the device idle at both ends and an NVTX range
`window N` around it. The windows whose numbers are WATCHED (`none`: no window) lie inside a torch.profiler of the device
alone. OUT has the losses and, for each watched window, count and nanoseconds of every kernel, copy and memset by name.
"""

import collections
import gc
import json
import os
import sys
import tempfile

import torch
from profile_windows import SETTLING_STEPS, load
from torch.profiler import ProfilerActivity, profile

WINDOWS = 3
CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")


def done(profiler):
    """category -> name -> [count, nanoseconds]."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    found = {category: collections.defaultdict(lambda: [0, 0]) for category in CATEGORIES}
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in CATEGORIES:
            entry = found[event["cat"]][event["name"]]
            entry[0] += 1
            entry[1] += round(event["dur"] * 1000)
    return {category: dict(sorted(names.items())) for category, names in found.items()}


def train(trainer, number, steps):
    trainer.synchronize()
    torch.cuda.nvtx.range_push(f"window {number}")
    losses = [trainer.step() for _ in range(steps)]
    trainer.synchronize()
    torch.cuda.nvtx.range_pop()
    return losses


def main():
    program, out, steps, watched = sys.argv[1:5]
    watched = set() if watched == "none" else {int(number) for number in watched.split(",")}
    module = load(program)
    trainer = module.build(module.parse(sys.argv[5:]))
    for _ in range(SETTLING_STEPS):
        trainer.step()
    trainer.synchronize()
    gc.collect()
    losses, windows = [], {}
    for number in range(WINDOWS):
        if number in watched:
            with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
                losses += train(trainer, number, int(steps))
            windows[number] = done(profiler)
        else:
            losses += train(trainer, number, int(steps))
    trainer.close()
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"losses": [loss.item().hex() for loss in losses], "windows": windows}, file, indent=1)


if __name__ == "__main__":
    main()
