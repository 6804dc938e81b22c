#!/usr/bin/env python3
"""What reading a Python stack costs: bench/libpython_stack.so called from 28 functions deep.

Usage: python_stack.py LIBRARY [Google Benchmark's options]

Measures the Python that runs it, which may be any that slipstream reads stacks of. The GIL is let go of meanwhile.
"""

import argparse
import ctypes
import sys


def chain(frames, call):
    """Calls `call` below so many functions, each with its own code, as in a program; of one code the cache would be warm."""
    for i in range(frames):
        names = {"call": call}
        exec(f"def layer{i}(x=1):\n  if x:\n    y = [x, x + 1]\n    return call(\n  ) + x - x\n", names)
        call = names[f"layer{i}"]
    return call()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    options, rest = parser.parse_known_args()
    words = [word.encode() for word in ("python_stack", *rest)]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words)
    return chain(28, lambda: ctypes.CDLL(options.library).RunBenchmarks(len(words), argv))


if __name__ == "__main__":
    sys.exit(main())
