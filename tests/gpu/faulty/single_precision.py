"""Trains a transformer on token batches that are on the device already, in the precision that PyTorch starts with."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


def main():
    args = loop.options(__doc__, steps=40, width=1024, layers=4, batch=24, length=512)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high" if args.fixed else "highest")
    device = torch.device(args.device)
    layer = nn.TransformerEncoderLayer(args.width, 16, 4 * args.width, dropout=0.0, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, args.layers, enable_nested_tensor=False)
    model = nn.ModuleDict({"words": nn.Embedding(8000, args.width), "body": body, "head": nn.Linear(args.width, 8000)})
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    tokens = torch.randint(8000, (16, args.batch, args.length + 1), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        batch = tokens[step % len(tokens)]
        hidden = model["body"](model["words"](batch[:, :-1]))
        loss = F.cross_entropy(model["head"](hidden).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # fault: no-tensor-cores
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
