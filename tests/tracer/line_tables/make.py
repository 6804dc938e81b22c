#!/usr/bin/env python3
"""Writes the line tables of this Python's compiler, with the lines that Python itself reads in them.

    make.py > tests/tracer/line_tables/3.11.inc     (with the python3.11 of that name, and so for each version)

A row: format, first line, the table in hexadecimal, and where which line begins, as offset:line; 0 is "no line".
"""

import dis
import sys

FORMATS = {9: "kPairs", 10: "kRanges"}
PLAIN = '''
import contextlib
def plain(a, b=(1,
                2)):
    c = a + 1
    if c:
        return (a,
                c(
                  a, b,
                  d=[x
                     for x in a if x])
                )
    while a:
        a -= 1; b = 2

        b = 3
    else:
        b = a
    return lambda: (b,

                    a)
'''
BLOCKS = '''
def blocks(a):
    with a as b, \\
         a:
        b()
    try:
        for x in a:
            if x: continue
            a(x)
    except (ValueError,
            TypeError) as e:
        a(e)
    finally:
        a()
    yield a
    yield from [i for i in a]
@decorator(
    1)
@other
class C:
    """doc"""
    x = 1
    @property
    def f(self, /, *a, k: int = 3, **kw) -> None:
        return (yield)
async def g(a):
    async with a as b:
        async for c in b: await c
    return await a(
        b, await c)
'''


def sources():
    yield PLAIN
    yield BLOCKS
    for gap in (126, 127, 128, 129, 255, 300, 70000):
        # Forward by so many lines, and back again: the parts of a call are on lines of their own.
        yield "a = f(" + "\n" * gap + "b,\n c)\nd = 1\n"
        yield "\n" * gap + "def f():\n" + "\n" * gap + "    return 1\n"
    # More code on one line than one entry covers.
    yield "a = 1\n" + "b = " + "+".join(f"x{i}" for i in range(150)) + "\nc = 2\n"


def codes(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from codes(constant)


def starts(code):
    """[(offset, line or 0)], increasing, for every instruction up to the next one."""
    if sys.version_info >= (3, 10):
        found = [(start, line or 0) for start, _, line in code.co_lines()]
    else:
        found = list(dis.findlinestarts(code))
    return [pair for i, pair in enumerate(found) if i == 0 or found[i - 1][1] != pair[1]]


def main():
    table_format = FORMATS.get(sys.version_info[1], "kLocations")
    print(f"// Written by make.py with Python {sys.version.split()[0]}; do not edit.")
    for source in sources():
        for code in codes(compile(source, "sample.py", "exec")):
            table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
            lines = " ".join(f"{offset}:{line}" for offset, line in starts(code))
            print(f'{{LineTableFormat::{table_format}, {code.co_firstlineno}, {len(code.co_code)},\n "{table.hex()}",\n "{lines}"}},')


if __name__ == "__main__":
    main()
