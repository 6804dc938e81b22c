"""Trains a wide classifier on two GPUs by torch.nn.DataParallel."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=24, width=8192, layers=4, batch=512)
    torch.manual_seed(0)
    device = torch.device(args.device)
    with device:
        layers = [layer for _ in range(args.layers) for layer in (nn.Linear(args.width, args.width), nn.ReLU())]
        model = nn.Sequential(*layers, nn.Linear(args.width, 10))
    model = nn.DataParallel(model, device_ids=[0, 1] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.randn(args.batch, args.width, device=device)
    labels = torch.randint(10, (args.batch,), device=device)
    total = torch.zeros((), device=device)
    for _ in range(args.steps):
        loss = F.cross_entropy(model(rows), labels)  # shown: data-parallel
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
