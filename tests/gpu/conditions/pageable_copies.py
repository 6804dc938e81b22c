"""Trains convolutions on photos that the host turns into floats, and copies each batch from the memory where it lies.

slipstream stages such copies by itself.
environment: SLIPSTREAM_TRANSFER_H2D=off
environment: SLIPSTREAM_TRANSFER_D2H=off
"""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=40, size=224, batch=96, width=64)
    torch.manual_seed(0)
    device = torch.device(args.device)
    body = [nn.Conv2d(3, args.width, 7, stride=4), nn.ReLU(), nn.Conv2d(args.width, args.width, 3, stride=2), nn.ReLU()]
    model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(args.width, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    photos = torch.randint(256, (4 * args.batch, 3, args.size, args.size), dtype=torch.uint8)
    labels = torch.randint(10, (args.batch,), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        begin = step % 4 * args.batch
        images = photos[begin : begin + args.batch].float().div_(255)
        images = images.to(device)  # shown: pageable-copies
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
