"""Trains where data crosses the bus at every step: as a plain script does it, or with --tuned as the guides tell.

Tuned means: pinned memory that is used again, copies that do not wait, the next batch on its way on a stream of its own
while this one is trained on, and whatever else each workload's docstring names. Both do the same training: with
--deterministic every loss and every weight has the same bits.
Each workload is a function that takes a Job and returns its step. None knows of anything between it and CUDA.
"""

import argparse
import contextlib
import math
import tempfile

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

import train_common
import train_lm
import train_patterns

# -- streams and events, where there are any


class Immediate:
    """Stands for a stream and an event on the CPU, where everything is done when its call returns."""

    def wait_event(self, event):
        pass

    def wait_stream(self, stream):
        pass

    def record(self, stream=None):
        pass

    def synchronize(self):
        pass


def new_stream(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else Immediate()


def new_event(device):
    return torch.cuda.Event() if device.type == "cuda" else Immediate()


def current_stream(device):
    return torch.cuda.current_stream(device) if device.type == "cuda" else Immediate()


def on(stream):
    return contextlib.nullcontext() if isinstance(stream, Immediate) else torch.cuda.stream(stream)


# -- batches that are dicts and lists


def mapped(tree, function):
    """The tree of dicts, lists and tuples with function(tensor) for every tensor."""
    if torch.is_tensor(tree):
        return function(tree)
    if isinstance(tree, dict):
        return {key: mapped(value, function) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(mapped(value, function) for value in tree)
    return tree


def to_device(tree, device, non_blocking=False):
    with train_common.MOVING:
        return mapped(tree, lambda tensor: tensor.to(device, non_blocking=non_blocking))


def leaves(tree, name=""):
    """(name, tensor) of every tensor in the tree, always in the same order."""
    if torch.is_tensor(tree):
        yield name, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{name}.{key}")
    elif isinstance(tree, (list, tuple)):
        for index, value in enumerate(tree):
            yield from leaves(value, f"{name}.{index}")


def fill(tree, values, non_blocking=False):
    """Copies the tensors of one tree into those of another."""
    for (_, tensor), (_, value) in zip(leaves(tree), leaves(values)):
        tensor.copy_(value, non_blocking=non_blocking)


def pinned_like(tree, device):
    """Host memory for such a tree; pinned where there is a device that would need it."""
    pin = device.type == "cuda"
    return mapped(tree, lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pin))


# -- what tuning by hand takes


class Slots:
    """Pieces of pinned memory in turn. One is handed out again when the copies from it are done."""

    def __init__(self, make, device, count=3):
        self.device = device
        self.slots = [(make(), new_event(device)) for _ in range(count)]
        self.last = 0

    def next(self):
        self.last = (self.last + 1) % len(self.slots)
        memory, copied = self.slots[self.last]
        copied.synchronize()
        return memory

    def copied(self):
        """Behind the copies from the piece that was handed out last, on the stream that makes them."""
        self.slots[self.last][1].record(current_stream(self.device))


class Ahead:
    """fetch() brings a batch to the device without waiting; here the next is always on its way, on a stream of its own."""

    def __init__(self, fetch, device):
        self.fetch = fetch
        self.device = device
        self.stream = new_stream(device)
        self.pending = self._start()

    def _start(self):
        with on(self.stream):
            return self.fetch()

    def next(self):
        compute = current_stream(self.device)
        compute.wait_stream(self.stream)
        batch = self.pending
        if self.device.type == "cuda":
            mapped(batch, lambda tensor: tensor.record_stream(compute))
        self.pending = self._start()
        return batch


class Job:
    """What a workload trains, and with what."""

    def __init__(self, args):
        self.args = args
        self.tuned = args.tuned
        self.device = torch.device(args.device)
        self.generator = torch.Generator().manual_seed(args.seed)
        self.model = None
        self.optimizer = None
        self.kept = dict  # as Trainer's

    def use(self, model, lr=0.01):
        self.model = model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)

    def autocast(self):
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.args.autocast)

    def fetching(self, move):
        """move() brings one batch to the device: called when it is needed, or ahead."""
        return Ahead(move, self.device).next if self.tuned else move

    def train(self, loss_of):
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = loss_of()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


