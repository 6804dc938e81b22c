"""Trains a transformer, and the same again bit by bit, with everything that PyTorch does for that.

environment: CUBLAS_WORKSPACE_CONFIG=:4096:8
"""

import torch
import torch.nn.functional as F

import loop
import networks


def main():
    args = loop.options(__doc__, steps=60, batch=32, length=512, width=512, layers=6, words=8192)
    torch.manual_seed(0)
    device = torch.device(args.device)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = not args.fixed
    model = networks.LanguageModel(args.words, args.width, args.layers, max(1, args.width // 64), args.length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    numbers = torch.randint(args.words, (8, args.batch, args.length + 1), device=device)
    total = torch.zeros((), device=device)
    for step in range(args.steps):
        batch = numbers[step % len(numbers)]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())  # fault: filled-before-use
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # fault: filled-before-use
        optimizer.step()
        total += loss.detach()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
