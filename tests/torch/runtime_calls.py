"""Calls NVIDIA's own libcudart where there is no driver, and prints what each call answers.

    runtime_calls.py LIBCUDART

By the names that a program linked to it would be bound to: those of the process, a preloaded library's first.
"""

import ctypes
import sys

SIZE = 1 << 20


def calls():
    """(name, arguments) of each, in order: what training programs call first, copies, memory, streams, events, waits."""
    pointer, number = ctypes.c_void_p(), ctypes.c_int()
    size, other = ctypes.c_size_t(), ctypes.c_size_t()
    host = ctypes.create_string_buffer(SIZE)
    address = ctypes.c_void_p(0x7F0000000000)  # no device has it
    bytes_ = ctypes.c_size_t(SIZE)
    to_device, to_host = 1, 2
    return [
        ("cudaRuntimeGetVersion", ctypes.byref(number)), ("cudaDriverGetVersion", ctypes.byref(number)),
        ("cudaGetDeviceCount", ctypes.byref(number)), ("cudaGetDevice", ctypes.byref(number)), ("cudaSetDevice", 0),
        ("cudaMemGetInfo", ctypes.byref(size), ctypes.byref(other)),
        ("cudaMalloc", ctypes.byref(pointer), bytes_), ("cudaFree", None), ("cudaFree", address),
        ("cudaMallocAsync", ctypes.byref(pointer), bytes_, None), ("cudaFreeAsync", address, None),
        ("cudaMallocManaged", ctypes.byref(pointer), bytes_, 1),
        ("cudaMallocHost", ctypes.byref(pointer), bytes_), ("cudaHostAlloc", ctypes.byref(pointer), bytes_, 0), ("cudaFreeHost", None),
        ("cudaHostRegister", host, bytes_, 0), ("cudaHostUnregister", host),
        ("cudaMemcpy", address, host, bytes_, to_device), ("cudaMemcpy", host, address, bytes_, to_host),
        ("cudaMemcpyAsync", address, host, bytes_, to_device, None), ("cudaMemcpyAsync", host, address, bytes_, to_host, None),
        ("cudaMemcpyAsync_ptsz", address, host, bytes_, to_device, None), ("cudaMemcpy_ptds", address, host, bytes_, to_device),
        ("cudaMemset", address, 0, bytes_), ("cudaMemsetAsync", address, 0, bytes_, None),
        ("cudaStreamCreate", ctypes.byref(pointer)), ("cudaStreamCreateWithFlags", ctypes.byref(pointer), 1),
        ("cudaStreamSynchronize", None), ("cudaStreamQuery", None), ("cudaStreamSynchronize_ptsz", None),
        ("cudaEventCreate", ctypes.byref(pointer)), ("cudaEventCreateWithFlags", ctypes.byref(pointer), 2),
        ("cudaDeviceSynchronize",), ("cudaDeviceReset",), ("cudaDeviceGetAttribute", ctypes.byref(number), 75, 0),
    ]


NAMES = [name for name, *_ in calls()]


def main(path):
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    api = ctypes.CDLL(None)
    name_of = api.cudaGetErrorName
    name_of.restype = ctypes.c_char_p
    for name, *arguments in calls():
        function = getattr(api, name)
        status = function(*arguments)
        value = arguments[0]._obj.value if arguments and hasattr(arguments[0], "_obj") else ""
        print(name, name_of(status).decode(), value, "last", api.cudaPeekAtLastError(), api.cudaGetLastError(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
