"""Trains a classifier with PyTorch's cache of memory switched off, as for a search after a fault in memory, and left off.

slipstream's pool would keep it.
environment: PYTORCH_NO_CUDA_MEMORY_CACHING=1
environment: SLIPSTREAM_ALLOCATOR_MODE=off
"""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=40, width=1024, batch=4096)
    torch.manual_seed(0)
    device = torch.device(args.device)
    body = [nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU()]
    model = nn.Sequential(*body, nn.Linear(args.width, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.randn(args.batch, args.width, device=device)
    labels = torch.randint(10, (args.batch,), device=device)
    total = torch.zeros((), device=device)
    for _ in range(args.steps):
        loss = F.cross_entropy(model(rows), labels)  # shown: malloc-in-steady-state
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # shown: malloc-in-steady-state
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
