#!/usr/bin/env python3
"""Loading the library does no work of its own, and no symbol of it merges with another library's.

1. Nothing of ours runs at load but what stands below with its reason: a static object with a constructor would run in every process of the user's, also in
   those that never call CUDA. Its name shows here as _GLOBAL__sub_I_<first global of the file>. What the C++ library
   brings when it is linked statically (its locales, its reserve for exceptions) is known by name from its archive.
2. No unique symbol (STB_GNU_UNIQUE): the loader merges those over all libraries whatever their visibility, and never
   unloads the library that brought one.
3. Less than 256 bytes of thread-local variables: the loader takes a preloaded library's out of the stack of every thread (S77).

    symbols.py LIBRARY [--compiler g++|none]

none: one whose C++ library may run nothing at load.
"""

import argparse
import subprocess

from elf import dynamic_symbols, initializers, initializers_of_archive, thread_local_bytes
from findings import cannot_check, finish

ALLOWED_INITIALIZERS = {
    "frame_dummy": "the compiler's own; registers nothing on today's systems",
    "_ZN10slipstream4shim12_GLOBAL__N_18KnowRootEv": "reads one variable; the root of a run has its end registered (shim/run_root.cpp)",
    "_ZN10slipstream4shim12_GLOBAL__N_116RememberSettingsEv": "copies the environment into pages of its own (policy/environment.h)",
}


def of_the_compiler(compiler):
    """Initializers in the compiler's own archives; None where the compiler is not there."""
    names = set()
    if compiler == "none":
        return names
    for archive in ("libstdc++.a", "libgcc.a", "libgcc_eh.a"):
        try:
            done = subprocess.run([compiler, f"-print-file-name={archive}"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        names |= initializers_of_archive(done.stdout.strip())
    return names


MOST_THREAD_LOCAL = 255


def problems_of(symbols, runs_at_load, allowed, thread_local=0):
    problems = [f"{symbol.name} is a unique symbol (STB_GNU_UNIQUE)" for symbol in symbols if symbol.binding == "UNIQUE"]
    for name in runs_at_load:
        if name not in ALLOWED_INITIALIZERS and name not in allowed:
            problems.append(f"{name} runs when the library is loaded")
    if thread_local > MOST_THREAD_LOCAL:
        problems.append(
            f"{thread_local} bytes of thread-local variables, at most {MOST_THREAD_LOCAL}: they come out of every thread's "
            "stack (policy/thread_owned.h is for more)"
        )
    if not ALLOWED_INITIALIZERS.keys() & set(runs_at_load):
        known = " and ".join(ALLOWED_INITIALIZERS)
        problems.append(f"{known} are not among what runs at load, so the list was misread: {runs_at_load}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--compiler", default="g++")
    options = parser.parse_args()
    allowed = of_the_compiler(options.compiler)
    if allowed is None:
        cannot_check("symbols", f"{options.compiler} is not here to say what its own library runs at load")
    symbols = dynamic_symbols(options.library)
    runs = initializers(options.library)
    print("symbols: of the C++ library, at load: " + (" ".join(name for name in runs if name in allowed) or "nothing"))
    finish("symbols", symbols, problems_of(symbols, runs, allowed, thread_local_bytes(options.library)))


if __name__ == "__main__":
    main()
