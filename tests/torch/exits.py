"""Processes that end while threads of theirs are at work on the device: how each of them ended.

    exits.py [N [KIND...]]      N of each kind (4); one line a kind

PyTorch's own threads of Python abort where the interpreter ends under them (-6: the C library's way to end a thread finds a
frame that lets nothing through), with Python before 3.14, bare too.
"""

import atexit
import collections
import ctypes
import os
import signal
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

STATUS = 3
LONGEST_S = 30


def at_work(work, threads=2):
    """Daemon threads that do nothing else, each of them at it."""
    begun = threading.Barrier(threads + 1)

    def loop():
        work()
        begun.wait()
        while True:
            work()

    for _ in range(threads):
        threading.Thread(target=loop, daemon=True).start()
    begun.wait()


def copy():
    batch = torch.ones(1 << 18)
    there = batch.cuda()
    there.cpu()


def daemon_threads():
    at_work(copy)


def daemon_threads_of_c():
    """Without a frame of PyTorch's that the interpreter's end would find."""
    runtime = ctypes.CDLL("libcudart.so.13")
    there = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    here = ctypes.create_string_buffer(1 << 20)
    at_work(lambda: runtime.cudaMemcpy(ctypes.c_void_p(there.data_ptr()), here, ctypes.c_size_t(1 << 20), 1))


def daemon_threads_and_a_handler():
    atexit.register(copy)
    at_work(copy)


def autograd_threads():
    weight = torch.ones(64, 64, device="cuda", requires_grad=True)

    def step():
        (torch.ones(64, 64).cuda() * weight).sum().backward()

    at_work(step)


class Numbers(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return torch.full((4096,), float(index))


def a_loader_that_pins():
    """Its thread waits when the interpreter ends: of one that is at work, it is chance whether PyTorch aborts it."""
    loader = iter(DataLoader(Numbers(), batch_size=64, num_workers=1, pin_memory=True))
    for _ in range(3):
        next(loader).cuda(non_blocking=True)
    while loader._data_queue.qsize() < 2:
        time.sleep(0.001)
    globals()["kept"] = loader


def open_debts():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            globals()["kept"] = torch.ones(1 << 20).cuda().mul_(2)


def by_os_exit():
    at_work(copy)
    os._exit(STATUS)


def by_an_exception():
    at_work(copy)
    raise RuntimeError("on purpose")


KINDS = (daemon_threads, daemon_threads_of_c, daemon_threads_and_a_handler, autograd_threads, a_loader_that_pins, open_debts, by_os_exit,
         by_an_exception)


def status_of(child):
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid != 0:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


def main():
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    torch.set_num_threads(1)
    for kind in KINDS if len(sys.argv) < 3 else [globals()[name] for name in sys.argv[2:]]:
        ends = collections.Counter()
        for _ in range(times):
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what PyTorch says of it is not the same each time
                kind()
                sys.exit(STATUS)
            ends[status_of(child)] += 1
        print(f"{kind.__name__}:", *(f"{count} of {times} ended with {status}" for status, count in sorted(ends.items(), key=str)))
    copy()  # the children's are in no count of the simulated device's


main()
