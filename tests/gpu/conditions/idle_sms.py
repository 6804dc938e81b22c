"""Learns how sharply to tell where in a long recording a sound begins: a softmax over all samples of each, eight at a time."""

import torch
import torch.nn.functional as F

import loop


def main():
    args = loop.options(__doc__, steps=30, samples=4 << 20, batch=8)
    torch.manual_seed(0)
    device = torch.device(args.device)
    sharpness = torch.ones((), device=device, requires_grad=True)
    optimizer = torch.optim.SGD([sharpness], lr=1e-3)
    loudness = torch.randn(args.batch, args.samples, device=device)
    begins = torch.randint(args.samples, (args.batch,), device=device)
    total = torch.zeros((), device=device)
    for _ in range(args.steps):
        # A row is the work of one block.
        loss = F.cross_entropy(sharpness * loudness, begins)  # shown: idle-sms
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}, sharpness {sharpness.item():.3f}")


if __name__ == "__main__":
    main()
