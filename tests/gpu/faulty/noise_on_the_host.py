"""Trains a diffusion model: a U-Net is to find the noise that was added to an image."""

import torch
import torch.nn.functional as F

import loop
from networks import UNet


def main():
    args = loop.options(__doc__, steps=60, size=64, batch=256, width=48)
    torch.manual_seed(0)
    device = torch.device(args.device)
    model = UNet(4, 3, args.width).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    photos = torch.rand(4 * args.batch, 3, args.size, args.size, device=device) * 2 - 1
    kept = torch.linspace(0.999, 0.01, 1000, device=device).view(-1, 1, 1, 1)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        begin = step % 4 * args.batch
        images = photos[begin : begin + args.batch]
        if args.fixed:
            noise = torch.randn(images.shape, device=device)
        else:
            noise = torch.randn(images.shape).to(device)  # fault: built-on-the-host|loader-in-process
        times = torch.randint(1000, (args.batch,), device=device)
        noisy = kept[times].sqrt() * images + (1 - kept[times]).sqrt() * noise
        levels = (times / 1000).view(-1, 1, 1, 1).expand(-1, 1, args.size, args.size)
        inputs = torch.cat([noisy, levels], 1).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.mse_loss(model(inputs).float(), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
