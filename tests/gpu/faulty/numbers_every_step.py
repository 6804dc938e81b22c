"""Trains a deep classifier on features that are on the device already; looks after its gradients, and clips them, by hand."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def clip_by_hand(parameters):
    """The largest number in the gradients."""
    squares, largest = 0.0, 0.0
    for parameter in parameters:
        squares += parameter.grad.norm().item() ** 2  # fault: item-synchronize
        largest = max(largest, parameter.grad.abs().max().item())  # fault: item-synchronize
    if squares > 1.0:
        torch._foreach_mul_([parameter.grad for parameter in parameters], squares**-0.5)
    return largest


def clip_there(parameters):
    """The same, left on the device."""
    norm = torch.stack([parameter.grad.norm() for parameter in parameters]).norm()
    largest = torch.stack([parameter.grad.abs().max() for parameter in parameters]).max()
    torch._foreach_mul_([parameter.grad for parameter in parameters], 1 / norm.clamp(min=1.0))
    return largest


def main():
    args = loop.options(__doc__, steps=80, width=1536, layers=32, batch=16384)
    torch.manual_seed(0)
    device = torch.device(args.device)
    layers = [layer for _ in range(args.layers) for layer in (nn.Linear(args.width, args.width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(args.width, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    features = torch.randn(4 * args.batch, args.width, device=device)
    labels = torch.randint(10, (4 * args.batch,), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        begin = step % 4 * args.batch
        x, y = features[begin : begin + args.batch], labels[begin : begin + args.batch]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x).float(), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        largest = (clip_there if args.fixed else clip_by_hand)(list(model.parameters()))
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}, gradients up to {float(largest):.3g}")


if __name__ == "__main__":
    main()
