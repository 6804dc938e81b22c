"""Learns what customers buy, from a large table of articles of which a batch has few."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, repairs=False, steps=150, articles=4_000_000, width=64, batch=4096, bought=8, sparse=0)
    torch.manual_seed(0)
    device = torch.device(args.device)
    articles = nn.Embedding(args.articles, args.width, sparse=args.sparse == 1).to(device)
    layers = [nn.Linear(args.width, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 16)]
    model = nn.Sequential(*layers).to(device)
    if args.sparse:
        optimizers = [torch.optim.SparseAdam(articles.parameters(), lr=1e-3)]
        optimizers.append(torch.optim.Adam(model.parameters(), lr=1e-3, fused=device.type == "cuda"))
    else:
        both = [*articles.parameters(), *model.parameters()]
        optimizers = [torch.optim.Adam(both, lr=1e-3, fused=device.type == "cuda")]
    bought = torch.randint(args.articles, (16, args.batch, args.bought), device=device)
    kinds = torch.randint(16, (16, args.batch), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        batch = step % len(bought)
        loss = F.cross_entropy(model(articles(bought[batch]).mean(dim=1)), kinds[batch])
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()  # shown: dense-embedding-gradient
        for optimizer in optimizers:
            optimizer.step()  # shown: dense-embedding-gradient
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