# -- the workloads


class Images(torch.utils.data.Dataset):
    """Endless in practice, of a small pool: bytes as they come from a file, or floats that are ready."""

    def __init__(self, size, classes, pixels, generator):
        shape = (64, 3, size, size)
        if pixels == "uint8":
            self.pool = torch.randint(256, shape, generator=generator, dtype=torch.uint8)
        else:
            self.pool = torch.randn(shape, generator=generator)
        self.labels = torch.randint(classes, (997,), generator=generator)

    def __len__(self):
        return 10_000_000

    def __getitem__(self, index):
        return self.pool[index % len(self.pool)], self.labels[index % len(self.labels)]


class Augment:
    """Bytes to floats, normalized and half of them mirrored, on the device. Its random numbers are the device's own."""

    def __init__(self, device, seed):
        self.generator = torch.Generator(device).manual_seed(seed)
        self.mean = torch.tensor([123.7, 116.3, 103.5], device=device).view(1, 3, 1, 1)
        self.scale = torch.tensor([0.0171, 0.0175, 0.0174], device=device).view(1, 3, 1, 1)

    def __call__(self, images):
        images = images.float().sub_(self.mean).mul_(self.scale)
        random = torch.rand(len(images), 1, 1, 1, generator=self.generator, device=images.device)
        return torch.where(random < 0.5, images.flip(3), images)


def vision(job):
    """Images of a DataLoader, with or without worker processes; bytes are made into floats on the device.

    Tuned: pin_memory=True, and a prefetcher.
    """
    args = job.args
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    model = getattr(torchvision.models, args.model)(weights=None, num_classes=args.classes)
    job.use(model.to(memory_format=layout))
    augment = Augment(job.device, args.seed) if args.pixels == "uint8" else lambda images: images
    loader = torch.utils.data.DataLoader(
        Images(args.size, args.classes, args.pixels, job.generator),
        batch_size=args.batch,
        num_workers=args.workers,
        pin_memory=job.tuned and job.device.type == "cuda",
    )
    batches = iter(loader)
    fetch = job.fetching(lambda: to_device(next(batches), job.device, non_blocking=job.tuned))

    def step():
        images, labels = fetch()
        images = augment(images).to(memory_format=layout)
        return job.train(lambda: F.cross_entropy(job.model(images), labels))

    return step


class Tower(nn.Module):
    """Rows of 64 floats, and rows that are looked up by number, to one row of 64."""

    def __init__(self, layers, width, numbers):
        super().__init__()
        self.table = nn.Embedding(numbers, 64)
        self.first = nn.Linear(64, width)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(layers)
        )
        self.last = nn.Linear(width, 64)

    def forward(self, features, numbers):
        x = self.first(torch.cat([*features, *(self.table(found) for found in numbers)]))
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x).mean(dim=0)


