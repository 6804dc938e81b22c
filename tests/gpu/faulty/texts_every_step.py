"""Trains a network that matches images to texts, whose features are known and never change."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Matcher(nn.Module):
    """How well each image's features match each text's."""

    def __init__(self, texts, width, layers):
        super().__init__()
        hidden = [layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.GELU())]
        self.images = nn.Sequential(*hidden, nn.Linear(width, texts.shape[1]))
        self.texts = texts

    def forward(self, features):
        texts = self.texts.to(features.device)  # fault: same-data-again
        return F.normalize(self.images(features), dim=1) @ texts.T / 0.07


def main():
    args = loop.options(__doc__, steps=60, texts=65536, depth=1024, width=2048, layers=4, batch=3072)
    torch.manual_seed(0)
    device = torch.device(args.device)
    texts = F.normalize(torch.randn(args.texts, args.depth), dim=1)
    model = Matcher(texts.to(device) if args.fixed else texts, args.width, args.layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    features = torch.randn(4, args.batch, args.width, device=device)
    matching = torch.randint(args.texts, (4, args.batch), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(features[step % 4]), matching[step % 4])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
