"""share_of_card.py DEVICE: takes a share of the device's memory and gives it back, each on request.

A line of JSON on standard input is one request, a line on standard output its answer:
- {"take": share, "within": s}: allocates that share of all memory in pieces, again and again for so many seconds while it
  does not fit: {"taken": true or false, "bytes": n, "seconds": s, "attempts": n}.
- {"release": true}: drops the tensors and calls empty_cache(): {"seconds": s}.
"""

import json
import sys
import time

import torch

# On the CPU nothing runs out: a rehearsal of the conversation.
CPU_TOTAL = 1 << 28
PAUSE = 0.02


class Card:
    def __init__(self, device):
        self.device = torch.device(device)
        self.tensors = []
        torch.zeros(1, device=self.device)
        if self.device.type == "cuda":
            self.total = torch.cuda.get_device_properties(self.device).total_memory
        else:
            self.total = CPU_TOTAL

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def release(self):
        start = time.perf_counter()
        self.tensors.clear()
        torch.cuda.empty_cache()
        return {"seconds": time.perf_counter() - start}

    def take(self, share, within):
        """What was had in a vain attempt is kept for the next one: the other process gives its memory back in parts."""
        start = time.perf_counter()
        piece = 1 << 30 if self.device.type == "cuda" else 1 << 24
        wanted = int(self.total * share) // piece
        attempts = 0
        while True:
            attempts += 1
            try:
                while len(self.tensors) < wanted:
                    self.tensors.append(torch.zeros(piece, dtype=torch.uint8, device=self.device))
                self.synchronize()
            except torch.OutOfMemoryError:
                pass
            seconds = time.perf_counter() - start
            taken = len(self.tensors) == wanted
            if taken or seconds > within:
                return {"taken": taken, "bytes": len(self.tensors) * piece, "seconds": seconds, "attempts": attempts}
            time.sleep(PAUSE)


def main():
    card = Card(sys.argv[1])
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = card.release() if request.get("release") else card.take(request["take"], request["within"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
