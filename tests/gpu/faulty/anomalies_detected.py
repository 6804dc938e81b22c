"""Trains a transformer, and still looks for the NaN of last week."""

import torch
import torch.nn.functional as F

import loop
import networks


def main():
    args = loop.options(__doc__, steps=40, batch=16, length=256, width=512, layers=6, words=8192)
    torch.manual_seed(0)
    device = torch.device(args.device)
    torch.autograd.set_detect_anomaly(not args.fixed)
    model = networks.LanguageModel(args.words, args.width, args.layers, max(1, args.width // 64), args.length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    generator = torch.Generator().manual_seed(1)
    total = torch.zeros((), device=device)
    for _ in range(args.steps):
        numbers = torch.randint(args.words, (args.batch, args.length + 1), generator=generator).to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(numbers[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), numbers[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # fault: anomaly-detection
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
