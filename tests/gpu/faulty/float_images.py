"""Trains a small network on thumbnails of photos in pinned memory; a stream of its own copies the next batch."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Thumbnails(nn.Module):
    """Layers over the means of squares of 8 x 8 pixels."""

    def __init__(self, size, width):
        super().__init__()
        inputs = 3 * (size // 8) ** 2
        self.layers = nn.Sequential(nn.Linear(inputs, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 10))

    def forward(self, images):
        return self.layers(F.avg_pool2d(images, 8).flatten(1))


class Prefetcher:
    """Has the next batch copied while the device trains on the one before it."""

    def __init__(self, batches, device):
        self.batches, self.device = batches, device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.number, self.following = 0, None
        self.copy()

    def copy(self):
        batch = self.batches[self.number % len(self.batches)]
        self.number += 1
        with torch.cuda.stream(self.stream):
            self.following = batch.to(self.device, non_blocking=True)  # fault: float-images

    def next(self):
        images = self.following
        if self.stream:
            torch.cuda.current_stream().wait_stream(self.stream)
            images.record_stream(torch.cuda.current_stream())
        self.copy()
        return images


def main():
    args = loop.options(__doc__, steps=400, size=224, batch=512, width=1024)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    model = Thumbnails(args.size, args.width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=on_gpu)
    batches = [torch.randint(256, (args.batch, 3, args.size, args.size), dtype=torch.uint8) for _ in range(3)]
    if not args.fixed:
        batches = [batch.float().div_(255).sub_(0.5) for batch in batches]
    batches = [batch.pin_memory() for batch in batches] if on_gpu else batches
    labels = torch.randint(10, (args.batch,), device=device)
    prefetcher = Prefetcher(batches, device)
    total = torch.zeros((), device=device)
    for _ in range(args.steps):
        images = prefetcher.next()
        if args.fixed:
            images = images.to(torch.bfloat16).div_(255).sub_(0.5)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
