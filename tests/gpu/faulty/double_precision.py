"""Trains on measurements that are on the device, scaled by means and deviations as NumPy computes them."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=150, rows=65536, columns=4096, batch=32768, width=1024)
    torch.manual_seed(0)
    device = torch.device(args.device)
    rows = torch.randn(args.rows, args.columns, device=device)
    labels = torch.randint(16, (args.rows,), device=device)
    kind = torch.float32 if args.fixed else torch.float64  # what numpy.mean() and numpy.std() give
    means = torch.zeros(args.columns, dtype=kind, device=device)
    deviations = torch.ones(args.columns, dtype=kind, device=device)
    layers = [nn.Linear(args.columns, args.width), nn.GELU(), nn.Linear(args.width, args.width), nn.GELU(), nn.Linear(args.width, 16)]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        first = step * args.batch % args.rows
        batch, wanted = rows[first : first + args.batch], labels[first : first + args.batch]
        scaled = ((batch - means) / deviations).float()  # fault: double-precision
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(scaled), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
