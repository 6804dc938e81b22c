#!/usr/bin/env python3
"""Runs slipstream with released versions of PyTorch, Python and CUDA's runtime, and keeps what came of it.

    versions.py pytorch VERSION --python PYTHON [--quick] --build DIR --work DIR [--results FILE]
    versions.py python PYTHON... --build DIR --work DIR [--results FILE]
    versions.py cuda [VERSION...] --build DIR --work DIR [--results FILE]
    versions.py refused [--old-loader FILE] --build DIR --work DIR [--results FILE]
    versions.py wheels [--results FILE]
    versions.py page [--results FILE] [--page FILE] [--check]

`pytorch` brings PyTorch's wheel for that interpreter with pip, makes stand-ins for NVIDIA's libraries (stand_ins.py), and
runs the programs of this folder bare and under slipstream on the simulated device (torch_test.py). The wheel is deleted
behind it unless --keep says otherwise. `python` records a program of each interpreter and compares the trace's lines with
what the program says of itself; that needs no PyTorch. `cuda` brings NVIDIA's own libcudart, holds the hook table against it, and
calls it without a driver, bare and under slipstream; without a VERSION the last of each minor release since 12.0. `refused`
makes programs and runtimes that slipstream leaves alone, and reads the sentence that says so; FILE there is the ld.so of an
older glibc, beside its libc. `wheels` asks pip's index for which Pythons there are wheels of PyTorch. All
replace their rows in FILE (docs/versions.json). `page` writes the tables of docs/versions.md from it.

Exit status: 0 all as it should be; 1 something was not, and the row in FILE says what; 2 it could not be tried.
"""

import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import versions_cuda  # noqa: E402  (the folder is known only now)
import versions_page  # noqa: E402
import versions_python  # noqa: E402
import versions_pytorch  # noqa: E402
import versions_refused  # noqa: E402
import versions_wheels  # noqa: E402
from versions_package import CannotTry  # noqa: E402


def keep(path, kind, rows):
    """Puts the rows in place of those about the same versions; a file that is not there yet is made."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"schema": versions_page.SCHEMA}
    kept[kind] = versions_page.merged(kept.get(kind, []), rows, versions_page.KEYS[kind])
    path.write_text(versions_page.as_text(kept), encoding="utf-8")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--results", type=pathlib.Path, default=ROOT / "docs/versions.json")
    brings = argparse.ArgumentParser(add_help=False)
    brings.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="has slipstream and sim/")
    brings.add_argument("--work", type=pathlib.Path, required=True, help="a folder for what is brought; 5 GB for PyTorch")
    part = parts.add_parser("pytorch", parents=[common, brings])
    part.add_argument("version")
    part.add_argument("--python", required=True)
    part.add_argument("--quick", action="store_true", help="copies, order, memory and workers in fewer configurations: 2 min, not 5")
    part.add_argument("--keep", action="store_true", help="leave the wheel in the work folder")
    part = parts.add_parser("python", parents=[common, brings])
    part.add_argument("python", nargs="+")
    part = parts.add_parser("cuda", parents=[common, brings])
    part.add_argument("version", nargs="*")
    part = parts.add_parser("refused", parents=[common, brings])
    part.add_argument("--old-loader")
    parts.add_parser("wheels", parents=[common])
    part = parts.add_parser("page", parents=[common])
    part.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/versions.md")
    part.add_argument("--check", action="store_true", help="write nothing; 1 if the page does not show the file")
    options = parser.parse_args(arguments)

    if options.part == "page":
        return versions_page.write(options.results, options.page, options.check)
    if options.part != "wheels":
        options.build, options.work = options.build.resolve(), options.work.resolve()
        options.work.mkdir(parents=True, exist_ok=True)
    try:
        if options.part == "pytorch":
            rows = [versions_pytorch.row(options)]
        elif options.part == "python":
            rows = [versions_python.row(options, python) for python in options.python]
        elif options.part == "refused":
            rows = versions_refused.rows(options)
        elif options.part == "wheels":
            rows = [versions_wheels.row(python) for python in versions_wheels.PYTHONS]
        else:
            rows = [versions_cuda.row(options, version) for version in options.version or versions_cuda.LAST_OF_EACH]
    except CannotTry as error:
        print(error, file=sys.stderr)
        return 2
    keep(options.results, options.part, rows)
    wrong = [text for row in rows for text in row["wrong"]]
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
