"""Trains on what a station measures, each figure of which becomes a tensor on the host and is moved."""

import math

import torch
from torch import nn

import loop


def measured(step, rows, device):
    """A column for each figure."""
    day, year = step / 24 * math.tau, step / 8766 * math.tau
    return [
        torch.full((rows,), math.sin(day)).to(device),  # shown: built-on-the-host
        torch.full((rows,), math.cos(day)).to(device),  # shown: built-on-the-host
        torch.full((rows,), math.sin(year)).to(device),  # shown: built-on-the-host
        torch.full((rows,), math.cos(year)).to(device),  # shown: built-on-the-host
        torch.full((rows,), 15 + 10 * math.sin(year + day)).to(device),  # shown: built-on-the-host
        torch.full((rows,), 60 + 20 * math.cos(day)).to(device),  # shown: built-on-the-host
        torch.full((rows,), 5 + 3 * math.sin(3 * day)).to(device),  # shown: built-on-the-host
        torch.full((rows,), float(step % 360)).to(device),  # shown: built-on-the-host
        torch.ones(rows).cumsum(0).to(device),  # shown: built-on-the-host
        torch.zeros(rows).to(device),  # shown: built-on-the-host
        torch.arange(rows).float().to(device),  # shown: built-on-the-host
        torch.linspace(0, 1, rows).to(device),  # shown: built-on-the-host
    ]


def main():
    args = loop.options(__doc__, steps=80, rows=256, width=256)
    torch.manual_seed(0)
    device = torch.device(args.device)
    model = nn.Sequential(nn.Linear(12, args.width), nn.ReLU(), nn.Linear(args.width, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        columns = torch.stack(measured(step, args.rows, device), 1)
        loss = (model(columns) - columns[:, 4:5]).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
