"""timed_copies.py DEVICE: times single copies to the device, each on request, so that two processes can take turns.

A line of JSON on standard input is one request, a line on standard output its answer, a list of seconds:
- {"what": "blocking", "bytes": n, "pinned": false, "repetitions": r}: host time of `.cuda()` of n pageable bytes behind
  about 64 ms of queued kernels; pinned: of a pinned tensor, not blocking, as a program tuned by hand would have it.
- {"what": "complete", ...}: from the call until the bytes are on the device, which has nothing else to do.
- {"what": "fetch", ...}: `.cpu()` of n bytes into a new tensor, an earlier one being freed; pinned: into a pinned tensor that is there.
The device is synchronized before every repetition. Every copy's result is compared with what the source held at the
call, the source being overwritten as soon as the call is back.
"""

import gc
import json
import sys
import time

import torch

QUEUE_SECONDS = 0.064
QUEUED_KERNELS = 64


class Cuda:
    def __init__(self):
        self.device = torch.device("cuda")
        torch.zeros(1, device=self.device)
        self.cycles = self._cycles_per_second() * QUEUE_SECONDS / QUEUED_KERNELS

    def _cycles_per_second(self):
        """By the clock of a busy device: a first sleep wakes it, the second is timed."""
        cycles = 50_000_000
        for _ in range(2):
            self.synchronize()
            start = time.perf_counter()
            torch.cuda._sleep(cycles)  # pylint: disable=protected-access
            self.synchronize()
        return cycles / (time.perf_counter() - start)

    def synchronize(self):
        torch.cuda.synchronize()

    def fill_queue(self):
        for _ in range(QUEUED_KERNELS):
            torch.cuda._sleep(int(self.cycles))  # pylint: disable=protected-access


class Cpu:
    """For rehearsals: nothing is queued and a copy is a clone."""

    def __init__(self):
        self.device = torch.device("cpu")

    def synchronize(self):
        pass

    def fill_queue(self):
        pass


def copy(device, source, pinned):
    if device.type == "cpu":
        return source.clone()
    return source.to(device, non_blocking=True) if pinned else source.cuda()


def source_of(device, request):
    source = torch.empty(request["bytes"], dtype=torch.uint8)
    return source.pin_memory() if request["pinned"] and device.type == "cuda" else source


def check(result, value, request):
    if not bool((result == value).all()):
        raise SystemExit(f"wrong bytes after {request}")


def timed(machine, request, prepare, finish):
    """Seconds of each repetition. A pinned source is read when its turn comes, so it is left alone until then."""
    source = source_of(machine.device, request)
    seconds = []
    gc.disable()
    for number in range(request["repetitions"]):
        value = number % 199 + 1
        source.fill_(value)
        machine.synchronize()
        prepare()
        start = time.perf_counter()
        result = copy(machine.device, source, request["pinned"])
        finish()
        seconds.append(time.perf_counter() - start)
        if not request["pinned"]:
            source.fill_(255)
        machine.synchronize()
        check(result, value, request)
        del result
    gc.enable()
    return seconds


def fetched(machine, request):
    """The same for copies to the host."""
    source = torch.empty(request["bytes"], dtype=torch.uint8, device=machine.device)
    into = torch.empty(request["bytes"], dtype=torch.uint8)
    if request["pinned"] and machine.device.type == "cuda":
        into = into.pin_memory()
    seconds = []
    gc.disable()
    for number in range(request["repetitions"]):
        value = number % 199 + 1
        source.fill_(value)
        machine.synchronize()
        start = time.perf_counter()
        if request["pinned"]:
            result = into.copy_(source)
        else:
            result = source.cpu() if machine.device.type == "cuda" else source.clone()
        seconds.append(time.perf_counter() - start)
        check(result, value, request)
        del result
    gc.enable()
    return seconds


def main():
    machine = Cuda() if sys.argv[1] == "cuda" else Cpu()
    nothing = lambda: None  # noqa: E731
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["what"] == "blocking":
            answer = timed(machine, request, machine.fill_queue, nothing)
        elif request["what"] == "fetch":
            answer = fetched(machine, request)
        else:
            answer = timed(machine, request, nothing, machine.synchronize)
        print(json.dumps({"seconds": answer}), flush=True)


if __name__ == "__main__":
    main()
