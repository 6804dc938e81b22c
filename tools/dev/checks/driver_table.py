#!/usr/bin/env python3
"""Holds shim/driver_hooks.def against the driver's own header.

1. A row's function is declared, under the very name that is exported.
2. A function that a newer CUDA brings cannot bypass the table silently: every function whose name says that it
   allocates, frees, copies, sets, launches, synchronizes and so on is hooked or stands in not_hooked_driver.txt with a
   reason.
3. not_hooked_driver.txt holds nothing that is hooked or that the header does not have.

    driver_table.py HOOKS_DEF --include DIR... [--not-hooked FILE]
"""

import argparse
import pathlib
import re
import subprocess

from findings import cannot_check, finish
from hooks import read_hooks

CHECK = "driver_table"

# What no call of may go unseen. Group by group the subjects of the table.
INTERESTING = re.compile(
    r"^cu(Mem|Stream|Event|Launch|Graph(Instantiate|Launch|Upload|Exec|AddMem|AddNode)|Ipc"
    r"|Ctx(Create|Destroy|Synchronize|Enable|Disable|Record|Wait|Attach|Detach|FromGreen)|DevicePrimaryCtx|GreenCtx"
    r"|Import|DestroyExternal|External|SignalExternal|WaitExternal|Profiler|GetProcAddress|Array|Mipmapped|Multicast|Pointer"
    r"|ThreadExchange|Checkpoint|DeviceGraphMem|DeviceSetMemPool|Graphics(Un)?[Mm]ap)"
)


def declared(folders, compiler="g++"):
    """Names as they are exported: with CUDA's internal switch the header renames none."""
    text = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaProfiler.h>\n"
    command = [compiler, "-E", "-P", "-x", "c++", *(f"-I{folder}" for folder in folders), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return set(re.findall(r"\bCUresult\s+(cu[A-Z]\w+)\s*\(", done.stdout)) if done.returncode == 0 else set()


def read_not_hooked(path):
    """({name: reason}, problems). A line is "name: reason"; a name may end in * for all that begin so."""
    reasons, problems = {}, []
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, reason = line.partition(":")
        if not re.fullmatch(r"\w+\*?", name) or not reason.strip():
            problems.append(f"{path}:{number}: expected \"name: reason\"")
        elif name in reasons:
            problems.append(f"{path}:{number}: {name} stands here twice")
        else:
            reasons[name] = reason.strip()
    return reasons, problems


def reason_for(name, reasons):
    """The key of the list that excuses the function: its own name, else the longest pattern."""
    keys = [key for key in reasons if key == name or (key.endswith("*") and name.startswith(key[:-1]))]
    return max(keys, key=lambda key: (key == name, len(key))) if keys else None


def problems_of(hooked, known, reasons):
    problems = [f"{name}: cuda.h declares no such function" for name in sorted(hooked - known)]
    used = set()
    for name in sorted(known - hooked):
        key = reason_for(name, reasons)
        if key:
            used.add(key)
        elif INTERESTING.search(name):
            problems.append(f"{name} is neither hooked nor in not_hooked_driver.txt with a reason")
    for key in reasons:
        if key in hooked:
            problems.append(f"not_hooked_driver.txt: {key} is hooked")
        elif key not in used:
            problems.append(f"not_hooked_driver.txt: cuda.h has no {key}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hooks_def", type=pathlib.Path)
    parser.add_argument("--include", nargs="*", default=[])
    parser.add_argument("--not-hooked", type=pathlib.Path, default=pathlib.Path(__file__).with_name("not_hooked_driver.txt"))
    options = parser.parse_args()
    known = declared(options.include)
    if not known:
        cannot_check(CHECK, "no cuda.h here; tools/setup brings it")
    hooks = [hook.name for hook in read_hooks(options.hooks_def) if hook.of_driver]
    reasons, problems = read_not_hooked(options.not_hooked)
    problems += [f"{name} has two rows" for name in sorted({name for name in hooks if hooks.count(name) > 1})]
    finish(CHECK, hooks, problems + problems_of(set(hooks), known, reasons))


if __name__ == "__main__":
    main()
