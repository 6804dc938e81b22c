"""Trains on data that fits on the device and lies there, and counts after each step what of which class was right."""

import torch
import torch.nn.functional as F
from torch import nn

import loop

CLASSES = 32


def count_right(guesses, labels, right, on_device):
    """Adds to `right`, a number for each class."""
    for one in range(CLASSES):
        hits = ((guesses == one) & (labels == one)).sum()
        if on_device:
            right[one] += hits
        else:
            right[one] += hits.item()  # fault: item-synchronize


def main():
    args = loop.options(__doc__, steps=200, rows=200000, columns=512, batch=16384, width=2048, layers=6)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    rows = torch.randn(args.rows, args.columns, device=device, dtype=torch.bfloat16)
    labels = torch.randint(CLASSES, (args.rows,), device=device)
    widths = [args.columns] + [args.width] * args.layers
    layers = [layer for pair in zip(widths, widths[1:]) for layer in (nn.Linear(*pair), nn.LayerNorm(pair[1]), nn.GELU())]
    model = nn.Sequential(*layers, nn.Linear(args.width, CLASSES)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=on_gpu)
    total = torch.zeros((), device=device)
    right = torch.zeros(CLASSES, device=device, dtype=torch.int64) if args.fixed else [0] * CLASSES
    for _ in range(args.steps):
        chosen = torch.randint(args.rows, (args.batch,), device=device)
        batch, wanted = rows[chosen], labels[chosen]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(batch)
            loss = F.cross_entropy(logits, wanted)
        count_right(logits.argmax(1), wanted, right, args.fixed)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}, of the first class {int(right[0])} right")


if __name__ == "__main__":
    main()
