"""Forks while the device is in use; one child leaves at once, one becomes another program. The parent computes on."""

import os
import sys

import torch

device = sys.argv[1]
x = torch.arange(256, dtype=torch.float32, device=device)
for argv in (None, ["sh", "-c", "exit 6"]):
    child = os.fork()
    if child == 0:
        if argv is None:
            os._exit(5)
        os.execvp(argv[0], argv)
    print("child left with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print((x * 2).sum().item())
