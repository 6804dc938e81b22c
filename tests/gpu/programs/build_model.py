"""build_model.py DEVICE BYTES: how long a model of so many bytes of parameters takes to be built on the device itself.

Prints {"seconds": s, "bytes": n, "checksum": hex}; the first CUDA call, which makes the context, comes before.
"""

import json
import sys
import time

import torch

WIDTH = 4096


def main():
    device = torch.device(sys.argv[1])
    width = WIDTH if device.type == "cuda" else 64
    layers = max(1, int(sys.argv[2]) // (4 * width * width))
    torch.manual_seed(1)
    torch.zeros(1, device=device).normal_()
    start = time.perf_counter()
    with device:
        model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    checksum = sum(float(parameter.detach().double().sum()) for parameter in model.parameters())
    print(json.dumps({"seconds": seconds, "bytes": size, "checksum": checksum.hex()}))


if __name__ == "__main__":
    main()
