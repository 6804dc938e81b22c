#!/usr/bin/env python3
"""What PyTorch's large tensors in host memory lie on, with real PyTorch on the simulated device, bare and under
slipstream: huge pages (host.huge_pages), and pages that need not be made (host.max_kept).

    host_memory.py SLIPSTREAM TORCH BUILD

Exit status: 0 good, 1 not, 77 the kernel gives no huge pages: a tensor that asks for them itself gets none.
"""

import json
import os
import pathlib
import subprocess
import sys

BYTES = 64 << 20

# Of fresh tensors: the share of the first that lies on huge pages, and how many pages are made for each of the others.
PROGRAM = f"""
import json, resource, torch
torch.ones(1, device="cuda")

def huge():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("AnonHugePages"))

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

before = huge()
tensor = torch.full(({BYTES},), 1, dtype=torch.uint8)
share = (huge() - before) / {BYTES}
del tensor
torch.full(({BYTES},), 2, dtype=torch.uint8)
before = faults()
for value in range(8):
    tensor = torch.full(({BYTES},), value, dtype=torch.uint8)
    assert bool((tensor[:: 1 << 16] == value).all())
    del tensor
made = (faults() - before) / 8
print(json.dumps({{"huge": share, "made": made, "unwritten": int(torch.empty({BYTES}, dtype=torch.uint8)[5 << 20])}}))
"""


def found(front, **variables):
    torch, build = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    environment = {name: value for name, value in os.environ.items() if name != "THP_MEM_ALLOC_ENABLE"}
    environment.update(variables, PYTHONPATH=str(torch / "site-packages"), OMP_NUM_THREADS="1", SIMCUDA_KERNELS="empty")
    environment["LD_LIBRARY_PATH"] = f"{build / 'sim'}:{torch / 'stand-ins'}"
    done = subprocess.run(
        [*front, (torch / "python").read_text().strip(), "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{front}: status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    run = [sys.argv[1], "run", "--quiet", "--"]
    if found([], THP_MEM_ALLOC_ENABLE="1")["huge"] < 0.5:
        print("this kernel gives no huge pages")
        return 77
    off = {"SLIPSTREAM_HOST_HUGE_PAGES": "off", "SLIPSTREAM_HOST_MAX_KEPT": "0"}
    runs = {
        "bare": found([]),
        "by default": found(run),
        "huge pages alone": found(run, SLIPSTREAM_HOST_MAX_KEPT="0"),
        "kept blocks alone": found(run, SLIPSTREAM_HOST_HUGE_PAGES="off"),
        "off": found(run, **off),
        "the user's own 0": found(run, THP_MEM_ALLOC_ENABLE="0", SLIPSTREAM_HOST_MAX_KEPT="0"),
    }
    for name, values in runs.items():
        print(f"{name}: {values}")
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as file:
        always = "[always]" in file.read()
    pages = BYTES // 4096
    good = all(runs[name]["huge"] >= 0.5 for name in ("by default", "huge pages alone"))
    good = good and all(runs[name]["made"] < pages / 1000 for name in ("by default", "kept blocks alone"))
    # As bare, with the key: new pages, and zeros in memory that nobody has written.
    for name in ("bare", "off", "the user's own 0"):
        good = good and runs[name]["unwritten"] == 0 and runs[name]["made"] > pages / 1000
        good = good and (always or (runs[name]["huge"] < 0.1 and runs[name]["made"] > pages / 2))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
