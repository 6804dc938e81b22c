"""Trains a U-Net and gives all unused device memory back in each step, as against running out of it.

environment: SLIPSTREAM_ALLOCATOR_MODE=off
"""

import torch
import torch.nn.functional as F

import loop
from networks import UNet


def main():
    args = loop.options(__doc__, steps=60, size=128, batch=72, width=48)
    torch.manual_seed(0)
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    model = UNet(3, 4, args.width).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=on_gpu)
    scans = torch.randn(4 * args.batch, 3, args.size, args.size, device=device).contiguous(memory_format=torch.channels_last)
    masks = torch.randint(4, (4 * args.batch, args.size, args.size), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        begin = step % 4 * args.batch
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(scans[begin : begin + args.batch])
            loss = F.cross_entropy(logits.float(), masks[begin : begin + args.batch])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        del logits, loss
        if on_gpu and not args.fixed:
            torch.cuda.empty_cache()  # fault: empty-cache-in-loop
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
