"""What the training programs share: options, seeds, the loop, and the record of a run.

A program builds a Trainer; its step() trains on one batch and returns the loss as a tensor, which may still be on the
device.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import platform
import random
import time
from typing import Callable, Optional

import torch


class Stopwatch:
    """Seconds that a thread has spent inside `with`."""

    def __init__(self):
        self.seconds = 0.0
        self.start = 0.0

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, *_):
        self.seconds += time.perf_counter() - self.start


# All that a program does to bring a batch to the device, once the batch is there on the host.
MOVING = Stopwatch()


@dataclasses.dataclass
class Trainer:
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[], torch.Tensor]
    batch: int
    device: torch.device
    # Only fetches the next batch, where a loader delivers it: says whether the loader is what limits a step.
    fetch: Optional[Callable[[], object]] = None
    # Ends what the program started beside the loop.
    close: Callable[[], None] = lambda: None
    # What the program has to tell besides times, as JSON can hold it.
    report: Callable[[], dict] = dict
    # Tensors that the program made on the host, by name: part of what a run came to.
    kept: Callable[[], dict] = dict

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def parser(description, batch):
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    result.add_argument("--steps", type=int, default=20)
    result.add_argument("--block-steps", type=int, default=10, help="steps between two synchronized clock readings")
    result.add_argument("--batch", type=int, default=batch)
    result.add_argument("--seed", type=int, default=1)
    result.add_argument("--deterministic", action="store_true")
    result.add_argument("--device", default="cuda")
    result.add_argument(
        "--empty-cache", action="store_true", help="torch.cuda.empty_cache() after every step, as some scripts do"
    )
    result.add_argument("--out", help="JSON file for losses, hash, times and versions")
    return result


def prepare(args):
    """Seeds everything; with --deterministic also asks PyTorch for deterministic kernels."""
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    if args.deterministic:
        # Read when cuBLAS makes its first handle, which is after this.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False


def emptying(args, step):
    """The step, with what --empty-cache adds to it."""
    if not args.empty_cache:
        return step

    def step_and_empty():
        loss = step()
        torch.cuda.empty_cache()  # Does nothing where there is no CUDA.
        return loss

    return step_and_empty


def state_hash(model, optimizer, kept=None):
    """sha256 over the bytes of all weights, buffers, optimizer state and what else is kept, with names, types, shapes."""
    digest = hashlib.sha256()

    def add(name, tensor):
        tensor = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())

    for name, tensor in sorted(model.state_dict().items()):
        add(name, tensor)
    for index, state in sorted(optimizer.state_dict()["state"].items()):
        for name, value in sorted(state.items()):
            if torch.is_tensor(value):
                add(f"{index}.{name}", value)
            else:
                digest.update(f"{index}.{name} {value!r}\n".encode())
    for name, tensor in sorted((kept or {}).items()):
        add(f"kept.{name}", tensor)
    return digest.hexdigest()


def versions():
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if torch.cuda.is_available() else None,
    }


def run_blocks(trainer, steps, block_steps):
    """Trains in blocks; reads the clock, synchronized, at the end of each. The losses, and seconds a step by block."""
    losses = []
    step_seconds = []
    while len(losses) < steps:
        block = min(block_steps, steps - len(losses))
        trainer.synchronize()
        start = time.perf_counter()
        for _ in range(block):
            losses.append(trainer.step())
        trainer.synchronize()
        step_seconds.append((time.perf_counter() - start) / block)
    return [float(loss) for loss in losses], step_seconds


def train(args, trainer):
    """The run of a program: its steps, one line for people, and the record."""
    values, step_seconds = run_blocks(trainer, args.steps, args.block_steps)
    print(f"loss {values[0]:.6f} -> {values[-1]:.6f}, {trainer.batch / step_seconds[-1]:.1f} samples/s")
    if args.out:
        record = {
            "arguments": vars(args),
            "losses": [value.hex() for value in values],
            "state_sha256": state_hash(trainer.model, trainer.optimizer, trainer.kept()),
            "step_seconds": step_seconds,
            "versions": versions(),
        }
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
    trainer.close()
