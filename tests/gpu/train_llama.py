"""Trains a decoder of Llama's shape, random weights, on batches of sentences whose number and length change every step.

Such steps are what a caching allocator splits its memory on: no two ask for the same sizes. The record has the peak of what
PyTorch had allocated and reserved over the steps behind --warm-up, what the driver says is in use, and how often the
allocator had to give memory back and ask again.
The defaults have 1.2 billion parameters (16 layers of 2048, as Llama 3.2 1B, with a smaller vocabulary). The seed decides
the shapes, so two processes do the same steps.
"""

import json
import random
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import train_common


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), 1e-5)


def rotate(x, positions):
    """Rotary position embedding over pairs of halves; x: batch, heads, length, width of a head."""
    half = x.shape[-1] // 2
    frequencies = 500_000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = positions[:, None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Layer(nn.Module):
    def __init__(self, width, heads, groups, inner):
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, width // heads
        self.norm_attention, self.norm_mlp = Norm(width), Norm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * groups * self.head, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, positions):
        batch, length, _ = x.shape
        y = self.norm_attention(x)
        query = self.query(y).view(batch, length, self.heads, self.head).transpose(1, 2)
        both = self.key_value(y).view(batch, length, 2, self.groups, self.head).permute(2, 0, 3, 1, 4)
        key, value = both[0].repeat_interleave(self.heads // self.groups, 1), both[1].repeat_interleave(
            self.heads // self.groups, 1
        )
        y = F.scaled_dot_product_attention(rotate(query, positions), rotate(key, positions), value, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, -1))
        y = self.norm_mlp(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.recompute = args.recompute
        self.tokens = nn.Embedding(args.vocabulary, args.width)
        self.layers = nn.ModuleList(
            Layer(args.width, args.heads, args.groups, args.inner) for _ in range(args.layers)
        )
        self.norm = Norm(args.width)
        self.head = nn.Linear(args.width, args.vocabulary, bias=False)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        x = self.tokens(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, positions, use_reentrant=False) if self.recompute else layer(x, positions)
        return self.head(self.norm(x))


def parse(arguments=None):
    parser = train_common.parser(__doc__, batch=6)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--shortest", type=int, default=200)
    parser.add_argument("--length", type=int, default=3000, help="of the longest sentence")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--groups", type=int, default=8, help="heads of keys and values")
    parser.add_argument("--inner", type=int, default=8192, help="width inside the feed-forward part")
    parser.add_argument("--recompute", action="store_true", help="activations of a layer are computed again in backward()")
    parser.add_argument("--warm-up", type=int, default=5, help="steps that do not count")
    return parser.parse_args(arguments)


def driver_used(device):
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def main():
    args = parse()
    train_common.prepare(args)
    device = torch.device(args.device)
    cuda = device.type == "cuda"
    model = Llama(args).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=cuda)
    shapes = random.Random(args.seed)
    losses, seconds, used = [], [], 0
    for step in range(args.warm_up + args.steps):
        batch, length = shapes.randint(1, args.batch), shapes.randint(args.shortest, args.length)
        tokens = torch.randint(args.vocabulary, (batch, length + 1))
        if cuda and step == args.warm_up:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats(device)
        start = time.perf_counter()
        tokens = tokens.to(device)
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if step >= args.warm_up:
            seconds.append(time.perf_counter() - start)
            used = max(used, driver_used(device)) if cuda else 0
        del tokens, logits, loss
    record = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "losses": [value.hex() for value in losses],
        "step_seconds": seconds,
        "versions": train_common.versions(),
    }
    if cuda:
        stats = torch.cuda.memory_stats(device)
        record |= {
            "allocator": torch.cuda.get_allocator_backend(),
            "peak_allocated": torch.cuda.max_memory_allocated(device),
            "peak_reserved": torch.cuda.max_memory_reserved(device),
            "driver_used": used,
            "retries": stats.get("num_alloc_retries", 0),
        }
        print(
            f"{record['allocator']}: peak allocated {record['peak_allocated'] / 2**30:.2f} GiB of reserved "
            f"{record['peak_reserved'] / 2**30:.2f}, the driver says {used / 2**30:.2f}; {sum(seconds):.3f} s in "
            f"{len(seconds)} steps, median {statistics.median(seconds) * 1e3:.1f} ms"
        )
    if args.out:
        with open(args.out, "w") as file:
            json.dump(record, file)


if __name__ == "__main__":
    main()
