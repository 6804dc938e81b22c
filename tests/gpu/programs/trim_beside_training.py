"""trim_beside_training.py BLOCKS MIB: trains on a short queue of work while BLOCKS blocks of MIB MiB, which the program has
given up, lie idle in slipstream's pool, until the pool gives them back to the driver, which waits for the device at each.

Prints JSON: `step_ms`, the median step; `lost_ms`, what the steps of the next five seconds that took more than twice as
long took beyond it, in all; `longest_ms`. Without blocks: what the machine alone does.
"""

import json
import statistics
import sys
import time

import torch

SECONDS = 5.0
QUEUED = 4
LONG = 2.0


def main():
    count, mib = int(sys.argv[1]), int(sys.argv[2])
    blocks = [torch.empty(mib << 20, dtype=torch.uint8, device="cuda") for _ in range(count)]
    weights = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    into = torch.empty_like(weights)
    queue = []

    def train(seconds):
        steps = []
        start = last = time.perf_counter()
        while last < start + seconds:
            for _ in range(8):
                torch.mm(weights, weights, out=into)
            done = torch.cuda.Event()
            done.record()
            queue.append(done)
            if len(queue) > QUEUED:
                queue.pop(0).synchronize()
            now = time.perf_counter()
            steps.append(now - last)
            last = now
        return steps

    train(1.0)
    del blocks
    torch.cuda.empty_cache()
    steps = train(SECONDS)
    median = statistics.median(steps)
    lost = sum(step - median for step in steps if step > LONG * median)
    print(json.dumps({"step_ms": median * 1e3, "lost_ms": lost * 1e3, "longest_ms": max(steps) * 1e3}))


if __name__ == "__main__":
    main()
