"""Trains a classifier, with averages of its weights on the host, by eight threads. The job has two processors."""

import os

import torch
import torch.nn.functional as F
from torch import nn

import loop

DECAYS = (0.9, 0.99, 0.999)


def main():
    args = loop.options(__doc__, steps=30, width=2048, layers=1, batch=4096, processors=2, threads=8)
    # As a batch system does.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.processors])
    torch.set_num_threads(min(args.threads, os.cpu_count()))
    torch.manual_seed(0)
    device = torch.device(args.device)
    layers = [layer for _ in range(args.layers) for layer in (nn.Linear(args.width, args.width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(args.width, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.randn(args.batch, args.width, device=device)
    labels = torch.randint(10, (args.batch,), device=device)
    averages = {decay: nn.utils.parameters_to_vector(model.parameters()).detach().cpu() for decay in DECAYS}
    for _ in range(args.steps):
        loss = F.cross_entropy(model(rows), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        weights = nn.utils.parameters_to_vector(model.parameters()).detach().cpu()
        for decay, average in averages.items():
            average.lerp_(weights, 1 - decay)
    print(f"loss {loss.item():.3f}, {averages[0.9].norm():.1f}")


if __name__ == "__main__":
    main()
