"""Trains a ResNet on photos from a loader as well as one GPU lets it: nothing to be found."""

import torch
import torch.nn.functional as F
import torchvision

import loop


class Photos(torch.utils.data.Dataset):
    """Photos in memory, cropped and flipped when they are asked for."""

    def __init__(self, length, size):
        generator = torch.Generator().manual_seed(0)
        self.photos = torch.randint(256, (64, 3, size + 32, size + 32), generator=generator, dtype=torch.uint8)
        self.length = length
        self.size = size

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        photo = self.photos[index % len(self.photos)]
        photo = photo[:, index % 32 : index % 32 + self.size, index % 29 : index % 29 + self.size]
        return photo.flip(2) if index % 2 else photo.contiguous(), index % 100


def main():
    args = loop.options(__doc__, steps=50, size=224, batch=192)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    model = torchvision.models.resnet50(num_classes=100).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=on_gpu)
    photos = Photos(args.steps * args.batch, args.size)
    loader = torch.utils.data.DataLoader(photos, batch_size=args.batch, num_workers=8 if on_gpu else 1, pin_memory=on_gpu)
    total = torch.zeros((), device=device)
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        images = images.to(torch.bfloat16, memory_format=torch.channels_last).div_(255).sub_(0.5)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
