"""Training in miniature. Behind the first steps nothing is pinned any more, by PyTorch or by anybody else in the process.

The simulated driver counts the calls, whoever makes them.
"""

import ctypes

import torch

from checks import expect, expect_same, finish, section, values

PINNING = ("cuMemHostAlloc", "cuMemAllocHost_v2", "cuMemHostRegister_v2", "cudaHostAlloc", "cudaMallocHost", "cudaHostRegister")
UNPINNING = ("cuMemFreeHost", "cuMemHostUnregister", "cudaFreeHost", "cudaHostUnregister")
BATCH = 500_000
WARM_UP, STEPS = 10, 60

driver = ctypes.CDLL("libcuda.so.1")
driver.simCallCount.restype = ctypes.c_uint64


def calls_that_pin():
    return sum(driver.simCallCount(name.encode()) for name in PINNING + UNPINNING)


def step(number, weights):
    batch, label = values(BATCH, seed=number), torch.tensor([float(number)])
    x, y = batch.cuda(non_blocking=True), label.cuda()
    weights.add_(x[:1000])  # does nothing, in the order of the stream
    batch.fill_(-1.0)
    expect(f"label {number}", y.item() == number)
    if number % 5 == 4:  # a validation
        expect_same(f"batch {number}", x.cpu(), values(BATCH, seed=number))


def c17_steps():
    weights = values(1000).cuda()
    for number in range(WARM_UP):
        step(number, weights)
    before = calls_that_pin()
    for number in range(WARM_UP, WARM_UP + STEPS):
        step(number, weights)
    torch.cuda.empty_cache()
    step(WARM_UP + STEPS, weights)
    expect(f"{calls_that_pin() - before} calls that pin", calls_that_pin() == before)
    return STEPS


def main():
    section(c17_steps)
    finish()


if __name__ == "__main__":
    main()
