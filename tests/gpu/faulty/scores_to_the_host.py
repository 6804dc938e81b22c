"""Trains a U-Net to segment images, and counts on the host which class is taken for which."""

import numpy
import torch
import torch.nn.functional as F

import loop
from networks import UNet


class Confusion:
    """How many pixels of each class were taken for each."""

    def __init__(self, classes):
        self.classes = classes
        self.counts = numpy.zeros((classes, classes), dtype=numpy.int64)

    def count(self, wanted, found):
        pairs = self.classes * wanted.numpy().ravel() + found.numpy().ravel()
        self.counts += numpy.bincount(pairs, minlength=self.classes**2).reshape(self.counts.shape)


class Later:
    """Counts what a step found when the next one has been asked for: the device computes meanwhile."""

    def __init__(self, confusion):
        self.confusion = confusion
        self.waiting = None

    def add(self, wanted, found):
        before = self.waiting
        copy = torch.empty(found.shape, dtype=found.dtype, pin_memory=found.is_cuda).copy_(found, non_blocking=True)
        arrived = torch.cuda.Event() if found.is_cuda else None
        if arrived:
            arrived.record()
        self.waiting = wanted, copy, arrived
        if before:
            self.finish(*before)

    def finish(self, wanted, copy, arrived):
        if arrived:
            arrived.synchronize()
        self.confusion.count(wanted, copy)


def main():
    args = loop.options(__doc__, steps=60, size=128, batch=96, classes=21, width=48)
    torch.manual_seed(0)
    device = torch.device(args.device)
    model = UNet(3, args.classes, args.width).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    images = torch.randn(4 * args.batch, 3, args.size, args.size, device=device).contiguous(memory_format=torch.channels_last)
    masks = torch.randint(args.classes, (4 * args.batch, args.size, args.size))
    masks_there = masks.to(device)
    confusion = Confusion(args.classes)
    later = Later(confusion) if args.fixed else None
    for step in range(args.steps):
        batch = slice(step % 4 * args.batch, step % 4 * args.batch + args.batch)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(images[batch])
        loss = F.cross_entropy(logits.float(), masks_there[batch])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        found = logits.detach().argmax(1)
        if later:
            later.add(masks[batch], found)
        else:
            confusion.count(masks[batch], found.cpu())  # fault: copy-then-synchronize|blocking-copies
    if later:
        later.finish(*later.waiting)
    print(f"right {confusion.counts.trace() / confusion.counts.sum():.3f}")


if __name__ == "__main__":
    main()
