"""Trains on spectrograms with a worker for each processor of the machine, of which the job has four."""

import os

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Spectrograms(torch.utils.data.Dataset):
    """Of sounds, made when they are asked for."""

    def __init__(self, length, samples):
        self.sounds = torch.randn(64, samples, generator=torch.Generator().manual_seed(0))
        self.window = torch.hann_window(512)
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        sound = self.sounds[index % len(self.sounds)].roll(index)
        spectrum = torch.stft(sound, 512, 160, window=self.window, return_complex=True).abs()
        return (spectrum + 1e-6).log().mean(1), index % 30


def main():
    args = loop.options(__doc__, steps=70, samples=64000, batch=96, width=512, layers=10, processors=4, workers=16)
    # As a batch system does.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.processors])
    torch.manual_seed(0)
    device = torch.device(args.device)
    widths = [257, *[args.width] * args.layers]
    body = [layer for pair in zip(widths, widths[1:]) for layer in (nn.Linear(*pair), nn.GELU())]
    model = nn.Sequential(*body, nn.Linear(args.width, 30)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    workers = min(args.workers, os.cpu_count())
    sounds = Spectrograms(args.steps * args.batch, args.samples)
    loader = torch.utils.data.DataLoader(sounds, batch_size=args.batch, num_workers=workers)
    total = torch.zeros((), device=device)
    for spectra, words in loader:
        spectra, words = spectra.to(device), words.to(device)
        loss = F.cross_entropy(model(spectra), words)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
