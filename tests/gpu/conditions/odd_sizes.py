"""Trains a model of words whose number is no multiple of 8, in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=60, words=30011, width=1024, batch=16384)
    torch.manual_seed(0)
    device = torch.device(args.device)
    words = nn.Embedding(args.words, args.width).to(device)
    body = nn.Sequential(nn.Linear(args.width, args.width), nn.GELU(), nn.Linear(args.width, args.words)).to(device)
    optimizer = torch.optim.AdamW([*words.parameters(), *body.parameters()], lr=1e-4, fused=device.type == "cuda")
    tokens = torch.randint(args.words, (8, args.batch + 1), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        row = tokens[step % len(tokens)]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(body(words(row[:-1])), row[1:])  # shown: odd-sizes
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # shown: odd-sizes
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
