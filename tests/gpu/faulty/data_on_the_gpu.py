"""Trains on data that fits on the device and lies there, and waits for each part of a step to time it."""

import time

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Clock:
    """Seconds of each part of a step, with all of its kernels."""

    def __init__(self, waits):
        self.waits = waits
        self.seconds = {}

    def took(self, part, since):
        if self.waits:
            torch.cuda.synchronize()  # fault: explicit-synchronize
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - since
        return now


def main():
    args = loop.options(__doc__, steps=200, rows=200000, columns=512, batch=2048, width=1024, layers=6)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    rows = torch.randn(args.rows, args.columns, device=device, dtype=torch.bfloat16)
    labels = torch.randint(16, (args.rows,), device=device)
    widths = [args.columns] + [args.width] * args.layers
    layers = [layer for pair in zip(widths, widths[1:]) for layer in (nn.Linear(*pair), nn.LayerNorm(pair[1]), nn.GELU())]
    model = nn.Sequential(*layers, nn.Linear(args.width, 16)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=on_gpu)
    clock = Clock(on_gpu and not args.fixed)
    total = torch.zeros((), device=device)
    for _ in range(args.steps):
        now = time.perf_counter()
        chosen = torch.randint(args.rows, (args.batch,), device=device)
        batch, wanted = rows[chosen], labels[chosen]
        now = clock.took("batch", now)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(batch), wanted)
        now = clock.took("forward", now)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        now = clock.took("backward", now)
        optimizer.step()
        total += loss.detach()
        clock.took("optimizer", now)
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
