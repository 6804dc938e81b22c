#!/usr/bin/env python3
"""The library exports the functions of shim/hooks.def and nothing else, none of them with a version.

An export too many puts itself before somebody's function of that name; one too few is a hook that is never called; and
with a version definition every hook is silently never called by a program that was linked to a versioned libcudart.

    exports.py LIBRARY HOOKS_DEF
"""

import sys

from elf import defines_versions, dynamic_symbols
from findings import finish
from hooks import read_hooks


def main():
    library, hooks_def = sys.argv[1:]
    wanted = {hook.name for hook in read_hooks(hooks_def)}
    exported = [symbol for symbol in dynamic_symbols(library) if symbol.defined and symbol.binding != "LOCAL"]
    names = {symbol.name for symbol in exported}
    problems = [f"{name} is exported and is no row of the hook table" for name in sorted(names - wanted)]
    problems += [f"{name} is a row of the hook table and is not exported" for name in sorted(wanted - names)]
    problems += [f"{symbol.name} carries the version {symbol.version}" for symbol in exported if symbol.version]
    problems += [f"{symbol.name} is {symbol.kind}, not FUNC" for symbol in exported if symbol.kind != "FUNC"]
    if defines_versions(library):
        problems.append("the library defines symbol versions; its version script must have one anonymous node")
    finish("exports", exported, problems)


if __name__ == "__main__":
    main()
