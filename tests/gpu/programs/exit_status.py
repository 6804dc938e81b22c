"""Leaves with the status given, after using the device."""

import sys

import torch

print(torch.ones(8, device=sys.argv[1]).sum().item(), flush=True)
raise SystemExit(int(sys.argv[2]))
