"""first_pinned_batch.py DEVICE: how long until a DataLoader(pin_memory=True) has delivered its first batch, and the next.

Prints {"first": s, "longest": s, "total": s, "sum": x}: longest is the longest wait for one of the other batches.
"""

import json
import sys
import time

import torch

BATCHES = 12


class Images(torch.utils.data.Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return torch.full((3, self.size, self.size), float(index % 251))


def main():
    device = torch.device(sys.argv[1])
    cuda = device.type == "cuda"
    loader = torch.utils.data.DataLoader(
        Images(224 if cuda else 16), batch_size=128 if cuda else 8, num_workers=4 if cuda else 2, pin_memory=cuda
    )
    torch.zeros(1, device=device)
    total = 0.0
    waits = []
    start = before = time.perf_counter()
    for number, batch in enumerate(loader, 1):
        waits.append(time.perf_counter() - before)
        total += batch.to(device, non_blocking=cuda).double().sum().item()
        before = time.perf_counter()
        if number == BATCHES:
            break
    seconds = time.perf_counter() - start
    print(json.dumps({"first": waits[0], "longest": max(waits[1:]), "total": seconds, "sum": total}))


if __name__ == "__main__":
    main()
