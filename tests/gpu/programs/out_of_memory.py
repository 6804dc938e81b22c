"""Asks for more memory than there is, catches the error, and goes on."""

import torch

free, total = torch.cuda.mem_get_info()
print(0 < free <= total)
kept = torch.ones(1 << 20, device="cuda")
for attempt in range(2):
    try:
        torch.empty(total * 2, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        print("caught", type(error).__name__, attempt)
torch.cuda.empty_cache()
print(kept.sum().item(), torch.cuda.memory_allocated())
