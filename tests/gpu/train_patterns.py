"""Trains a small convolutional network, fed and read in one of the ways in which people write their loops.

Each pattern is a function that takes a Job and returns its step. They differ only in how batches reach the device and
what is read back; none knows of anything that stands between it and CUDA.
"""

import math
import queue
import threading

import torch
import torch.nn.functional as F
from torch import nn

import train_common

VALIDATE_EVERY = 5


class ConvNet(nn.Module):
    """Three stages of convolutions; every layer has deterministic kernels."""

    def __init__(self, width, classes):
        super().__init__()
        layers = []
        channels = 3
        for stage in (width, 2 * width, 4 * width):
            for stride in (2, 1):
                layers += [nn.Conv2d(channels, stage, 3, stride, 1, bias=False), nn.BatchNorm2d(stage), nn.ReLU()]
                channels = stage
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, images):
        return self.head(self.features(images).mean(dim=(2, 3)))


class Batches:
    """Endless batches drawn from a pool. Each is gathered into the same host memory, as a hand-written collate does.

    So a batch may be used only until the next one is drawn. With `fresh` every batch has memory of its own.
    """

    def __init__(self, args, seed, fresh=False):
        self.generator = torch.Generator().manual_seed(seed)
        self.images = torch.randn(256, 3, args.size, args.size, generator=self.generator)
        self.labels = torch.randint(args.classes, (256,), generator=self.generator)
        self.batch = args.batch
        self.fresh = fresh
        self.memory = self._memory()

    def _memory(self):
        return self.images.new_empty(self.batch, *self.images.shape[1:]), self.labels.new_empty(self.batch)

    def __iter__(self):
        return self

    def __next__(self):
        chosen = torch.randint(len(self.images), (self.batch,), generator=self.generator)
        images, labels = self._memory() if self.fresh else self.memory
        torch.index_select(self.images, 0, chosen, out=images)
        torch.index_select(self.labels, 0, chosen, out=labels)
        return images, labels


class Job:
    """What every pattern trains."""

    def __init__(self, args):
        self.args = args
        self.device = torch.device(args.device)
        self.model = ConvNet(args.width, args.classes).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.close = lambda: None

    def batches(self, fresh=False):
        # Where the device is the CPU a batch is not copied on its way there.
        return Batches(self.args, self.args.seed, fresh or self.device.type == "cpu")

    def train(self, images, labels):
        """One step on a batch that is on the device."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def plain(job):
    """Batch to the device, step."""
    batches = job.batches()

    def step():
        images, labels = next(batches)
        return job.train(images.to(job.device), labels.to(job.device))

    return step


def item(job):
    """The loss is read at every step, to log it and to stop where it is no number."""
    batches = job.batches()

    def step():
        images, labels = next(batches)
        value = job.train(images.to(job.device), labels.to(job.device)).item()
        if not math.isfinite(value):
            raise SystemExit(f"the loss is {value}")
        return torch.tensor(value)

    return step


def prefetch_thread(job):
    """A thread takes batches to the device and passes them by a queue."""
    batches = job.batches()
    ready = queue.Queue(maxsize=2)
    stop = threading.Event()

    def deliver():
        for images, labels in batches:
            if stop.is_set():
                return
            ready.put((images.to(job.device), labels.to(job.device)))

    thread = threading.Thread(target=deliver, daemon=True)
    thread.start()

    def close():
        stop.set()
        while thread.is_alive():
            try:
                ready.get(timeout=0.05)
            except queue.Empty:
                pass
        thread.join()

    job.close = close
    return lambda: job.train(*ready.get(timeout=60))


class StreamPrefetcher:
    """Copies and normalizes the next batch on a stream of its own, as the data_prefetcher of Apex's examples does."""

    def __init__(self, batches, device):
        self.batches = batches
        self.device = device
        self.stream = torch.cuda.Stream()
        self.mean = torch.tensor([0.1, 0.0, -0.1], device=device).view(1, 3, 1, 1)
        self.deviation = torch.tensor([1.1, 1.0, 0.9], device=device).view(1, 3, 1, 1)
        self.preload()

    def preload(self):
        images, labels = next(self.batches)
        with torch.cuda.stream(self.stream):
            self.images = images.to(self.device, non_blocking=True).sub_(self.mean).div_(self.deviation)
            self.labels = labels.to(self.device, non_blocking=True)

    def next(self):
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        images, labels = self.images, self.labels
        images.record_stream(current)
        labels.record_stream(current)
        self.preload()
        return images, labels


