"""Uses the device, says its process id, and waits for a signal; "handler" installs one that leaves with status 7."""

import os
import signal
import sys

import torch

device, how = sys.argv[1:]
if how == "handler":

    def leave(number, _frame):
        print(f"handled {signal.Signals(number).name}", flush=True)
        sys.exit(7)

    signal.signal(signal.SIGTERM, leave)
torch.ones(8, device=device).sum().item()
print(f"ready {os.getpid()}", flush=True)
while True:
    signal.pause()
