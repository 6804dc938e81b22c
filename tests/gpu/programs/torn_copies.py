"""torn_copies.py: one thread copies, another one reads or writes the same tensor on the same stream.

Both use the default stream, as PyTorch's threads do, and a copy releases the GIL. A kernel of the other thread runs
before or after the whole copy: it finds one value everywhere, and the copy takes one value from everywhere.
"""

import sys
import threading

import torch

COPIED_MIB = 4096  # in each direction and of each size, but a few copies at least
KERNELS = 4  # so many must have run beside them; on a busy host the other thread may come late


def torn(value):
    return bool(value.min() != value.max())


def beside(work, copy, rounds):
    """Runs work() on a thread of its own, again and again, while copy(0), copy(1), ... run here."""
    going = True
    rounds_of_work = 0

    def loop():
        nonlocal rounds_of_work
        while going:
            work()
            rounds_of_work += 1
            if rounds_of_work % 16 == 0:  # so that the stream does not run away from the copies
                torch.cuda.current_stream().synchronize()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        done = 0
        while done < rounds or (rounds_of_work < KERNELS and done < 8 * rounds):
            copy(done)
            done += 1
    finally:
        going = False
        thread.join()
    torch.cuda.synchronize()


def to_the_device(count, rounds):
    device = torch.zeros(count, device="cuda")
    hosts = [torch.full((count,), float(k)) for k in range(3)]
    seen = []

    def look():
        snapshot = device.clone()
        seen.append((snapshot.amin(), snapshot.amax()))

    beside(look, lambda k: device.copy_(hosts[k % 3]), rounds)
    return sum(low.item() != high.item() for low, high in seen), len(seen) >= 3


def to_the_host(count, rounds):
    device = torch.zeros(count, device="cuda")
    kept = torch.empty(count)
    wrong = 0

    def copy(k):
        nonlocal wrong
        wrong += torn(device.cpu() if k % 2 else kept.copy_(device))

    beside(lambda: device.add_(1.0), copy, rounds)
    return wrong, device[0].item() >= 3


def main():
    for mib in map(int, sys.argv[1:]):
        rounds = max(12, COPIED_MIB // mib)
        for name, copy in ("to the device", to_the_device), ("to the host", to_the_host):
            wrong, beside_it = copy(mib << 18, rounds)
            print(f"{mib} MiB {name}: {wrong} torn{'' if beside_it else ', but hardly a kernel ran beside them'}", flush=True)


if __name__ == "__main__":
    main()
