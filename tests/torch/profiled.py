"""torch.profiler (Kineto, over the simulated CUPTI) sees the same kernels, whoever else listens to CUPTI."""

import warnings

import torch
from torch.profiler import ProfilerActivity, profile

from checks import expect_same, finish, section, values

STEPS = 6


def c15_kernels_and_copies():
    x = values(300_000)
    y = x.cuda()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for i in range(STEPS):
            y = values(300_000, seed=i).cuda()
            y.mul_(2)  # does nothing
            expect_same(f"{i}", y.cpu(), values(300_000, seed=i))
    names = [event.name for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    print("kernels:", sum("elementwise_kernel" in name for name in names))
    for direction in ("HtoD", "DtoH"):
        print(direction, any(direction in name for name in names))
    print("calls:", sum(event.name == "aten::mul_" for event in profiler.events()))
    return STEPS


def main():
    warnings.simplefilter("ignore")
    section(c15_kernels_and_copies)
    finish()


if __name__ == "__main__":
    main()
