"""Trains on a small data set in many short epochs, each with a loader of its own."""

import torch
import torch.nn.functional as F
from torch import nn

import loop

STEPS_OF_EPOCH = 15


class Signals(torch.utils.data.Dataset):
    """Sums of waves, made when they are asked for."""

    def __init__(self, length, samples):
        self.time = torch.linspace(0, 1, samples)
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        waves = torch.stack([torch.sin(self.time * (7 + index % 20) * (wave + 1)) for wave in range(4)])
        return waves.sum(0, keepdim=True), index % 20


def loader_of(signals, args):
    on_gpu = args.device == "cuda"
    return torch.utils.data.DataLoader(signals, batch_size=args.batch, num_workers=8 if on_gpu else 1, persistent_workers=args.fixed)


def main():
    args = loop.options(__doc__, steps=600, samples=4096, batch=64, width=128)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    layers = [layer for inputs in (1, args.width, args.width) for layer in (nn.Conv1d(inputs, args.width, 9, 4), nn.GELU())]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(args.width, 20)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=on_gpu)
    signals = Signals(STEPS_OF_EPOCH * args.batch, args.samples)
    total = torch.zeros((), device=device)
    loader = loader_of(signals, args)
    for _ in range(max(1, args.steps // STEPS_OF_EPOCH)):
        if not args.fixed:
            loader = loader_of(signals, args)
        for waves, labels in loader:
            waves = waves.to(device, non_blocking=True)  # fault: loader-remade
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = F.cross_entropy(model(waves), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
