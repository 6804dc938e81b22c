"""Trains a classifier on two ranks (torchrun), the first of which keeps a journal of what it has learned."""

import json
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import loop


def main():
    args = loop.options(__doc__, steps=40, width=2048, layers=4, batch=4096, entries=20000)
    on_gpu = args.device == "cuda"
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo", device_id=device if on_gpu else None)
    torch.manual_seed(0)
    layers = [layer for _ in range(args.layers) for layer in (nn.Linear(args.width, args.width), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(args.width, 10)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.randn(args.batch, args.width, device=device)
    labels = torch.randint(10, (args.batch,), device=device)
    journal, written = [0.1 * entry for entry in range(args.entries)], 0
    for _ in range(args.steps):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(rows), labels)  # shown: stragglers
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        journal[-1] = loss.item()
        if dist.get_rank() == 0:
            written += len(json.dumps(journal))
    print(f"loss {journal[-1]:.3f}, {written} characters")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
