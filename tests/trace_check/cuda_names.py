"""What CUDA's functions, slipstream's decisions and kernels are by their names, as docs/report.md has it."""

import re

NOT_READY = 600
KIB_64 = 64 << 10
TENSOR = (
    "h884",
    "s884",
    "d884",
    "h1688",
    "s1688",
    "i8816",
    "16816",
    "16832",
    "hmma",
    "imma_",
    "wgmma",
    "gmma",
    "tensorop",
    "xmma",
    "flash_fwd",
    "flash_bwd",
    "fmha",
    "nvjet",
)
NOT_TENSOR = ("_ffma_", "_dfma_", "_simt_")
COMMUNICATION = ("ncclDevKernel", "ncclKernel", "nvshmem", "multimem_all_")
ALLOCATOR = (
    "Malloc Free HostAlloc HostRegister HostUnregister MemAlloc MemFree MemHostAlloc MemHostRegister MemHostUnregister MemCreate MemRelease MemMap "
    "MemUnmap MemAddressReserve MemAddressFree MemSetAccess ArrayCreate Array3DCreate ArrayDestroy MipmappedArrayCreate MipmappedArrayDestroy"
).split()


def on_tensor_cores(lower_name):
    return any(sign in lower_name for sign in TENSOR) and not any(sign in lower_name for sign in NOT_TENSOR)


def plain(function):
    return re.sub(r"(_ptsz|_ptds)?(_v\d+)?$", "", function, count=1)


def kind_of(function):
    name = plain(function).lstrip("_")
    name = name[4:] if name.startswith("cuda") else name[2:] if name.startswith("cu") else ""
    if name.startswith(("Memcpy", "MemBatchDecompress")):
        return "copies"
    if name.endswith("Synchronize"):
        return "synchronizes"
    if name.startswith(("Launch", "GraphLaunch", "StreamAddCallback")):
        return "launches"
    return "allocator" if name.startswith(tuple(ALLOCATOR)) else "other_calls"


def waits(function):
    kind = kind_of(function)
    return kind == "synchronizes" or kind == "copies" and "Async" not in function and "Peer" not in function


def returns_early(decision):
    return decision in ("transfer.sync.skipped", "transfer.h2d.promoted.small", "transfer.h2d.promoted.large")


def skips(decision):
    return decision in ("transfer.sync.skipped", "transfer.sync.skipped.rest")


def is_skipped_wait(call):
    """Of a call of the report: one that would have waited for its stream, and was not made to."""
    name = plain(call["name"])
    if name in ("cudaStreamSynchronize", "cuStreamSynchronize"):
        return skips(call["decision"])
    return name in ("cudaMemcpy", "cuMemcpy", "cuMemcpyHtoD") and returns_early(call["decision"]) and call["bytes"] > KIB_64