class Packed:
    """Where tensors lie that travel as one."""

    ALIGNMENT = 512  # as PyTorch's allocator has it, so that kernels find what they find in separate tensors

    def __init__(self, tensors):
        self.parts = []
        self.bytes = 0
        for tensor in tensors:
            self.parts.append((self.bytes, tensor.nbytes, tensor.dtype, tensor.shape))
            self.bytes += -(-tensor.nbytes // self.ALIGNMENT) * self.ALIGNMENT

    def tensors(self, memory):
        return [memory[at : at + size].view(dtype).view(shape) for at, size, dtype, shape in self.parts]


def small_tensors(job):
    """64 tensors of 256 B to 64 KiB at every step, as batches of graphs or for recommenders have them.

    The host memory of a batch is filled anew for the next one. Tuned: one pinned buffer that holds all of them, so that
    they travel in one copy; and a prefetcher.
    """
    numbers, pools = 4096, []
    for index in range(64):
        size = 256 << index % 9
        if index % 2:
            pools.append(torch.randint(numbers, (8, size // 8), generator=job.generator))
        else:
            pools.append(torch.randn(8, size // 256, 64, generator=job.generator))
    job.use(Tower(job.args.layers, job.args.width, numbers))
    memory = [torch.empty_like(pool[0]) for pool in pools]
    packed = Packed(memory)

    def gather(tensors):
        chosen = torch.randint(8, (len(pools),), generator=job.generator).tolist()
        for tensor, pool, index in zip(tensors, pools, chosen):
            tensor.copy_(pool[index])
        return tensors

    if job.tuned:
        slots = Slots(lambda: pinned_like(torch.empty(packed.bytes, dtype=torch.uint8), job.device), job.device)

        def move():
            buffer = slots.next()
            gather(packed.tensors(buffer))
            there = to_device(buffer, job.device, non_blocking=True)
            slots.copied()
            return there

        ahead = Ahead(move, job.device)

        def fetch():
            return packed.tensors(ahead.next())

    else:

        def fetch():
            return to_device(gather(memory), job.device)

    def step():
        batch = fetch()
        target, features, found = batch[0][0], batch[2::2], batch[1::2]
        return job.train(lambda: F.mse_loss(job.model(features, found).float(), target))

    return step


class Detector(nn.Module):
    """So many boxes and their classes for every image."""

    def __init__(self, width, boxes, classes):
        super().__init__()
        self.boxes = boxes
        self.net = train_patterns.ConvNet(width, boxes * (4 + classes))

    def forward(self, images):
        found = self.net(images).view(len(images), self.boxes, -1)
        return found[..., :4], found[..., 4:]


def nested(job, boxes=100, classes=8):
    """Batches as collate functions for detection leave them, moved by a recursive helper: a dict of lists of images and
    of dicts of targets, 130 tensors of 800 B to 600 KB in a batch of 32.

    The host memory of a batch is filled anew for the next one. Tuned: the same tree in pinned memory; and a prefetcher.
    """
    args = job.args

    def sample():
        def randint(end, *shape, dtype=torch.int64):
            return torch.randint(end, shape, generator=job.generator, dtype=dtype)

        return {
            "ids": randint(1 << 40, args.batch),
            "images": [torch.randn(3, args.size, args.size, generator=job.generator) for _ in range(args.batch)],
            "targets": [
                {
                    "boxes": torch.rand(boxes, 4, generator=job.generator),
                    "labels": randint(classes, boxes),
                    "masks": randint(2, boxes, 28, 28, dtype=torch.uint8),
                }
                for _ in range(args.batch)
            ],
            "meta": {"split": "train", "weights": torch.rand(classes, generator=job.generator)},
        }

    pool = [sample() for _ in range(4)]
    job.use(Detector(args.width, boxes, classes))
    memory = sample()

    def gather(tree):
        fill(tree, pool[torch.randint(len(pool), (), generator=job.generator)])
        return tree

    if job.tuned:
        slots = Slots(lambda: pinned_like(memory, job.device), job.device)

        def move():
            there = to_device(gather(slots.next()), job.device, non_blocking=True)
            slots.copied()
            return there

    else:

        def move():
            return to_device(gather(memory), job.device)

    fetch = job.fetching(move)

    def loss_of(batch):
        targets = batch["targets"]
        found, scores = job.model(torch.stack(batch["images"]))
        # How much of a box its mask fills says how much the box counts.
        filled = torch.stack([target["masks"] for target in targets]).float().mean(dim=(2, 3))
        distance = (found - torch.stack([target["boxes"] for target in targets])).abs().mean(dim=2)
        labels = torch.cat([target["labels"] for target in targets])
        return (distance * filled).mean() + F.cross_entropy(scores.flatten(0, 1), labels, batch["meta"]["weights"])

    def step():
        batch = fetch()
        return job.train(lambda: loss_of(batch))

    return step


class Streamed:
    """The weights of layers, brought into one of two places on the device in turn, a layer ahead of its use."""

    def __init__(self, layers, device):
        self.layers = [fill_pinned(layer, device) for layer in layers]
        self.device = device
        self.stream = new_stream(device)
        self.places = [[torch.empty_like(w, device=device) for w in layers[0]] for _ in range(2)]
        self.ready = [new_event(device) for _ in range(2)]
        self.used = [new_event(device) for _ in range(2)]
        self.count = 0
        # The places may be memory that earlier work of this stream still uses.
        self.stream.wait_stream(current_stream(device))
        for number in range(2):
            self._start(number)

    def _start(self, number):
        place = number % 2
        with on(self.stream):
            self.stream.wait_event(self.used[place])
            with train_common.MOVING:
                for there, here in zip(self.places[place], self.layers[number % len(self.layers)]):
                    there.copy_(here, non_blocking=True)
            self.ready[place].record(self.stream)

    def __iter__(self):
        for _ in self.layers:
            place = self.count % 2
            compute = current_stream(self.device)
            compute.wait_event(self.ready[place])
            yield self.places[place]
            self.used[place].record(compute)
            self._start(self.count + 2)
            self.count += 1


def fill_pinned(layer, device):
    pinned = pinned_like(layer, device)
    fill(pinned, layer)
    return pinned


def offload(job):
    """A network too large for the device, say: its frozen layers lie in host memory and come one by one at every step;
    what is trained is the head on top of them.

    Tuned: pinned weights, and the next layer on its way while this one computes.
    """
    args = job.args
    layers = [
        [
            (torch.randn(shape, generator=job.generator) * 0.02).to(torch.bfloat16)
            for shape in ((args.width, 4 * args.width), (4 * args.width, args.width))
        ]
        for _ in range(args.layers)
    ]
    words = torch.randn(4096, args.width, generator=job.generator).to(job.device, torch.bfloat16)
    job.use(nn.Linear(args.width, args.classes))

    def as_needed():
        for layer in layers:
            yield to_device(layer, job.device)

    streamed = Streamed(layers, job.device) if job.tuned else None

    def step():
        tokens = torch.randint(len(words), (args.batch, args.length), generator=job.generator)
        labels = torch.randint(args.classes, (args.batch,), generator=job.generator)
        if job.tuned:
            with train_common.MOVING:
                tokens, labels = (fill_pinned(tensor, job.device) for tensor in (tokens, labels))
        tokens, labels = to_device((tokens, labels), job.device, non_blocking=job.tuned)
        with torch.no_grad():
            x = words[tokens]
            for up, down in streamed or as_needed():
                x = x + F.gelu(F.layer_norm(x, x.shape[-1:]) @ up) @ down
            x = x.float().mean(dim=1)
        return job.train(lambda: F.cross_entropy(job.model(x), labels))

    return step


def checkpoint(job):
    """A small GPT; every few steps all of model and optimizer goes to the host, kept in memory and, with --to-file,
    written to a file.

    Tuned: into pinned memory that is used again, with one synchronization behind all tensors, and none for each. Its
    batches are pinned too.
    """
    args = job.args
    shape = {"vocabulary": 4096, "heads": max(1, args.width // 64), "pin": job.tuned}
    lm = train_lm.build(argparse.Namespace(**{**vars(args), **shape, "empty_cache": False}))
    job.model, job.optimizer = lm.model, lm.optimizer
    done = 0
    last = None

    def copied(tensor):
        # Some of an optimizer's state lives on the host, where .cpu() would copy nothing.
        return tensor.detach().clone() if tensor.device.type == "cpu" else tensor.detach().cpu()

    def save():
        nonlocal last
        state = {"model": job.model.state_dict(), "optimizer": job.optimizer.state_dict()}
        with train_common.MOVING:
            if not job.tuned:
                last = mapped(state, copied)
            else:
                if last is None:
                    last = pinned_like(state, job.device)
                fill(last, state, non_blocking=True)
                current_stream(job.device).synchronize()
        if args.to_file:
            with tempfile.TemporaryFile() as file:
                torch.save(last, file)

    def step():
        nonlocal done
        loss = lm.step()
        done += 1
        if done % args.every == 0:
            save()
        return loss

    job.kept = lambda: dict(leaves(last))
    return step


class LateLoss:
    """The loss of the step before, by a copy that nobody waited for."""

    def __init__(self, device):
        self.device = device
        self.memory = pinned_like(torch.empty(()), device)
        self.copied = new_event(device)
        self.steps = 0

    def take(self, loss):
        """The last step's loss, or none at the first step; starts to fetch this one's."""
        self.copied.synchronize()
        value = self.memory.item() if self.steps else None
        self.memory.copy_(loss, non_blocking=True)
        self.copied.record(current_stream(self.device))
        self.steps += 1
        return value


def item(job):
    """The loss is read at every step, to log it and to stop where it is no number.

    Tuned: it is read one step late; pinned batches and a prefetcher.
    """
    args = job.args
    batches = train_patterns.Batches(args, args.seed)
    job.use(train_patterns.ConvNet(args.width, args.classes), lr=0.05)
    late = LateLoss(job.device)
    if job.tuned:
        slots = Slots(lambda: pinned_like(batches.memory, job.device), job.device)

        def move():
            batches.memory = slots.next()
            there = to_device(next(batches), job.device, non_blocking=True)
            slots.copied()
            return there

    else:

        def move():
            return to_device(next(batches), job.device)

    fetch = job.fetching(move)

    def step():
        images, labels = fetch()
        loss = job.train(lambda: F.cross_entropy(job.model(images), labels))
        value = late.take(loss) if job.tuned else loss.item()
        if value is not None and not math.isfinite(value):
            raise SystemExit(f"the loss is {value}")
        return loss

    return step


def on_device(job):
    """Batches are made on the device: nothing crosses the bus and there is nothing to tune."""
    args = job.args
    job.use(train_patterns.ConvNet(args.width, args.classes), lr=0.05)
    generator = torch.Generator(job.device).manual_seed(args.seed)

    def step():
        images = torch.randn(args.batch, 3, args.size, args.size, device=job.device, generator=generator)
        labels = torch.randint(args.classes, (args.batch,), device=job.device, generator=generator)
        return job.train(lambda: F.cross_entropy(job.model(images), labels))

    return step


WORKLOADS = {
    function.__name__: function
    for function in (
        vision,
        small_tensors,
        nested,
        offload,
        checkpoint,
        item,
        on_device,
    )
}


def parse(arguments=None):
    parser = train_common.parser(__doc__, batch=32)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--workload", default="vision", choices=list(WORKLOADS))
    parser.add_argument("--tuned", action="store_true", help="tuned by hand")
    parser.add_argument("--autocast", action="store_true", help="bfloat16 where autocast allows it")
    parser.add_argument("--size", type=int, default=224, help="of images")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--width", type=int, default=64, help="of the network")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--length", type=int, default=256, help="of sentences")
    parser.add_argument("--model", default="resnet18", choices=["resnet18", "resnet50", "mobilenet_v2"])
    parser.add_argument("--pixels", default="uint8", choices=["uint8", "float32"], help="what vision sends")
    parser.add_argument("--workers", type=int, default=0, help="of vision's loader")
    parser.add_argument("--channels-last", action="store_true", help="the memory format that tensor cores prefer")
    parser.add_argument("--every", type=int, default=4, help="steps between checkpoints")
    parser.add_argument("--to-file", action="store_true", help="a checkpoint is written to a file too")
    return parser.parse_args(arguments)


def build(args):
    train_common.prepare(args)
    job = Job(args)
    step = train_common.emptying(args, WORKLOADS[args.workload](job))
    return train_common.Trainer(job.model, job.optimizer, step, args.batch, job.device, kept=lambda: job.kept())


def main():
    args = parse()
    train_common.train(args, build(args))


if __name__ == "__main__":
    main()
