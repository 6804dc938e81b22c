"""What the programs of this folder share: values that are the same in every run, and a line for every check."""

import sys

import torch

_failed = []


def values(count, dtype=torch.float32, seed=0):
    """`count` values that differ from their neighbors and by the seed; the same in every process."""
    numbers = torch.arange(count, dtype=torch.int64).mul_(2654435761).add_(seed * 40503).bitwise_and_(0xFFFF)
    if dtype == torch.bool:
        return numbers.bitwise_and_(4).ne_(0).to(dtype)
    return numbers.remainder_(120).to(dtype)


def same(got, expected):
    """A tensor of the host is, bit for bit, the other one."""
    return (got.device.type == "cpu" and got.shape == expected.shape and got.dtype == expected.dtype
            and torch.equal(got.contiguous().flatten().view(torch.uint8), expected.contiguous().flatten().view(torch.uint8)))


def expect(what, good):
    if not good:
        print(f"WRONG: {what}", flush=True)
        _failed.append(what)


def expect_same(what, got, expected):
    expect(what, same(got, expected))


def section(function, *arguments):
    """Runs a part of the program; its line says what it found."""
    before = len(_failed)
    counted = function(*arguments)
    wrong = len(_failed) - before
    print(f"{function.__name__}: {counted} checks, {wrong} wrong", flush=True)


def finish(status=0):
    sys.exit(1 if _failed else status)
