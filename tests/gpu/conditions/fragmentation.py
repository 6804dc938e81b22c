"""Trains on images of changing sizes, and gives memory back between two of them, so that no size lacks what another had."""

import torch
import torch.nn.functional as F
from torch import nn

import loop

# In an order in which hardly one fits what the one before left.
SIDES = (352, 128, 288, 192, 320, 160, 256, 224)


def main():
    args = loop.options(__doc__, steps=32, batch=32, width=32, largest=352)
    torch.manual_seed(0)
    device = torch.device(args.device)
    body = [nn.Conv2d(3, args.width, 3, padding=1), nn.GELU(), nn.Conv2d(args.width, args.width, 3, padding=1), nn.GELU()]
    model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(args.width, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    labels = torch.randint(10, (args.batch,), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        side = SIDES[step % len(SIDES)] * args.largest // max(SIDES)
        images = torch.rand(args.batch, 3, side, side, device=device)
        loss = F.cross_entropy(model(images), labels)  # shown: fragmentation
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        del images, loss
        if device.type == "cuda":
            torch.cuda.empty_cache()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
