"""Trains convolutions on images that workers load, and that the training process crops and flips one by one."""

import torch
import torch.nn.functional as F
from torch import nn

import loop
import networks


class Images(torch.utils.data.Dataset):
    """Bytes, a little larger than what is trained on; cropped and flipped where it is repaired."""

    def __init__(self, length, size, crops):
        self.images = torch.randint(256, (64, 3, size + 16, size + 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
        self.length = length
        self.size = size
        self.crops = crops

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        image = self.images[index % len(self.images)]
        return (crop(image, index, self.size) if self.crops else image), index % 100


def crop(image, number, size):
    """One of many views of an image, in single precision."""
    left, top = number % 16, number // 16 % 16
    view = image[:, top : top + size, left : left + size].float()
    view = view * (0.8 + number % 5 * 0.1) + number % 7
    return view.flip(2) if number % 2 else view.contiguous()


def main():
    args = loop.options(__doc__, steps=80, size=160, batch=96, width=64)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    layers = [layer for inputs in (3, args.width, args.width) for layer in (networks.convolutions(inputs, args.width), nn.MaxPool2d(2))]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(args.width, 100)).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=on_gpu)
    images = Images(args.steps * args.batch, args.size, args.fixed)
    loader = torch.utils.data.DataLoader(images, batch_size=args.batch, num_workers=8 if on_gpu else 1)
    total = torch.zeros((), device=device)
    for step, (batch, labels) in enumerate(loader):
        if not args.fixed:
            views = [crop(image, number, args.size) for number, image in enumerate(batch, step * args.batch)]  # fault: batch-on-step-thread
            batch = torch.stack(views)
        x = batch.to(device, non_blocking=True)  # fault: batch-on-step-thread
        labels = labels.to(device, non_blocking=True)
        x = (x / 255).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
