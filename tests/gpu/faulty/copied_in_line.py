"""Trains on tables whose batches are pinned, and copies each of them on the stream that then waits for it."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Ahead:
    """Batches on the device: the next one is on its way, on a stream of its own, while this one is computed with."""

    def __init__(self, tables, device):
        self.tables, self.device = tables, device
        self.copies = torch.cuda.Stream(device)
        self.at = 0
        self.start()

    def start(self):
        with torch.cuda.stream(self.copies):
            self.rows = self.tables[self.at % len(self.tables)].to(self.device, non_blocking=True)
        self.at += 1

    def take(self):
        torch.cuda.current_stream(self.device).wait_stream(self.copies)
        rows = self.rows
        rows.record_stream(torch.cuda.current_stream(self.device))
        self.start()
        return rows


def main():
    args = loop.options(__doc__, steps=150, columns=2000, width=6144, batch=8192)
    torch.manual_seed(0)
    device = torch.device(args.device)
    body = [nn.Linear(args.columns, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU()]
    model = nn.Sequential(*body, nn.Linear(args.width, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tables = [torch.randn(args.batch, args.columns) for _ in range(4)]
    if device.type == "cuda":
        tables = [table.pin_memory() for table in tables]
    ahead = Ahead(tables, device) if args.fixed and device.type == "cuda" else None
    labels = torch.randint(10, (args.batch,), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        if ahead:
            rows = ahead.take()
        else:
            rows = tables[step % 4].to(device, non_blocking=True)  # fault: exposed-copies
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(rows), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
