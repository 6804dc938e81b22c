"""Where the time of a step goes: what torch.profiler saw of the device and of CUDA's calls, in parts that add up.

A step on the device is kernels, copies that run beside no kernel, and nothing at all ("idle": the device waits for the
host). Beside it, what the host's thread does: moving data (MOVING in train_common.py: all that a program does to bring a
batch to the device, staging included), and waiting inside CUDA's synchronizing calls.
"""

import json

GPU_KERNELS = ("kernel", "gpu_memset")
GPU_COPIES = ("gpu_memcpy",)
CALLS = ("cuda_runtime", "cuda_driver")
PARTS = ("kernels", "copies_alone", "idle")


def union(intervals):
    """Length of what at least one of (start, end) covers."""
    total = 0.0
    reached = float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def intervals(events, categories, name=""):
    return [
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("ph") == "X" and event.get("cat") in categories and name in event["name"]
    ]


def of_trace(events, steps, seconds, moving_seconds):
    """Milliseconds a step, from the events of a trace of `steps` steps (times in microseconds)."""
    kernels = union(intervals(events, GPU_KERNELS))
    busy = union(intervals(events, GPU_KERNELS + GPU_COPIES))
    calls = [event for event in events if event.get("ph") == "X" and event.get("cat") in CALLS]
    waits = sum(event["dur"] for event in calls if "Synchronize" in event["name"])
    found = {
        "step": seconds * 1e6,
        "kernels": kernels,
        "copies_alone": busy - kernels,
        "idle": seconds * 1e6 - busy,
        "copies_to_device": union(intervals(events, GPU_COPIES, "HtoD")),
        "copies_to_host": union(intervals(events, GPU_COPIES, "DtoH")),
        "host_moving": moving_seconds * 1e6,
        "host_waiting": waits,
    }
    found = {name: value / 1e3 / steps for name, value in found.items()}
    found["launches"] = sum("LaunchKernel" in event["name"] for event in calls) / steps
    return found


def of_file(path, answer, steps):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return of_trace(events, steps, answer["seconds"], answer["moving_seconds"])


def in_words(found):
    parts = " + ".join(f"{name.replace('_', ' ')} {found[name]:.2f}" for name in PARTS)
    return (
        f"{found['step']:.2f} ms = {parts}; copies to the device {found['copies_to_device']:.2f}, to the host "
        f"{found['copies_to_host']:.2f}; the host moving data {found['host_moving']:.2f}, in synchronizations "
        f"{found['host_waiting']:.2f}"
    )
