#!/usr/bin/env python3
"""host.huge_pages with real PyTorch: what a fresh tensor in host memory lies on, bare, by default and with the key off.

    huge_pages.py SLIPSTREAM TORCH BUILD

Exit status: 0 good, 1 not, 77 the kernel gives no huge pages: a tensor that asks for them itself gets none.
"""

import os
import pathlib
import subprocess
import sys

BYTES = 64 << 20

# The share of the tensor that lies on huge pages.
TENSOR = f"""
import torch
def huge():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("AnonHugePages"))
before = huge()
tensor = torch.ones({BYTES}, dtype=torch.uint8)
print((huge() - before) / {BYTES})
"""


def share(front, **variables):
    torch, build = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    environment = {name: value for name, value in os.environ.items() if name != "THP_MEM_ALLOC_ENABLE"}
    environment.update(variables, PYTHONPATH=str(torch / "site-packages"), OMP_NUM_THREADS="1")
    environment["LD_LIBRARY_PATH"] = f"{build / 'sim'}:{torch / 'stand-ins'}"
    done = subprocess.run(
        [*front, (torch / "python").read_text().strip(), "-c", TENSOR], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{front}: status {done.returncode}\n{done.stderr}")
    return float(done.stdout)


def main():
    run = [sys.argv[1], "run", "--quiet", "--"]
    if share([], THP_MEM_ALLOC_ENABLE="1") < 0.5:
        print("this kernel gives no huge pages")
        return 77
    shares = {
        "bare": share([]),
        "by default": share(run),
        "off": share(run, SLIPSTREAM_HOST_HUGE_PAGES="off"),
        "the user's own 0": share(run, THP_MEM_ALLOC_ENABLE="0"),
    }
    print(shares)
    good = shares["by default"] >= 0.5
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as file:
        if "[always]" not in file.read():
            good = good and all(found < 0.1 for name, found in shares.items() if name != "by default")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
