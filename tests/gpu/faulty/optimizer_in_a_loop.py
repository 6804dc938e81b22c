"""Trains an ensemble of networks side by side, with an optimizer that was written by hand, one parameter after the other."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Adam:
    """As a textbook has it."""

    def __init__(self, parameters, rate, decays=(0.9, 0.999), least=1e-8):
        self.parameters = list(parameters)
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.rate, self.decays, self.least, self.steps = rate, decays, least, 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        first, second = self.decays
        for parameter, mean, square in zip(self.parameters, self.means, self.squares):
            mean.mul_(first).add_(parameter.grad * (1 - first))  # fault: loop-over-tensors
            square.mul_(second).add_(parameter.grad**2 * (1 - second))  # fault: loop-over-tensors
            root = (square / (1 - second**self.steps)).sqrt() + self.least  # fault: loop-over-tensors
            parameter -= mean / (1 - first**self.steps) / root * self.rate  # fault: loop-over-tensors
            parameter.grad = None


class Ensemble(nn.Module):
    """Networks of two layers, each with weights of its own, which the device computes at once."""

    def __init__(self, members, width, classes):
        super().__init__()
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(members))
        self.heads = nn.ModuleList(nn.Linear(width, classes) for _ in range(members))

    @staticmethod
    def at_once(layers, inputs):
        weights = torch.stack([layer.weight for layer in layers])
        biases = torch.stack([layer.bias for layer in layers])
        return torch.baddbmm(biases.unsqueeze(1), inputs, weights.transpose(1, 2))

    def forward(self, features):
        inputs = features.expand(len(self.hidden), *features.shape)
        return self.at_once(self.heads, F.relu(self.at_once(self.hidden, inputs)))


def main():
    args = loop.options(__doc__, steps=40, width=256, members=32, batch=512)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device(args.device)
    model = Ensemble(args.members, args.width, 10).to(device)
    if args.fixed:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    else:
        optimizer = Adam(model.parameters(), 1e-3)
    features = torch.randn(args.batch, args.width, device=device)
    labels = torch.randint(10, (args.batch,), device=device).repeat(args.members)
    total = torch.zeros((), device=device)
    for _ in range(args.steps):
        loss = F.cross_entropy(model(features).flatten(0, 1), labels)
        loss.backward()
        optimizer.step()
        if args.fixed:
            optimizer.zero_grad(set_to_none=True)
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
