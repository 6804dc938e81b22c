"""Trains a deep classifier and keeps its gradients' memory, which it clears tensor by tensor, as code in C does."""

import ctypes

import torch
import torch.nn.functional as F
from torch import nn

import loop


def clear(gradients):
    cudart = ctypes.CDLL(None)  # PyTorch has loaded it for everybody
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    for gradient in gradients:
        place, size = ctypes.c_void_p(gradient.data_ptr()), ctypes.c_size_t(gradient.nbytes)
        if cudart.cudaMemsetAsync(place, 0, size, stream):  # shown: zero-grad-memsets
            raise RuntimeError("cudaMemsetAsync failed")


def main():
    args = loop.options(__doc__, steps=24, width=512, layers=18, batch=256)
    torch.manual_seed(0)
    device = torch.device(args.device)
    layers = [layer for _ in range(args.layers) for layer in (nn.Linear(args.width, args.width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(args.width, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.randn(args.batch, args.width, device=device)
    labels = torch.randint(10, (args.batch,), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        loss = F.cross_entropy(model(rows), labels)
        if device.type != "cuda":
            optimizer.zero_grad(set_to_none=False)
        elif step > 0:
            clear([parameter.grad for parameter in model.parameters()])
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
