"""triton_kernels.py SEED: Triton kernels on PyTorch's tensors. Prints a sha256 over the bytes of each result."""

import hashlib
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def mix(x, y, out, count, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    left = tl.load(x + offsets, mask=inside)
    right = tl.load(y + count - 1 - offsets, mask=inside)
    tl.store(out + offsets, left * factor - right, mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    row = tl.load(x + start + offsets, mask=offsets < columns, other=-float("inf"))
    powers = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + start + offsets, powers / tl.sum(powers, axis=0), mask=offsets < columns)


def show(name, *tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.cpu().numpy().tobytes())
    print(name, digest.hexdigest(), flush=True)


def main():
    torch.manual_seed(int(sys.argv[1]))
    results = []
    host = torch.empty(1_000_003)
    for number in range(5):
        host.normal_()
        x, y = host.cuda(), host.flip(0).cuda()
        out = torch.empty_like(x)
        mix[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), float(number + 1), BLOCK=1024)
        results.append(out)
    show("mix", *results)
    rows = torch.randn(2048, 781).cuda()
    out = torch.empty_like(rows)
    softmax[(len(rows),)](rows, out, rows.shape[1], BLOCK=1024)
    show("softmax", out)


if __name__ == "__main__":
    main()
