"""Trains convolutions on spectrograms, which workers make of sounds."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Spectrograms(torch.utils.data.Dataset):
    """Of a second of sound each, made when they are asked for."""

    def __init__(self, length, samples):
        self.sounds = torch.randn(64, samples, generator=torch.Generator().manual_seed(0))
        self.window = torch.hann_window(512)
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        sound = self.sounds[index % len(self.sounds)].roll(index)
        spectrum = torch.stft(sound, 512, 160, window=self.window, return_complex=True).abs()
        return (spectrum + 1e-6).log().T.to(torch.bfloat16), index % 30


class Listener(nn.Module):
    """A spectrogram to the word that is spoken."""

    def __init__(self, width):
        super().__init__()
        channels = [257, width, width, width]
        layers = [layer for pair in zip(channels, channels[1:]) for layer in (nn.Conv1d(*pair, 5, padding=2), nn.GELU())]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(width, 30)

    def forward(self, spectra):
        return self.head(self.layers(spectra.transpose(1, 2)).mean(2))


def main():
    args = loop.options(__doc__, steps=80, samples=16000, batch=96, width=512)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    model = Listener(args.width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=on_gpu)
    sounds = Spectrograms(args.steps * args.batch, args.samples)
    workers = (12 if args.fixed else 2) if on_gpu else 1
    loader = torch.utils.data.DataLoader(sounds, batch_size=args.batch, num_workers=workers, pin_memory=on_gpu)
    total = torch.zeros((), device=device)
    for spectra, words in loader:
        spectra = spectra.to(device, non_blocking=True)  # fault: loader-wait
        words = words.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(spectra), words)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
