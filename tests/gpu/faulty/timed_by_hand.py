"""Trains a ResNet on photos that are on the device, and times each layer of it, with a synchronization around each."""

import time

import torch
import torch.nn.functional as F
import torchvision

import loop


class ByWaiting:
    """Seconds in each layer by the host's clock, once the device is done with what comes before and with the layer."""

    def __init__(self, model):
        self.seconds = {}
        for name, layer in model.named_modules():
            if not list(layer.children()):
                layer.register_forward_pre_hook(self.begins)
                layer.register_forward_hook(lambda *_, name=name: self.ends(name))

    def begins(self, *_):
        torch.cuda.synchronize()  # fault: explicit-synchronize
        self.start = time.perf_counter()

    def ends(self, name):
        torch.cuda.synchronize()  # fault: explicit-synchronize
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - self.start

    def longest(self):
        return max(self.seconds, key=self.seconds.get)


class ByEvents:
    """The same by the device's clock, which is read when all is done."""

    def __init__(self, model):
        self.events = {}
        for name, layer in model.named_modules():
            if not list(layer.children()):
                layer.register_forward_pre_hook(lambda *_, name=name: self.add(name))
                layer.register_forward_hook(lambda *_, name=name: self.add(name))

    def add(self, name):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self.events.setdefault(name, []).append(event)

    def longest(self):
        torch.cuda.synchronize()
        return max(self.events, key=lambda name: sum(map(torch.cuda.Event.elapsed_time, self.events[name][::2], self.events[name][1::2])))


def main():
    args = loop.options(__doc__, steps=40, size=160, batch=512)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    model = torchvision.models.resnet34(num_classes=100).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=on_gpu)
    photos = torch.randint(256, (4, args.batch, 3, args.size, args.size), dtype=torch.uint8, device=device)
    labels = torch.randint(100, (args.batch,), device=device)
    times = (ByEvents if args.fixed else ByWaiting)(model) if on_gpu else None
    for step in range(args.steps):
        images = (photos[step % 4] / 255 - 0.5).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(f"longest: {times.longest()}" if times else f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
