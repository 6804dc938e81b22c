"""Calls CUDA's runtime from three places of Python, and prints each place: what a trace should have of the call.

    python_lines.py LIBCUDART

Every line is "function file:line name", by sys._getframe at the call.
"""

import ctypes
import sys

SIZE = 1 << 16


def said(function):
    """Prints where the caller is. It stands in the line of the call, so that both have one."""
    frame = sys._getframe(1)
    print(function, "%s:%d" % (frame.f_code.co_filename, frame.f_lineno), frame.f_code.co_name, flush=True)


def allocate(api):
    pointer = ctypes.c_void_p()
    said("cudaMalloc"), api.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(SIZE))
    return pointer


def copies(api, pointer):
    host = ctypes.create_string_buffer(SIZE)
    # A generator, whose frame is no ordinary one.
    return [(said("cudaMemcpy"), api.cudaMemcpy(pointer, host, ctypes.c_size_t(SIZE), 1))[1] for _ in range(1)]


def waits(api):
    yield (said("cudaStreamSynchronize"), api.cudaStreamSynchronize(None))[1]


class Memory:
    def __init__(self, api, pointer):
        said("cudaMemset"), api.cudaMemset(pointer, 0, ctypes.c_size_t(SIZE))


def main(path):
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    api = ctypes.CDLL(None)
    pointer = allocate(api)
    copies(api, pointer)
    list(waits(api))
    Memory(api, pointer)


if __name__ == "__main__":
    main(sys.argv[1])
