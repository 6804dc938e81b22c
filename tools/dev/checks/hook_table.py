#!/usr/bin/env python3
"""Holds shim/hooks.def and shim/unhooked.def against CUDA itself: its headers and its real runtime libraries.

1. A row's function exists, in exactly the versions of libcudart that the row says.
2. Every function that a libcudart exports or a header declares stands in one of the two lists: what a newer CUDA brings
   is judged before it is passed on.
3. unhooked.def holds nothing that is hooked or that no CUDA has, nothing twice, and nothing without a reason above it.

    hook_table.py HOOKS_DEF UNHOOKED_DEF --include13 DIR... [--include12 DIR...] [--latest13 DIR...]
               [--lib13 FILE] [--lib12 FILE] [--lib-latest13 FILE] [--require 12|13|latest13 ...]

13 is the release that slipstream is compiled with, latest13 the newest there is. --require names versions without which
there is nothing to say (exit status 77).
"""

import argparse
import pathlib
import re
import subprocess

from findings import cannot_check, finish
from hooks import CUDA12, CUDA13, read_hooks

CHECK = "hook_table"
LATEST13 = "latest13"
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


def read_unhooked(path):
    """([name], problems). A group of rows stands behind a comment that gives the reason."""
    names, problems, reason = [], [], False
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        row = re.fullmatch(r"UNHOOKED\((\w+)\)", line.strip())
        if row:
            if row[1] in names:
                problems.append(f"{path}:{number}: {row[1]} stands here twice")
            if not reason:
                problems.append(f"{path}:{number}: {row[1]} stands below no reason")
            names.append(row[1])
        elif line.startswith("//"):
            reason = True
        elif not line.strip():
            reason = False
        elif line != "#undef UNHOOKED":
            problems.append(f'{path}:{number}: expected "UNHOOKED(function)"')
    return names, problems


def says(hook, version):
    """Whether that version of libcudart has the row's function: True, False, or None for perhaps."""
    if version == LATEST13:
        return CUDA13 in hook.runtimes
    return None if hook.later and version == CUDA13 else version in hook.runtimes


def problems_of_rows(hooks, libraries, headers):
    """`libraries` and `headers` map a CUDA version to its names; a version that is not here is absent."""
    problems = []
    seen = set()
    for hook in hooks:
        if hook.name in seen:
            problems.append(f"{hook.name} has two rows")
        seen.add(hook.name)
        for version in (CUDA12, CUDA13, LATEST13):
            expected = says(hook, version)
            if expected is None:
                continue
            if version in libraries:
                has = hook.name in libraries[version]
                if expected and not has:
                    problems.append(f"{hook.name}: the row says CUDA {version}, but its libcudart has no such function")
                if has and not expected:
                    problems.append(f"{hook.name}: the libcudart of CUDA {version} has it, but the row does not say so")
            elif version in headers and expected and hook.name not in headers[version]:
                problems.append(f"{hook.name}: no header of CUDA {version} declares it")
    return problems


def main():
    versions = {"12": CUDA12, "13": CUDA13, LATEST13: LATEST13}
    parser = argparse.ArgumentParser()
    parser.add_argument("hooks_def", type=pathlib.Path)
    parser.add_argument("unhooked_def", type=pathlib.Path)
    parser.add_argument("--include13", nargs="*", default=[])
    parser.add_argument("--include12", nargs="*", default=[])
    parser.add_argument("--latest13", nargs="*", default=[])
    parser.add_argument("--lib13", type=pathlib.Path)
    parser.add_argument("--lib12", type=pathlib.Path)
    parser.add_argument("--lib-latest13", type=pathlib.Path)
    parser.add_argument("--require", nargs="*", choices=versions, default=[])
    options = parser.parse_args()

    headers, libraries = {}, {}
    for version, include, library, name in (
            (CUDA12, options.include12, options.lib12, "libcudart.so.12"),
            (CUDA13, options.include13, options.lib13, "libcudart.so.13"),
            (LATEST13, options.latest13, options.lib_latest13, "libcudart.so.13")):
        names = declared(include)
        if names:
            headers[version] = names
        library = library or library_beside(include, name)
        if library and library.exists():
            libraries[version] = exported(library)
    if not headers and not libraries:
        cannot_check(CHECK, "no CUDA headers and no libcudart here; tools/setup brings both")
    for required in options.require:
        if versions[required] not in libraries:
            cannot_check(CHECK, f"no libcudart of CUDA {required} here; tools/setup brings it")
    for version in versions.values():
        print(f"{CHECK}: CUDA {version}: {len(headers.get(version, ()))} functions in the headers, "
              f"{len(libraries.get(version, ()))} in the library")

    hooks = read_hooks(options.hooks_def)
    hooked = {hook.name for hook in hooks}
    unhooked, problems = read_unhooked(options.unhooked_def)
    problems += problems_of_rows(hooks, libraries, headers)
    known = set().union(*headers.values(), *libraries.values())
    problems += [f"{name} is neither in hooks.def nor in unhooked.def" for name in sorted(known - hooked - set(unhooked))]
    problems += [f"unhooked.def: {name} is hooked" for name in unhooked if name in hooked]
    # A function of a version that is not here cannot be told from a stale one.
    if len(libraries) == len(versions):
        problems += [f"unhooked.def: no CUDA here has {name}" for name in unhooked if name not in known]
    finish(CHECK, hooks, problems)


if __name__ == "__main__":
    main()
