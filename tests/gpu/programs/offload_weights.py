"""offload_weights.py: weights live on the host; every layer's go to the device for its step and back, changed.

Both ways in one thread and from and to pageable memory. Prints a line of JSON: milliseconds a step, the median.
"""

import json
import statistics
import time

import torch

LAYERS = 4
WIDTH = 4096  # 64 MiB a layer
WARM, MEASURED = 5, 20


def main():
    weights = [torch.randn(WIDTH, WIDTH) for _ in range(LAYERS)]
    inputs = torch.randn(256, WIDTH, device="cuda")
    took = []
    for _ in range(WARM + MEASURED):
        begun = time.perf_counter()
        for layer in weights:
            on_device = layer.cuda()
            gradient = inputs.T @ (inputs @ on_device)
            on_device.add_(gradient, alpha=-1e-6)
            layer.copy_(on_device)
        took.append(time.perf_counter() - begun)
    print(json.dumps({"step_ms": statistics.median(took[WARM:]) * 1e3}))


if __name__ == "__main__":
    main()
