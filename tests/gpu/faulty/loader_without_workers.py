"""Trains a ResNet on images that are decoded and augmented on the host, by the process that trains."""

import torch
import torch.nn.functional as F
import torchvision

import loop


class Photos(torch.utils.data.Dataset):
    """Encoded photos: decoded, cropped, flipped and normalized when they are asked for."""

    def __init__(self, length, size):
        generator = torch.Generator().manual_seed(0)
        raw = torch.randint(256, (32, 3, 400, 500), generator=generator, dtype=torch.uint8)
        self.encoded = [torchvision.io.encode_jpeg(photo, quality=90) for photo in raw]
        self.length = length
        self.size = size
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        self.deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        photo = torchvision.io.decode_jpeg(self.encoded[index % len(self.encoded)])
        photo = photo[:, : self.size, index % 100 : index % 100 + self.size]
        if index % 2:
            photo = photo.flip(2)
        return (photo.float() / 255 - self.mean) / self.deviation, index % 100


def main():
    args = loop.options(__doc__, steps=25, size=224, batch=64)
    torch.manual_seed(0)
    device = torch.device(args.device)
    model = torchvision.models.resnet18(num_classes=100).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    photos = Photos(args.steps * args.batch, args.size)
    loader = torch.utils.data.DataLoader(photos, batch_size=args.batch, shuffle=True)
    total = torch.zeros((), device=device)
    for images, labels in loader:
        images = images.to(device)  # fault: loader-wait
        labels = labels.to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
