"""Trains a ResNet or a MobileNetV2 on synthetic images that a DataLoader with worker processes delivers."""

import itertools

import torch
import torch.nn.functional as F
import torchvision

import train_common


class SyntheticImages(torch.utils.data.Dataset):
    """Endless in practice: `length` samples drawn from a small pool, so that the loader never is what is measured."""

    def __init__(self, length, size, classes, seed):
        generator = torch.Generator().manual_seed(seed)
        self.pool = torch.randn(64, 3, size, size, generator=generator)
        self.labels = torch.randint(classes, (997,), generator=generator)
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.pool[index % len(self.pool)], self.labels[index % len(self.labels)]


def parse(arguments=None):
    parser = train_common.parser(__doc__, batch=32)
    parser.add_argument("--model", default="resnet18", choices=["resnet18", "resnet50", "mobilenet_v2"])
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--in-memory", type=int, default=0, metavar="N",
                        help="cycle through N batches made beforehand, without a loader: for timing a step alone")
    parser.add_argument("--pin", action="store_true", help="tuned by hand: pinned batches, copied without waiting")
    parser.add_argument("--autocast", action="store_true", help="bfloat16 where autocast allows it")
    parser.add_argument("--channels-last", action="store_true", help="the memory format that tensor cores prefer")
    return parser.parse_args(arguments)


def build(args):
    train_common.prepare(args)
    device = torch.device(args.device)
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    model = getattr(torchvision.models, args.model)(weights=None, num_classes=args.classes)
    model = model.to(device).to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    loader = torch.utils.data.DataLoader(
        SyntheticImages(10_000_000, args.size, args.classes, args.seed),
        batch_size=args.batch,
        num_workers=args.workers,
        pin_memory=args.pin,
    )
    batches = iter(loader)
    if args.in_memory:
        batches = itertools.cycle([next(batches) for _ in range(args.in_memory)])

    def step():
        images, labels = next(batches)
        images, labels = images.to(device, non_blocking=args.pin), labels.to(device, non_blocking=args.pin)
        images = images.to(memory_format=layout)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.autocast):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = train_common.emptying(args, step)
    return train_common.Trainer(model, optimizer, step, args.batch, device, fetch=lambda: next(batches))


def main():
    args = parse()
    train_common.train(args, build(args))


if __name__ == "__main__":
    main()
