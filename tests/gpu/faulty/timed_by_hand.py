"""Trains a convolutional network and times the parts of each step, with a synchronization around each."""

import time

import torch
import torch.nn.functional as F
import torchvision

import loop


class Parts:
    """Seconds by name."""

    def __init__(self, device):
        self.device = device
        self.seconds = {}
        self.last = None

    def ends(self, name):
        if self.device.type == "cuda":
            torch.cuda.synchronize()  # fault: explicit-synchronize
        now = time.perf_counter()
        if self.last is not None:
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now


def main():
    args = loop.options(__doc__, steps=40, size=64, batch=64)
    torch.manual_seed(0)
    device = torch.device(args.device)
    model = torchvision.models.mobilenet_v2(num_classes=100).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=device.type == "cuda")
    images = torch.randn(args.batch, 3, args.size, args.size, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(100, (args.batch,), device=device)
    parts = Parts(device)
    for _ in range(args.steps):
        parts.ends("the rest")
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
