"""Trains a classifier on two ranks (torchrun), which add their gradients up behind the backward pass."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=40, width=4096, layers=6, batch=4096)
    on_gpu = args.device == "cuda"
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo", device_id=device if on_gpu else None)
    torch.manual_seed(0)
    with device:
        layers = [layer for _ in range(args.layers) for layer in (nn.Linear(args.width, args.width), nn.ReLU())]
        model = nn.Sequential(*layers, nn.Linear(args.width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.randn(args.batch, args.width, device=device)
    labels = torch.randint(10, (args.batch,), device=device)
    losses = []
    for _ in range(args.steps):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(rows), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)  # shown: exposed-communication
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {sum(losses) / args.steps:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
