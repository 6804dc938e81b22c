"""Uses CuPy, which finds its CUDA libraries by itself."""

import cupy

x = cupy.arange(100_000, dtype=cupy.float64)
print(float((x * x).sum()), float(cupy.asnumpy(x[:10]).sum()))
