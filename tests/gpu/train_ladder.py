"""Trains MobileNetV2 on small images enlarged to 224 x 224, tuned by hand as far as a rung of the ladder says.

The rungs are those of tuning guides, each with all that is below it: `baseline`; `mixed`, mixed precision; `batch`, a larger
batch; `uint8`, images as bytes, which the device normalizes; `workers`, as many loader workers as there are processors
for; `pinned`, pinned batches that are copied without waiting. With `--only` they come one by one, in any order. Prints
samples a second, the first steps left out.
"""

import argparse
import os
import time

import torch
import torch.nn.functional as F
import torchvision

RUNGS = ("baseline", "mixed", "batch", "uint8", "workers", "pinned")
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class SmallImages(torch.utils.data.Dataset):
    """Images of 32 x 32 in memory, as CIFAR-10 has them; each is enlarged when it is asked for."""

    def __init__(self, length, size, as_bytes):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randint(256, (2000, 3, 32, 32), generator=generator, dtype=torch.uint8)
        self.labels = torch.randint(10, (2000,), generator=generator)
        self.length, self.size, self.as_bytes = length, size, as_bytes
        self.mean = torch.tensor(MEAN).view(3, 1, 1)
        self.deviation = torch.tensor(DEVIATION).view(3, 1, 1)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        index %= len(self.images)
        image = F.interpolate(self.images[index][None], self.size)[0]
        if not self.as_bytes:
            image = (image.float() / 255 - self.mean) / self.deviation
        return image, self.labels[index]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", choices=RUNGS, default="baseline")
    parser.add_argument("--only", metavar="RUNG,...", help="these, and not all up to --rung; may be empty")
    parser.add_argument("--samples", type=int, default=16384, help="that are measured")
    parser.add_argument("--small-batch", type=int, default=32)
    parser.add_argument("--large-batch", type=int, default=128)
    parser.add_argument("--few-workers", type=int, default=2)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    args.taken = RUNGS[1 : RUNGS.index(args.rung) + 1] if args.only is None else args.only.split(",") if args.only else []
    if unknown := set(args.taken) - set(RUNGS[1:]):
        parser.error(f"no rung is called {', '.join(sorted(unknown))}")
    return args


def main():
    args = parse()
    mixed, large, as_bytes, many, pinned = (rung in args.taken for rung in RUNGS[1:])
    torch.manual_seed(0)
    device = torch.device(args.device)
    batch = args.large_batch if large else args.small_batch
    processors = len(os.sched_getaffinity(0))
    workers = max(args.few_workers, processors - 2) if many else args.few_workers
    warm_up = max(4, args.samples // batch // 8)
    steps = warm_up + args.samples // batch
    loader = torch.utils.data.DataLoader(
        SmallImages(steps * batch, args.size, as_bytes), batch_size=batch, num_workers=workers, pin_memory=pinned
    )
    model = torchvision.models.mobilenet_v2(num_classes=10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    mean = torch.tensor(MEAN, device=device).view(3, 1, 1)
    deviation = torch.tensor(DEVIATION, device=device).view(3, 1, 1)
    start = None
    for step, (images, labels) in enumerate(loader):
        if step == warm_up:
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        images = images.to(device, non_blocking=pinned)
        labels = labels.to(device, non_blocking=pinned)
        if as_bytes:
            images = (images.float() / 255 - mean) / deviation
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=mixed):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    last = loss.item()  # waits for all of it
    seconds = time.perf_counter() - start
    print(f"{', '.join(args.taken) or RUNGS[0]}: loss {last:.4f}, {(steps - warm_up) * batch / seconds:.1f} samples/s")


if __name__ == "__main__":
    main()
