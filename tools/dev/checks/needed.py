#!/usr/bin/env python3
"""What loading the library drags into somebody's process: the C library and nothing more.

    needed.py LIBRARY [--allow NAME...]

--allow names what a sanitized build adds (libasan.so, libubsan.so, libtsan.so; any version).
"""

import argparse
import re

from elf import dynamic_section, stack_flags
from findings import finish

ALLOWED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def problems_of(entries, stack, allow=()):
    needed = [text for tag, text in entries if tag == "NEEDED"]
    problems = []
    for name in needed:
        if name not in ALLOWED and re.sub(r"(\.so)\.[\d.]+$", r"\1", name) not in allow:
            problems.append(f"DT_NEEDED has {name}; a process that lacks it could not start (allowed: {', '.join(sorted(ALLOWED))})")
    tags = {tag for tag, _ in entries}
    flags = " ".join(text for tag, text in entries if tag in ("FLAGS", "FLAGS_1"))
    for tag in sorted(tags & {"RPATH", "RUNPATH"}):
        problems.append(f"DT_{tag} is set; it would name a folder of the machine that built the library")
    if "TEXTREL" in tags or "TEXTREL" in flags:
        problems.append("text relocations: loading would need writable code, which hardened systems refuse")
    if "NOW" not in flags and "BIND_NOW" not in tags:
        problems.append("not linked with -z now: the first call of a hook would run the dynamic linker")
    if stack is None:
        problems.append("no GNU_STACK segment: the loader takes that for an executable stack")
    elif "E" in stack:
        problems.append("executable stack: loading it makes the whole process's stacks executable")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--allow", nargs="*", default=[])
    options = parser.parse_args()
    entries = dynamic_section(options.library)
    finish("needed", entries, problems_of(entries, stack_flags(options.library), options.allow))


if __name__ == "__main__":
    main()