def prefetch_stream(job):
    """The next batch is copied on a second stream while this one is trained on; no copy waits."""
    torch.cuda.synchronize()
    prefetcher = StreamPrefetcher(job.batches(fresh=True), job.device)
    return lambda: job.train(*prefetcher.next())


def grad_scaler(job):
    """Half precision with a scaled loss; the scaler reads at every step whether the gradients are finite."""
    batches = job.batches()
    scaler = torch.amp.GradScaler(job.device.type)

    def step():
        images, labels = next(batches)
        images, labels = images.to(job.device), labels.to(job.device)
        job.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(job.device.type, dtype=torch.float16):
            loss = F.cross_entropy(job.model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(job.optimizer)
        scaler.update()
        return loss.detach()

    return step


def accumulation(job, parts=4):
    """Gradients of several batches are added up before the optimizer steps."""
    batches = job.batches()

    def step():
        job.optimizer.zero_grad(set_to_none=True)
        total = 0
        for _ in range(parts):
            images, labels = next(batches)
            loss = F.cross_entropy(job.model(images.to(job.device)), labels.to(job.device)) / parts
            loss.backward()
            total = total + loss.detach()
        job.optimizer.step()
        return total

    return step


def validation(job):
    """Validates now and then: loss and predictions come to the host. Such a step's loss is the validation's."""
    batches = job.batches()
    held_out = Batches(job.args, job.args.seed + 1)
    done = 0

    @torch.no_grad()
    def validate():
        job.model.eval()
        loss, correct = 0.0, 0
        for _ in range(2):
            images, labels = next(held_out)
            scores = job.model(images.to(job.device))
            loss += F.cross_entropy(scores, labels.to(job.device)).item()
            correct += (scores.argmax(dim=1).cpu() == labels).sum().item()
        job.model.train()
        return torch.tensor(loss - correct / job.args.batch)

    def step():
        nonlocal done
        images, labels = next(batches)
        loss = job.train(images.to(job.device), labels.to(job.device))
        done += 1
        return validate() if done % VALIDATE_EVERY == 0 else loss

    return step


def two_streams(job):
    """Double buffering by hand: blocking copies on one stream, training on the other."""
    batches = job.batches()
    copies = torch.cuda.Stream()

    def fetch():
        images, labels = next(batches)
        with torch.cuda.stream(copies):
            return images.to(job.device), labels.to(job.device)

    pending = fetch()

    def step():
        nonlocal pending
        images, labels = pending
        compute = torch.cuda.current_stream()
        compute.wait_stream(copies)
        images.record_stream(compute)
        labels.record_stream(compute)
        loss = job.train(images, labels)
        pending = fetch()
        return loss

    return step


def cuda_graph(job):
    """A captured step: every batch is copied into the graph's input and the graph is replayed."""
    batches = job.batches()
    images, labels = (tensor.to(job.device) for tensor in next(batches))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            job.train(images, labels)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = job.train(images, labels)

    def step():
        new_images, new_labels = next(batches)
        images.copy_(new_images)
        labels.copy_(new_labels)
        graph.replay()
        return loss.clone()

    return step


def compiled(job):
    """The model goes through torch.compile."""
    batches = job.batches()
    model = torch.compile(job.model)

    def step():
        images, labels = next(batches)
        images, labels = images.to(job.device), labels.to(job.device)
        job.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        job.optimizer.step()
        return loss.detach()

    return step


PATTERNS = {
    function.__name__: function
    for function in (
        plain,
        item,
        prefetch_thread,
        prefetch_stream,
        grad_scaler,
        accumulation,
        validation,
        two_streams,
        cuda_graph,
        compiled,
    )
}
NEED_CUDA = ("prefetch_stream", "two_streams", "cuda_graph")


def parse(arguments=None):
    parser = train_common.parser(__doc__, batch=32)
    parser.add_argument("--pattern", default="plain", choices=list(PATTERNS))
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    args = parser.parse_args(arguments)
    if args.pattern in NEED_CUDA and not args.device.startswith("cuda"):
        parser.error(f"--pattern {args.pattern} needs a CUDA device")
    return args


def build(args):
    train_common.prepare(args)
    job = Job(args)
    step = train_common.emptying(args, PATTERNS[args.pattern](job))
    return train_common.Trainer(job.model, job.optimizer, step, args.batch, job.device, close=lambda: job.close())


def main():
    args = parse()
    train_common.train(args, build(args))


if __name__ == "__main__":
    main()
