"""Trains a transformer with activation checkpoints, which another machine needed."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import loop


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projection, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens):
        batch, length, width = tokens.shape
        split = self.projection(self.before_attention(tokens))  # fault: recomputed-activations
        query, key, value = split.view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)  # fault: recomputed-activations
        tokens = tokens + self.joined(seen.transpose(1, 2).reshape(batch, length, width))
        return tokens + self.feed(self.before_feed(tokens))  # fault: recomputed-activations


def main():
    args = loop.options(__doc__, steps=60, batch=32, length=512, width=1024, layers=8, words=8192)
    torch.manual_seed(0)
    device = torch.device(args.device)
    words = nn.Embedding(args.words, args.width).to(device)
    blocks = nn.ModuleList(Block(args.width, max(1, args.width // 64)) for _ in range(args.layers)).to(device)
    head = nn.Linear(args.width, args.words).to(device)
    optimizer = torch.optim.AdamW(
        [*words.parameters(), *blocks.parameters(), *head.parameters()], lr=1e-4, fused=device.type == "cuda"
    )
    numbers = torch.randint(args.words, (8, args.batch, args.length + 1), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        batch = numbers[step % len(numbers)]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            x = words(batch[:, :-1])
            for block in blocks:
                x = block(x) if args.fixed else checkpoint(block, x, use_reentrant=False)
            loss = F.cross_entropy(head(x).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
