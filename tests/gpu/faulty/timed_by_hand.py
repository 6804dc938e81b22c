"""Trains a ResNet on photos in memory and times the parts of each step, with a synchronization around each."""

import time

import torch
import torch.nn.functional as F
import torchvision

import loop


class Parts:
    """Seconds by name."""

    def __init__(self, waits):
        self.waits = waits
        self.seconds = {}
        self.last = None

    def ends(self, name):
        if self.waits:
            torch.cuda.synchronize()  # fault: explicit-synchronize
        now = time.perf_counter()
        if self.last is not None:
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now


def main():
    args = loop.options(__doc__, steps=60, size=96, batch=512)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    model = torchvision.models.resnet34(num_classes=100).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=on_gpu)
    photos = torch.randint(256, (1000, 3, args.size, args.size), dtype=torch.uint8)
    labels = torch.randint(100, (args.batch,), device=device)
    parts = Parts(on_gpu and not args.fixed)
    for step in range(args.steps):
        parts.ends("the rest")
        chosen = [photos[(step * args.batch + number) % len(photos)] for number in range(args.batch)]
        images = torch.stack([photo.flip(2) if number % 2 else photo for number, photo in enumerate(chosen)])
        images = (images.to(device, non_blocking=True) / 255 - 0.5).contiguous(memory_format=torch.channels_last)
        parts.ends("images")
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        parts.ends("forward")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        parts.ends("backward")
        optimizer.step()
        parts.ends("optimizer")
    print(", ".join(parts.seconds))


if __name__ == "__main__":
    main()
