"""Trains a network of patches whose activation and normalization are written by hand, formula by formula."""

import math

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Gelu(nn.Module):
    def forward(self, x):
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))  # fault: unfused-pointwise
        return 0.5 * x * (1 + torch.tanh(inner))  # fault: unfused-pointwise


class Normalized(nn.Module):
    """Of mean 0 and variance 1, then scaled."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        apart = x - x.mean(-1, keepdim=True)  # fault: unfused-pointwise
        scale = torch.rsqrt((apart * apart).mean(-1, keepdim=True) + 1e-5)  # fault: unfused-pointwise
        return apart * scale * self.weight + self.bias  # fault: unfused-pointwise


class Layer(nn.Module):
    def __init__(self, width, fixed):
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(width) if fixed else Normalized(width),
            nn.Linear(width, 4 * width),
            nn.GELU(approximate="tanh") if fixed else Gelu(),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):
        return x + self.layers(x)


def main():
    args = loop.options(__doc__, steps=60, width=1024, layers=6, batch=64, patches=196)
    torch.manual_seed(0)
    device = torch.device(args.device)
    layers = [Layer(args.width, args.fixed) for _ in range(args.layers)]
    model = nn.Sequential(nn.Linear(768, args.width), *layers, nn.Linear(args.width, 100)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    photos = torch.randn(4, args.batch, args.patches, 768, device=device)
    labels = torch.randint(100, (4, args.batch), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(photos[step % 4]).mean(1), labels[step % 4])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
