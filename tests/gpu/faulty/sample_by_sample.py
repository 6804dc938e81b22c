"""Trains on samples of many small fields, each of which goes to the device by itself."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=40, fields=40, samples=24, width=256)
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    device = torch.device(args.device)
    model = nn.Sequential(nn.Linear(args.fields * 8, args.width), nn.ReLU(), nn.Linear(args.width, 4)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    total = torch.zeros((), device=device)
    for _ in range(args.steps):
        rows = []
        for _ in range(args.samples):
            fields = [torch.rand(8, generator=generator) for _ in range(args.fields)]
            rows.append(torch.cat([field.to(device) for field in fields]))  # fault: many-small-copies
        labels = torch.randint(4, (args.samples,), generator=generator).to(device)
        loss = F.cross_entropy(model(torch.stack(rows)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
