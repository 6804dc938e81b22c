"""cupy_ipc.py SEED: device memory and events of CUDA's own IPC between two processes, with no PyTorch in either.

Three times: the parent allocates memory of several sizes, the child opens it, adds one to every byte behind the parent's
event and lets go of it; the parent frees it and what lay beside it, so that the next may lie where this one was. Both
print a sha256 of what they saw. Exit status 1: the child failed.
"""

import hashlib
import multiprocessing
import sys

import cupy
import numpy
from cupy.cuda import runtime

SIZES = (1 << 10, 300_000, 2 << 20, 20 << 20)
ROUNDS = 3


def bytes_at(pointer, size):
    memory = cupy.cuda.UnownedMemory(pointer, size, None)
    return cupy.ndarray(size, dtype=cupy.uint8, memptr=cupy.cuda.MemoryPointer(memory, 0))


def digest(arrays):
    found = hashlib.sha256()
    for array in arrays:
        found.update(cupy.asnumpy(array).tobytes())
    return found.hexdigest()


def child(connection):
    cupy.zeros(1)
    while (request := connection.recv()) is not None:
        handles, event_handle = request
        runtime.streamWaitEvent(0, runtime.ipcOpenEventHandle(event_handle))
        pointers = [runtime.ipcOpenMemHandle(handle) for handle in handles]
        arrays = [bytes_at(pointer, size) for pointer, size in zip(pointers, SIZES)]
        seen = digest(arrays)
        for array in arrays:
            array += 1
        runtime.deviceSynchronize()
        del array, arrays
        for pointer in pointers:
            runtime.ipcCloseMemHandle(pointer)
        connection.send(seen)


def main():
    generator = numpy.random.default_rng(int(sys.argv[1]))
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=child, args=(there,), daemon=True)
    process.start()
    there.close()
    for number in range(ROUNDS):
        pointers, others = [], []
        for size in SIZES:
            pointers.append(runtime.malloc(size))
            others.append(runtime.malloc(size))
        arrays = [bytes_at(pointer, size) for pointer, size in zip(pointers, SIZES)]
        for array in arrays:
            array.set(generator.integers(0, 256, array.size, dtype=numpy.uint8))
        event = cupy.cuda.Event(block=False, disable_timing=True, interprocess=True)
        event.record()
        handles = [runtime.ipcGetMemHandle(pointer) for pointer in pointers]
        here.send((handles, runtime.ipcGetEventHandle(event.ptr)))
        for pointer in others:
            runtime.free(pointer)
        if not here.poll(60):
            sys.exit("the child did not answer")
        seen = here.recv()
        print("round", number, "child", seen, "parent", digest(arrays), flush=True)
        del array, arrays
        for pointer in pointers:
            runtime.free(pointer)
    here.send(None)
    process.join()
    print("status", process.exitcode)
    return 1 if process.exitcode else 0


if __name__ == "__main__":
    sys.exit(main())
