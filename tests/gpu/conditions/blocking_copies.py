"""Trains a classifier, and fetches its scores with cudaMemcpy, as an extension in C does, to rank them on the host.

slipstream brings such copies through staging memory.
environment: SLIPSTREAM_TRANSFER_H2D=off
environment: SLIPSTREAM_TRANSFER_D2H=off
"""

import ctypes

import torch
import torch.nn.functional as F
from torch import nn

import loop

DEVICE_TO_HOST = 2


def fetch(scores, memory):
    cudart = ctypes.CDLL(None)  # PyTorch has loaded it for everybody
    places = ctypes.c_void_p(memory.data_ptr()), ctypes.c_void_p(scores.data_ptr())
    if cudart.cudaMemcpy(*places, ctypes.c_size_t(scores.nbytes), DEVICE_TO_HOST):  # shown: blocking-copies
        raise RuntimeError("cudaMemcpy failed")


def main():
    args = loop.options(__doc__, steps=40, features=1024, width=4096, classes=1000, batch=8192)
    torch.manual_seed(0)
    device = torch.device(args.device)
    body = [nn.Linear(args.features, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU()]
    model = nn.Sequential(*body, nn.Linear(args.width, args.classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.randn(args.batch, args.features, device=device)
    labels = torch.randint(args.classes, (args.batch,), device=device)
    memory = torch.zeros(args.batch, args.classes)
    ranks = torch.zeros(args.classes)
    for _ in range(args.steps):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            scores = model(rows).float()
        loss = F.cross_entropy(scores, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if device.type == "cuda":
            fetch(scores.detach(), memory)
        ranks += memory.topk(8).indices.flatten().bincount(minlength=args.classes)
    print(f"loss {loss.item():.3f}, most often {ranks.argmax()}")


if __name__ == "__main__":
    main()
