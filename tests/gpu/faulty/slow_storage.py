"""Trains a small network on samples that a few workers read from a disk far away."""

import time

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Samples(torch.utils.data.Dataset):
    """Of a sensor; each takes as long as the disk does, and no processor meanwhile."""

    def __init__(self, length, latency):
        self.values = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0))
        self.length = length
        self.latency = latency

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.latency)  # the read
        return self.values[index % len(self.values)], index % 30


def main():
    args = loop.options(__doc__, steps=120, batch=32, width=2048, milliseconds=5)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    layers = [nn.Linear(4096, args.width), nn.GELU(), nn.Linear(args.width, args.width), nn.GELU(), nn.Linear(args.width, 32)]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=on_gpu)
    samples = Samples(args.steps * args.batch, args.milliseconds / 1000)
    workers = (48 if args.fixed else 3) if on_gpu else 1
    loader = torch.utils.data.DataLoader(samples, batch_size=args.batch, num_workers=workers)
    total = torch.zeros((), device=device)
    for values, labels in loader:
        values = values.to(device, non_blocking=True)  # fault: loader-wait
        labels = labels.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(values), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
