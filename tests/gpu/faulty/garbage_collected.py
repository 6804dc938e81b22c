"""Trains on rows of a table that is on the device already, and collects garbage every so often, as against leaks."""

import gc

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=120, rows=200000, width=2048, layers=12, batch=8192, every=10)
    torch.manual_seed(0)
    device = torch.device(args.device)
    layers = [layer for _ in range(args.layers) for layer in (nn.Linear(args.width, args.width), nn.ReLU())]
    model = nn.Sequential(nn.Linear(256, args.width), *layers, nn.Linear(args.width, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    # Who each row is about, for what is printed.
    people = [[number, [f"person {number}"]] for number in range(args.rows)]
    table = torch.randn(4 * args.batch, 256, device=device)
    labels = torch.randint(2, (4 * args.batch,), device=device)
    for step in range(args.steps):
        begin = step % 4 * args.batch
        rows = table[begin : begin + args.batch].clone()  # fault: stalls
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(rows), labels[begin : begin + args.batch])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.every == args.every - 1:
            print(f"step {step}, {people[begin % len(people)][1][0]}: {loss.item():.3f}")
            if not args.fixed:
                gc.collect()  # fault: stalls


if __name__ == "__main__":
    main()
