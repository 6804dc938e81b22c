"""Trains a small GPT with random weights on a synthetic language."""

import torch
import torch.nn.functional as F
from torch import nn

import train_common


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        # Written out: every kernel of it is deterministic on every version.
        weights = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        weights = weights.masked_fill(mask, float("-inf")).softmax(dim=-1)
        x = x + self.project((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, length, layers, width, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.positions.weight[:length]
        for block in self.blocks:
            x = block(x, self.mask[:length, :length])
        return self.head(self.norm(x))


def parse(arguments=None):
    parser = train_common.parser(__doc__, batch=8)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--pin", action="store_true", help="tuned by hand: pinned tokens, copied without waiting")
    parser.add_argument("--autocast", action="store_true", help="bfloat16 where autocast allows it")
    return parser.parse_args(arguments)


def build(args):
    train_common.prepare(args)
    device = torch.device(args.device)
    model = GPT(args.vocabulary, args.length, args.layers, args.width, args.heads).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    # Sentences of this language count upwards by a fixed stride, so that there is something to learn.
    starts = torch.Generator().manual_seed(args.seed)
    ramp = torch.arange(args.length + 1)

    def step():
        first = torch.randint(args.vocabulary, (args.batch, 1), generator=starts)
        stride = torch.randint(1, 8, (args.batch, 1), generator=starts)
        sentence = (first + stride * ramp) % args.vocabulary
        with train_common.MOVING:
            if args.pin and device.type == "cuda":
                sentence = sentence.pin_memory()
            sentence = sentence.to(device, non_blocking=args.pin)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.autocast):
            logits = model(sentence[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), sentence[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train_common.Trainer(model, optimizer, train_common.emptying(args, step), args.batch, device)


def main():
    args = parse()
    train_common.train(args, build(args))


if __name__ == "__main__":
    main()
