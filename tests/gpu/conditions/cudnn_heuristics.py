"""Trains convolutions on photos of one size, and leaves cuDNN's choice of algorithms as it is."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=30, size=128, batch=64, width=128, layers=4)
    torch.manual_seed(0)
    device = torch.device(args.device)
    widths = [3, *[args.width] * args.layers]
    body = [layer for pair in zip(widths, widths[1:]) for layer in (nn.Conv2d(*pair, 3, padding=1), nn.ReLU())]
    model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(args.width, 10))
    model = model.to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    photos = [torch.randint(256, (args.batch, 3, args.size, args.size), dtype=torch.uint8) for _ in range(4)]
    if device.type == "cuda":
        photos = [batch.pin_memory() for batch in photos]
    labels = torch.randint(10, (args.batch,), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        images = photos[step % 4].to(device, non_blocking=True)
        images = (images / 255 - 0.5).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)  # shown: cudnn-heuristics
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # shown: cudnn-heuristics
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
