"""Trains a transformer as well as one GPU lets it: nothing to be found."""

import torch
import torch.nn.functional as F
from torch import nn

import loop


class Tokens(torch.utils.data.Dataset):
    """Sentences of one length."""

    def __init__(self, count, length):
        self.tokens = torch.randint(8000, (256, length + 1), generator=torch.Generator().manual_seed(0))
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.tokens[index % len(self.tokens)]


def main():
    args = loop.options(__doc__, steps=30, width=2048, layers=8, batch=16, length=1024)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    layer = nn.TransformerEncoderLayer(args.width, 16, 4 * args.width, dropout=0.0, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, args.layers, enable_nested_tensor=False)
    model = nn.ModuleDict({"words": nn.Embedding(8000, args.width), "body": body, "head": nn.Linear(args.width, 8000)})
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=on_gpu)
    loader = torch.utils.data.DataLoader(
        Tokens(args.steps * args.batch, args.length), batch_size=args.batch, num_workers=2, pin_memory=on_gpu
    )
    total = torch.zeros((), device=device)
    for batch in loader:
        batch = batch.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            hidden = model["body"](model["words"](batch[:, :-1]))
            loss = F.cross_entropy(model["head"](hidden).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
