"""Trains a deep network with an optimizer that was written by hand, one parameter after the other."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Momentum:
    """SGD with momentum and decay, as a textbook has it."""

    def __init__(self, parameters, rate, momentum=0.9, decay=1e-4):
        self.parameters = list(parameters)
        self.velocities = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.rate, self.momentum, self.decay = rate, momentum, decay

    @torch.no_grad()
    def step(self):
        for parameter, velocity in zip(self.parameters, self.velocities):
            gradient = parameter.grad.add(parameter, alpha=self.decay)  # fault: loop-over-tensors
            velocity.mul_(self.momentum).add_(gradient)  # fault: loop-over-tensors
            parameter.sub_(velocity * self.rate)  # fault: loop-over-tensors
            parameter.grad = None


class MomentumOfAll(Momentum):
    """The same, of all parameters at once."""

    @torch.no_grad()
    def step(self):
        gradients = torch._foreach_add([p.grad for p in self.parameters], self.parameters, alpha=self.decay)
        torch._foreach_mul_(self.velocities, self.momentum)
        torch._foreach_add_(self.velocities, gradients)
        torch._foreach_add_(self.parameters, self.velocities, alpha=-self.rate)
        for parameter in self.parameters:
            parameter.grad = None


def main():
    args = loop.options(__doc__, steps=40, width=512, layers=80, batch=8192)
    torch.manual_seed(0)
    device = torch.device(args.device)
    layers = [layer for _ in range(args.layers) for layer in (nn.Linear(args.width, args.width), nn.LayerNorm(args.width))]
    model = nn.Sequential(*layers, nn.Linear(args.width, 10)).to(device)
    optimizer = (MomentumOfAll if args.fixed else Momentum)(model.parameters(), 1e-3)
    features = torch.randn(args.batch, args.width, device=device)
    labels = torch.randint(10, (args.batch,), device=device)
    total = torch.zeros((), device=device)
    for _ in range(args.steps):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(features).float(), labels)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
