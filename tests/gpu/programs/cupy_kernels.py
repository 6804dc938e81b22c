"""cupy_kernels.py SEED: CuPy's ways to use a device. Prints a sha256 over the bytes of each result."""

import hashlib
import sys

import cupy
import cupyx
import numpy

RAW = r"""
extern "C" __global__ void mix(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 3.0f * x[i] - y[n - 1 - i];
}
"""
COUNT = 1 << 20


def show(name, *arrays):
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(numpy.ascontiguousarray(cupy.asnumpy(array)).tobytes())
    print(name, digest.hexdigest(), flush=True)


def elementwise(x, y):
    square = cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x * x + y", "square_plus")
    show(
        "elementwise", cupy.sin(x) * y + 1, square(x, y), (x > y).astype(cupy.int8), cupy.sort(x), x.astype("f8").sum()
    )


def matmul(x, y):
    a, b = x.reshape(1024, 1024), y.reshape(1024, 1024)
    show("matmul", a @ b, cupy.matmul(x.reshape(16, 256, 256), y.reshape(16, 256, 256)))


def raw_kernel(x, y):
    out = cupy.empty_like(x)
    cupy.RawKernel(RAW, "mix")(((COUNT + 255) // 256,), (256,), (x, y, out, numpy.int32(COUNT)))
    show("raw_kernel", out)


def memory_pools(host):
    """Memory of many sizes that comes and goes, by CuPy's own pool, by CUDA's, and with none."""
    pools = {"pool": cupy.get_default_memory_pool().malloc, "none": None, "async": cupy.cuda.MemoryAsyncPool().malloc}
    for name, malloc in pools.items():
        results = []
        with cupy.cuda.using_allocator(malloc):
            kept = []
            for number in range(40):
                size = (number * 7919) % 65521 + 1
                array = cupy.asarray(host[:size]) * (number + 1)
                kept.append(array)
                if number % 3 == 2:
                    results.append(cupy.asnumpy(kept.pop(0)))
                if number % 10 == 9:
                    cupy.get_default_memory_pool().free_all_blocks()
            results += [cupy.asnumpy(array) for array in kept]
            del kept, array
        show(f"memory_{name}", *results)


def pinned_and_streams(host):
    """Batches through pinned memory that is used again, copies on one stream and kernels on another."""
    source, target = cupyx.empty_pinned(COUNT, dtype="float32"), cupyx.empty_pinned(COUNT, dtype="float32")
    copies, kernels = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    results = []
    for number in range(6):
        source[:] = host * (number + 1)
        with copies:
            device = cupy.empty(COUNT, dtype="float32")
            device.set(source, stream=copies)
            copied = copies.record()
        with kernels:
            kernels.wait_event(copied)
            result = device * 2 + number
            result.get(stream=kernels, out=target, blocking=False)
        kernels.synchronize()
        results.append(target.copy())
    show("pinned_streams", *results)


def pageable(host):
    """Blocking copies of ordinary memory that is filled anew at once."""
    buffer = host.copy()
    results = []
    for number in range(6):
        buffer[:] = host + number
        device = cupy.asarray(buffer)
        buffer[:] = -1
        results.append(cupy.asnumpy(device * 2))
    show("pageable", *results)


def main():
    host = numpy.random.default_rng(int(sys.argv[1])).standard_normal(COUNT).astype("float32")
    x = cupy.asarray(host)
    y = cupy.asarray(host[::-1].copy())
    elementwise(x, y)
    matmul(x, y)
    raw_kernel(x, y)
    memory_pools(host)
    pinned_and_streams(host)
    pageable(host)


if __name__ == "__main__":
    main()
