"""Is killed with SIGKILL in the middle of using the device."""

import os
import signal
import sys

import torch

x = torch.ones(1024, 1024, device=sys.argv[1])
print(x.sum().item(), flush=True)
x = x @ x
os.kill(os.getpid(), signal.SIGKILL)
