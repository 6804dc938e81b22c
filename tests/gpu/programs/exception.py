"""Raises while the device has work."""

import sys

import torch

device = sys.argv[1]
total = (torch.arange(1000, device=device) ** 2).sum()
print(int(total), flush=True)
raise ValueError("on purpose")
