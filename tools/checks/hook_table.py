#!/usr/bin/env python3
"""Holds shim/hooks.def against CUDA itself: its headers and its real runtime libraries.

1. A row's function exists, in exactly the versions of libcudart that the row says.
2. A function that a newer CUDA brings cannot bypass the table silently: every function whose name says that it
   allocates, frees, copies, sets, launches, synchronises and so on is hooked or stands in not_hooked.txt with a reason.
3. not_hooked.txt holds nothing that is hooked or that no CUDA has.

    hook_table.py HOOKS_DEF --include13 DIR... [--include12 DIR...] [--lib13 FILE] [--lib12 FILE] [--not-hooked FILE]
               [--require 12|13]

--require names a version without which there is nothing to say (exit status 77).
"""

import argparse
import pathlib
import re
import subprocess

from findings import cannot_check, finish
from hooks import CUDA12, CUDA13, read_hooks

CHECK = "hook_table"

# What no call of may go unseen. Group by group the subjects of the table.
INTERESTING = re.compile(
    r"Malloc|MemAlloc|Free|Memcpy|Memset|HostAlloc|HostRegister|HostUnregister|HostGet|PointerGet|MemGet|MemSet|MemRange"
    r"|MemPrefetch|MemAdvise|MemDiscard|Stream(Create|Destroy|Query|Synchronize|WaitEvent|BeginCapture|EndCapture|IsCapturing)"
    r"|StreamAttach|Event|Capture|LaunchKernel|LaunchCooperative|LaunchDevice|LaunchHost|AddCallback|GraphLaunch|GraphInstantiate"
    r"|GraphUpload|GraphExec(Update|Destroy)|MemPool|Ipc|Peer|ExternalMemory|ExternalSemaphores?|LastError|DeviceReset|ThreadExit"
    r"|DeviceSynchronize|ThreadSynchronize|Profiler|GetSymbol|GraphMem|GraphAddNode|Graphics|RegisterFatBinary|SetDevice$|GetDevice$"
)
_HEADERS = ("cuda_runtime_api.h", "cuda_profiler_api.h", "crt/device_functions.h", "crt/host_runtime.h")


def declared(folders):
    """Names in the headers: declarations, and the per-thread names that a #define makes of a declared one."""
    names = set()
    for folder in folders:
        for header in _HEADERS:
            path = pathlib.Path(folder, header)
            if path.exists():
                text = path.read_text(errors="replace")
                names.update(re.findall(r"\bCUDARTAPI\s+(\w+)\s*\(", text))
                for kind, name in re.findall(r"#define\s+\w+\s+__CUDART_API_(PTSZ|PTDS)\((\w+)\)", text):
                    names.add(f"{name}_{kind.lower()}")
    return names


def exported(library):
    """Names that the real library exports."""
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    names = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if line.split()}
    return {name for name in names if re.match(r"(__)?cuda[A-Z]", name)}


def library_beside(folders, name):
    """libcudart.so.N of the toolkit or package whose headers these are."""
    for folder in folders:
        for place in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            path = pathlib.Path(folder).parent / place / name
            if path.exists():
                return path
    return None


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


def problems_of_rows(hooks, libraries, headers):
    """`libraries` and `headers` map a CUDA version to its names; a version that is not here is absent."""
    problems = []
    seen = set()
    for hook in hooks:
        if hook.name in seen:
            problems.append(f"{hook.name} has two rows")
        seen.add(hook.name)
        for version in (CUDA12, CUDA13):
            says = version in hook.runtimes
            if version in libraries:
                has = hook.name in libraries[version]
                if says and not has:
                    problems.append(f"{hook.name}: the row says CUDA {version}, but libcudart.so.{version} has no such function")
                if has and not says:
                    problems.append(f"{hook.name}: libcudart.so.{version} has it, but the row says only CUDA {min(hook.runtimes)}")
            elif version in headers and says and hook.name not in headers[version]:
                problems.append(f"{hook.name}: no header of CUDA {version} declares it")
    return problems


def problems_of_the_rest(hooks, known, reasons):
    """What is neither hooked nor excused, and excuses that excuse nothing."""
    hooked = {hook.name for hook in hooks}
    problems = []
    used = set()
    for name in sorted(known - hooked):
        # The name itself, else the longest pattern.
        keys = [key for key in reasons if key == name or (key.endswith("*") and name.startswith(key[:-1]))]
        if keys:
            used.add(max(keys, key=lambda key: (key == name, len(key))))
        elif INTERESTING.search(name):
            problems.append(f"{name} is neither hooked nor in not_hooked.txt with a reason")
    for key in reasons:
        if key in hooked:
            problems.append(f"not_hooked.txt: {key} is hooked")
        elif key not in used:
            problems.append(f"not_hooked.txt: no CUDA here has {key}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hooks_def", type=pathlib.Path)
    parser.add_argument("--include13", nargs="*", default=[])
    parser.add_argument("--include12", nargs="*", default=[])
    parser.add_argument("--lib13", type=pathlib.Path)
    parser.add_argument("--lib12", type=pathlib.Path)
    parser.add_argument("--not-hooked", type=pathlib.Path, default=pathlib.Path(__file__).with_name("not_hooked.txt"))
    parser.add_argument("--require", type=int, choices=(CUDA12, CUDA13))
    options = parser.parse_args()

    headers, libraries = {}, {}
    for version, include, library in ((CUDA12, options.include12, options.lib12), (CUDA13, options.include13, options.lib13)):
        names = declared(include)
        if names:
            headers[version] = names
        library = library or library_beside(include, f"libcudart.so.{version}")
        if library and library.exists():
            libraries[version] = exported(library)
    if not headers and not libraries:
        cannot_check(CHECK, "no CUDA headers and no libcudart here; tools/setup brings both")
    if options.require and options.require not in libraries:
        cannot_check(CHECK, f"no libcudart.so.{options.require} here; tools/setup brings it")
    for version in (CUDA12, CUDA13):
        print(f"{CHECK}: CUDA {version}: {len(headers.get(version, ()))} functions in the headers, "
              f"{len(libraries.get(version, ()))} in the library")

    hooks = read_hooks(options.hooks_def)
    reasons, problems = read_not_hooked(options.not_hooked)
    problems += problems_of_rows(hooks, libraries, headers)
    known = set().union(*headers.values(), *libraries.values())
    # An excuse for a function of the version that is not here cannot be told from a stale one.
    rest = problems_of_the_rest(hooks, known, reasons)
    if len(libraries) < 2:
        rest = [problem for problem in rest if "no CUDA here has" not in problem]
    finish(CHECK, hooks, problems + rest)


if __name__ == "__main__":
    main()
