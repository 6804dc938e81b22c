"""Trains a small GPT on sentences of random lengths, in a part of the device's memory in which it barely fits.

PyTorch's allocator keeps blocks by size, and sizes change from step to step: when no cached block fits and the part is
used up, it gives its cached blocks back to the driver and asks again (num_alloc_retries). The part is --headroom times what
the allocator takes from the driver for the longest sentence when it begins with nothing cached, found in one step. A step
that runs out of memory even so is counted, and done again with nothing cached.
The longest comes once in every --cycle steps; apart from that no cycle is like another, or the allocator would soon have
a block for everything. The seed decides, so two processes do the same in the same cycle.
"""

import random

import torch
import torch.nn.functional as F

import train_common
import train_lm


def parse(arguments=None):
    parser = train_common.parser(__doc__, batch=8)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--length", type=int, default=768, help="of the longest sentence")
    parser.add_argument("--shortest", type=int, default=64)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--cycle", type=int, default=24)
    parser.add_argument("--headroom", type=float, default=1.02)
    return parser.parse_args(arguments)


def lengths_of(args):
    """Endless."""
    generator = random.Random(args.seed)
    while True:
        lengths = [generator.randint(args.shortest, args.length) for _ in range(args.cycle - 1)]
        lengths.insert(generator.randrange(args.cycle), args.length)
        yield from lengths


class Memory:
    """The part of the device that the program may use; nothing on the CPU."""

    def __init__(self, device):
        self.device = device
        self.cuda = device.type == "cuda"
        self.out_of_memory = 0
        self.limit = None

    def limit_to(self, headroom):
        if not self.cuda:
            return
        self.limit = int(torch.cuda.max_memory_reserved(self.device) * headroom)
        total = torch.cuda.get_device_properties(self.device).total_memory
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(self.limit / total)

    def forget(self):
        """Nothing cached, and no peak from before."""
        if self.cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def report(self):
        if not self.cuda:
            return {"retries": 0, "out_of_memory": 0, "driver_frees": 0}
        stats = torch.cuda.memory_stats(self.device)
        return {
            "retries": stats["num_alloc_retries"],
            "out_of_memory": self.out_of_memory,
            "driver_allocations": stats["segment.all.allocated"],
            "driver_frees": stats["segment.all.freed"],
            "peak_allocated": stats["allocated_bytes.all.peak"],
            "peak_reserved": stats["reserved_bytes.all.peak"],
            "limit": self.limit,
        }


def build(args):
    train_common.prepare(args)
    device = torch.device(args.device)
    model = train_lm.GPT(args.vocabulary, args.length, args.layers, args.width, args.heads).to(device)
    memory = Memory(device)
    # Fused: a step takes no memory of its own, so it cannot run out half-way.
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=memory.cuda)
    lengths = lengths_of(args)
    generator = torch.Generator().manual_seed(args.seed)
    losses = []

    def attempt(sentence):
        optimizer.zero_grad(set_to_none=True)
        logits = model(sentence[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), sentence[:, 1:].flatten())
        loss.backward()
        return loss.detach()

    def train_on(length):
        first = torch.randint(args.vocabulary, (args.batch, 1), generator=generator)
        stride = torch.randint(1, 8, (args.batch, 1), generator=generator)
        sentence = ((first + stride * torch.arange(length + 1)) % args.vocabulary).to(device)
        loss = None
        in_a_row = 0
        while loss is None:
            try:
                loss = attempt(sentence)
            except torch.OutOfMemoryError:
                memory.out_of_memory += 1
                in_a_row += 1
                if in_a_row > 2:
                    raise
            if loss is None:  # The error held the tensors of the step.
                optimizer.zero_grad(set_to_none=True)
                torch.cuda.empty_cache()
        optimizer.step()
        losses.append(loss)
        return loss

    def step():
        return train_on(next(lengths))

    train_on(args.length)  # and the optimizer's state is there
    optimizer.zero_grad(set_to_none=True)
    memory.forget()
    train_on(args.length)
    memory.limit_to(args.headroom)

    def report():
        return {"losses": [float(loss).hex() for loss in losses], **memory.report()}

    step = train_common.emptying(args, step)
    return train_common.Trainer(model, optimizer, step, args.batch, device, report=report)


def main():
    args = parse()
    train_common.train(args, build(args))


if __name__ == "__main__":
    main()
