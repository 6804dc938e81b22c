"""Trains on samples of many small fields, each of which goes to the device by itself."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=120, fields=12, samples=16, width=2048, layers=4)
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    device = torch.device(args.device)
    widths = [args.fields * 8, *[args.width] * args.layers]
    hidden = [layer for pair in zip(widths, widths[1:]) for layer in (nn.Linear(*pair), nn.ReLU())]
    model = nn.Sequential(*hidden, nn.Linear(args.width, 4)).to(device)
    people = [[torch.rand(8, generator=generator) for _ in range(args.fields)] for _ in range(1000)]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        chosen = [people[(step * args.samples + number) % len(people)] for number in range(args.samples)]
        if args.fixed:
            rows = torch.stack([torch.cat(fields) for fields in chosen]).to(device)
        else:
            rows = torch.stack([torch.cat([field.to(device) for field in fields]) for fields in chosen])  # fault: many-small-copies
        labels = torch.randint(4, (args.samples,), generator=generator).to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(rows), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
