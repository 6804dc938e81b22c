#!/usr/bin/env python3
"""Makes stand-ins for the libraries of NVIDIA's that PyTorch is linked to and that a test of copies does not need.

    stand_ins.py TORCH_LIB OUT [--simulated DIR]

For every library of NVIDIA's that those in TORCH_LIB need and that is neither there nor simulated: a shared library in
OUT with its SONAME, its symbol versions and the functions that PyTorch looks up in it. They spare a download of several
GB. A call of one is a mistake of the test: it says which it was and aborts the process, so nothing can pass by what one
returns.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# What begins like this is looked for; all else comes from the system.
_NVIDIA = re.compile(r"lib(cu|nccl|nv)\w*\.so\.\d+$")
_SIMULATED = {"libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libcupti.so.13"}  # tests/sim

_HEAD = """\
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void Say(const char* text) {
  if (write(2, text, strlen(text)) < 0) {
    return;
  }
}
static void Called(const char* function) {
  Say(SONAME ": ");
  Say(function);
  Say(" was called, and this is a stand-in without it (tests/torch/stand_ins.py)\\n");
  abort();
}
"""


def _read(*arguments):
    return subprocess.run(["readelf", "-W", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def needed(library):
    """{SONAME: [versions wanted of it]} of one library."""
    wanted = {name: [] for name in re.findall(r"\(NEEDED\).*\[(.+?)\]", _read("-d", library))}
    current = None
    for line in _read("-V", library).splitlines():
        if match := re.search(r"Version: \d+ +File: (\S+)", line):
            current = wanted.get(match.group(1))
        elif (match := re.search(r"Name: (\S+) +Flags", line)) and current is not None:
            current.append(match.group(1))
    return wanted


def symbols(library):
    """({name: version or None} of what it lacks, names of what it has)."""
    lacks, has = {}, set()
    for line in _read("--dyn-syms", library).splitlines():
        words = line.split()
        if len(words) < 8 or not words[0].rstrip(":").isdigit():
            continue
        name, _, version = words[7].partition("@")
        if words[6] != "UND":
            has.add(name)
        elif words[4] == "GLOBAL":
            lacks[name] = version.lstrip("@") or None
    return lacks, has


def plan(torch_lib, simulated=None):
    """{SONAME: {version or None: [functions]}} of the stand-ins to make.

    What a newer PyTorch looks up in a library of the folder `simulated` and what that does not have gets a place in one of
    them: the loader goes by the version of a symbol, and takes it from any library that has it.
    """
    present = _SIMULATED | {path.name for path in torch_lib.glob("lib*.so*")}
    wanted, lacking, defined = {}, {}, set()
    for library in sorted(torch_lib.glob("lib*.so*")):
        for name, versions in needed(library).items():
            if _NVIDIA.match(name) and name not in present:
                wanted.setdefault(name, set()).update(versions)
        lacks, has = symbols(library)
        lacking.update(lacks)
        defined |= has
    made = {name: {version: [] for version in versions or [None]} for name, versions in wanted.items()}
    for function, version in sorted(lacking.items()):
        if version is None and function in defined:
            continue
        for name, versions in made.items():
            # Where a library has no versions its functions are known by its name: cuFileRead is libcufile's.
            begins = name[3:].split(".")[0].lower()
            if version in versions and (version is not None or function.lower().startswith(begins)):
                versions[version].append(function)
    versioned = sorted(name for name, versions in made.items() if None not in versions)
    for library in sorted(simulated.glob("lib*.so.*")) if simulated and versioned else ():
        has = symbols(library)[1]
        missing = [function for function, version in sorted(lacking.items()) if version == library.name and function not in has]
        if missing:
            made[versioned[0]][library.name] = missing
    return made


def make(out, soname, versions, compiler):
    source = _HEAD + "".join(
        f'void {function}(void) {{ Called("{function}"); }}\n' for functions in versions.values() for function in functions)
    script = "".join(
        f"{version or ''} {{ global: {'; '.join(functions) or 'nothing_here'};{' local: *;' if first else ''} }};\n"
        for first, (version, functions) in zip([True] + [False] * len(versions), versions.items()))
    with tempfile.NamedTemporaryFile("w", suffix=".map") as version_script:
        version_script.write(script)
        version_script.flush()
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", f'-DSONAME="{soname}"', "-x", "c", "-", "-o", out / soname,
             f"-Wl,-soname,{soname}", f"-Wl,--version-script={version_script.name}"], input=source, text=True, check=True)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("torch_lib", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--simulated", type=pathlib.Path, help="the simulated libraries; what they lack is made too")
    parser.add_argument("--compiler", default="cc")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for soname, versions in plan(options.torch_lib, options.simulated).items():
        make(options.out, soname, versions, options.compiler)
        print(soname, sum(map(len, versions.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
