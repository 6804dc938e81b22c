"""Trains a ResNet on photos that are decoded and augmented by the process that trains."""

import torch
import torch.nn.functional as F
import torchvision

import loop


class Photos(torch.utils.data.Dataset):
    """Encoded photos: decoded, cropped and flipped when they are asked for."""

    def __init__(self, length, size):
        generator = torch.Generator().manual_seed(0)
        raw = torch.randint(256, (32, 3, 256, 256), generator=generator, dtype=torch.uint8)
        self.encoded = [torchvision.io.encode_jpeg(photo, quality=90) for photo in raw]
        self.length = length
        self.size = size

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        photo = torchvision.io.decode_jpeg(self.encoded[index % len(self.encoded)])
        photo = photo[:, : self.size, index % 32 : index % 32 + self.size]
        return photo.flip(2) if index % 2 else photo, index % 100


def main():
    args = loop.options(__doc__, steps=60, size=224, batch=64)
    torch.manual_seed(0)
    device = torch.device(args.device)
    model = torchvision.models.resnet18(num_classes=100).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=device.type == "cuda")
    mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225], device=device).view(3, 1, 1)
    photos = Photos(args.steps * args.batch, args.size)
    loader = torch.utils.data.DataLoader(photos, batch_size=args.batch, shuffle=True, num_workers=14 if args.fixed else 0)
    total = torch.zeros((), device=device)
    for images, labels in loader:
        images = images.to(device, non_blocking=True)  # fault: loader-in-process|loader-wait
        labels = labels.to(device, non_blocking=True)
        images = ((images / 255 - mean) / deviation).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
