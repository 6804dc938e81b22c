"""Frees memory on two devices while copies between them are pending, and uses new memory on streams that wait for nothing.

Each round: device 0 sleeps, a copy of x0 to device 1 waits behind that; x0 is freed, allocated again from another stream and
overwritten at once; the copy must have what x0 held. Then the other end: the copy's target on device 1 is freed while the
copy is pending, allocated again and written by another stream of device 1; the late copy must not be seen there.
Exit status 1: wrong bytes.
"""

import sys

import torch

SIZES = (2 << 20, 21 << 20, 64 << 20)
SLEEP_CYCLES = 60_000_000


def wrong_bytes(tensor, value):
    return int((tensor != value).sum())


def source_freed(size, value):
    """The pending copy reads what the program has freed."""
    x0 = torch.full((size,), value, dtype=torch.uint8, device="cuda:0")
    y1 = torch.empty(size, dtype=torch.uint8, device="cuda:1")
    side = torch.cuda.Stream(device=0)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    torch.cuda._sleep(SLEEP_CYCLES)  # pylint: disable=protected-access
    y1.copy_(x0, non_blocking=True)
    before = x0.data_ptr()
    del x0
    torch.cuda.empty_cache()
    with torch.cuda.stream(side):
        z0 = torch.full((size,), 255 - value, dtype=torch.uint8, device="cuda:0")
    same = z0.data_ptr() == before
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    return wrong_bytes(y1, value) + wrong_bytes(z0, 255 - value), same


def target_freed(size, value):
    """The pending copy writes what the program has freed. Its event on device 1 is never waited for by the new owner."""
    x0 = torch.full((size,), value, dtype=torch.uint8, device="cuda:0")
    y1 = torch.empty(size, dtype=torch.uint8, device="cuda:1")
    side = torch.cuda.Stream(device=1)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    torch.cuda._sleep(SLEEP_CYCLES)  # pylint: disable=protected-access
    y1.copy_(x0, non_blocking=True)
    before = y1.data_ptr()
    del y1
    torch.cuda.empty_cache()
    with torch.cuda.device(1), torch.cuda.stream(side):
        z1 = torch.full((size,), 255 - value, dtype=torch.uint8, device="cuda:1")
    same = z1.data_ptr() == before
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    return wrong_bytes(z1, 255 - value), same


def main():
    torch.cuda.set_device(0)
    wrong, same = 0, 0
    for number in range(6):
        for size in SIZES:
            for way in (source_freed, target_freed):
                found, reused = way(size, number + 1)
                wrong += found
                same += reused
    print("wrong bytes", wrong)
    print("same address", same, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
