"""Trains on rows that all lie on the device, which they nearly fill."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=40, columns=4096, width=1024, batch=4096, percent=94)
    torch.manual_seed(0)
    device = torch.device(args.device)
    memory = torch.cuda.mem_get_info()[1] if device.type == "cuda" else 8 << 20
    count = memory * args.percent // 100 // args.columns
    # The first that is asked for.
    rows = torch.zeros(count, args.columns, dtype=torch.uint8, device=device)  # shown: near-memory-limit
    model = nn.Sequential(nn.Linear(args.columns, args.width), nn.ReLU(), nn.Linear(args.width, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    labels = torch.randint(10, (args.batch,), device=device)
    total = torch.zeros((), device=device)
    for _ in range(args.steps):
        chosen = torch.randint(count, (args.batch,), device=device)
        loss = F.cross_entropy(model(rows[chosen] / 255), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f} on {count} rows")


if __name__ == "__main__":
    main()
