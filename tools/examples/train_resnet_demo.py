#!/usr/bin/env python3
"""Trains ResNet-18 on synthetic images: a plain PyTorch script, as people write them.

python3 tools/examples/train_resnet_demo.py
slipstream run -- python3 tools/examples/train_resnet_demo.py
"""

import argparse
import time

import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
args = parser.parse_args()

torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(256, 3, 224, 224), torch.randint(10, (256,)))
loader = torch.utils.data.DataLoader(data, batch_size=args.batch, shuffle=True, drop_last=True)
model = torchvision.models.resnet18(num_classes=10).to(args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

step, samples, start = 0, 0, None
while step < args.steps:
    for images, labels in loader:
        if step == 10 or args.steps <= 10 and step == 1:
            start, samples = time.perf_counter(), 0  # the first steps choose algorithms and fill caches
        loss = torch.nn.functional.cross_entropy(model(images.to(args.device)), labels.to(args.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step, samples = step + 1, samples + len(images)
        if step % 20 == 0 or step == args.steps:
            print(f"step {step:4d}  loss {loss.item():.4f}")
        if step == args.steps:
            break

seconds = time.perf_counter() - (start or time.perf_counter())
print(f"{samples / seconds:.0f} samples/s, final loss {loss.item():.6f}" if start else f"final loss {loss.item():.6f}")
