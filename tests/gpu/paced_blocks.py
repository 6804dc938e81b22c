"""paced_blocks.py SPECIFICATION: trains in blocks of steps, each on request, so that several processes can take turns.

SPECIFICATION is JSON: {"workload": {"program": "train_lm.py", "arguments": ["--batch", "8"]}, ...}. All workloads are
built and warmed up first; then {"ready": true} is printed, and each line {"workload": name, "lead": n, "steps": n} on
standard input is answered by {"seconds": s}, the time of `steps` steps between two synchronized clock readings, after
`lead` steps that are not timed (they bring caches and clocks back after the other processes' turns). With "fetch": true
batches are only taken from the loader; with "trace": path torch.profiler writes there what the device and CUDA's calls did
in these steps, and the answer says how long the program was at moving data; with "profile": "cuda", "cpu_cuda" or "stacks"
torch.profiler watches the steps, the device alone, the host too, or both with stacks, and the answer says how many events of
the device it has. With "count": true it says how many bytes of records CUPTI has delivered, where PACED_CUPTI, "LEVEL:LIBRARY", has
attached it behind the warm-up (tools/dev/bench/device_cost.cpp). With "resident": true the answer is "peak_resident", the most
bytes that the process has had in memory (VmHWM), and nothing is trained. {"workload": name, "report": true} is answered by what the workload has to tell. End of input ends the program.
"""

import ctypes
import gc
import importlib.util
import json
import os
import sys
import time


def load(path, index):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(f"workload{index}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # torch.compile looks modules up by name.
    spec.loader.exec_module(module)
    return module


def answer(value):
    print(json.dumps(value), flush=True)


def traced(trainer, steps, path):
    """Trains under torch.profiler, without the CPU's operators: their records would cost more than what they show."""
    import torch
    import train_common

    activity = torch.profiler.ProfilerActivity
    chosen = activity.CUDA if trainer.device.type == "cuda" else activity.CPU
    with torch.profiler.profile(activities=[chosen]) as profile:
        moving = train_common.MOVING.seconds
        start = time.perf_counter()
        for _ in range(steps):
            trainer.step()
        trainer.synchronize()
        seconds = time.perf_counter() - start
    profile.export_chrome_trace(path)
    return {"seconds": seconds, "moving_seconds": train_common.MOVING.seconds - moving}


def profiled(trainer, steps, what):
    """The time of steps that torch.profiler watches, without that of starting it and of making its events."""
    import torch

    activity = torch.profiler.ProfilerActivity
    activities = [activity.CUDA] if trainer.device.type == "cuda" else [activity.CPU]
    if what != "cuda":
        activities = list({*activities, activity.CPU})
    with torch.profiler.profile(activities=activities, with_stack=what == "stacks") as profile:
        start = time.perf_counter()
        for _ in range(steps):
            trainer.step()
        trainer.synchronize()
        seconds = time.perf_counter() - start
    on_device = torch.autograd.DeviceType.CUDA
    # Not profile.events(): that makes a tree of all of them, which takes longer than the steps.
    events = profile.profiler.kineto_results.events()
    return {"seconds": seconds, "device_events": sum(event.device_type() == on_device for event in events)}


def attached(text):
    """CUPTI, by a library that says what it has delivered; None where nobody wants it."""
    if not text:
        return None
    level, _, path = text.partition(":")
    library = ctypes.CDLL(path)
    library.device_cost_delivered.restype = ctypes.c_uint64
    with open("/proc/self/maps", encoding="utf-8") as maps:
        cupti = next(line.split(None, 5)[5].strip() for line in maps if "libcupti.so" in line)
    if library.device_cost_open(cupti.encode()) or library.device_cost_switch(int(level)):
        sys.exit(f"CUPTI cannot be attached by {path}")
    return library


def peak_resident():
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))


def main():
    trainers = {}
    for index, (name, workload) in enumerate(json.loads(sys.argv[1]).items()):
        module = load(workload["program"], index)
        trainers[name] = module.build(module.parse(workload["arguments"]))
        for _ in range(workload.get("warm_up", 10)):
            trainers[name].step()
        trainers[name].synchronize()
    cupti = attached(os.environ.get("PACED_CUPTI"))
    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        trainer = trainers[request["workload"]]
        if request.get("report"):
            answer(trainer.report())
            continue
        if request.get("resident"):
            answer({"peak_resident": peak_resident()})
            continue
        step = trainer.fetch if request.get("fetch") else trainer.step
        gc.collect()
        for _ in range(request["lead"]):
            step()
        trainer.synchronize()
        if request.get("trace"):
            answer(traced(trainer, request["steps"], request["trace"]))
            continue
        if request.get("profile"):
            answer(profiled(trainer, request["steps"], request["profile"]))
            continue
        start = time.perf_counter()
        for _ in range(request["steps"]):
            step()
        trainer.synchronize()
        found = {"seconds": time.perf_counter() - start}
        if request.get("count"):
            found["bytes"] = cupti.device_cost_delivered() if cupti else 0
        answer(found)
    for trainer in trainers.values():
        trainer.close()


if __name__ == "__main__":
    main()
