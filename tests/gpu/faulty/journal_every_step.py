"""Trains a ResNet on photos that are on the device already, and writes down how often it has seen each of them."""

import json
import os

import torch
import torch.nn.functional as F
import torchvision

import loop


class Journal:
    """How often each photo was seen."""

    def __init__(self, photos):
        self.seen = {f"photo-{number:06}.jpg": 0 for number in range(photos)}
        self.names = list(self.seen)

    def add(self, numbers):
        for number in numbers:
            self.seen[self.names[number % len(self.names)]] += 1

    def write(self):
        with open(os.devnull, "w", encoding="utf-8") as file:
            file.write(json.dumps(self.seen))  # fault: host-bound


def main():
    args = loop.options(__doc__, steps=60, size=96, batch=768, photos=100000)
    torch.manual_seed(0)
    device = torch.device(args.device)
    model = torchvision.models.resnet18(num_classes=100).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=device.type == "cuda")
    photos = torch.randint(256, (4 * args.batch, 3, args.size, args.size), dtype=torch.uint8, device=device)
    labels = torch.randint(100, (args.batch,), device=device)
    journal = Journal(args.photos)
    for step in range(args.steps):
        begin = step % 4 * args.batch
        images = photos[begin : begin + args.batch] / 255 - 0.5  # fault: host-bound
        images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        journal.add(range(begin, begin + args.batch))
        if not args.fixed:
            journal.write()
    journal.write()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
