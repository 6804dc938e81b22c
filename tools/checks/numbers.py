"""numbers.py ROOT: what users hold against tools of this kind, and what a preloaded library may not do, is tested by its number.

C1 to C19 are the complaints (C17 was about a pool of pinned memory, which is gone), S50 to S59 the rules for a process that has the
library. A number counts where a test's name has it (C7_..., S52_C3_...) or where the text beside a test does (C12).
"""

import pathlib
import re
import sys

SUFFIXES = (".cpp", ".h", ".py")
WANTED = [f"C{number}" for number in range(1, 20) if number != 17] + [f"S{number}" for number in range(50, 60)]


def named(root):
    """{number: files of tests that name it}"""
    files = {}
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix not in SUFFIXES or "checks" in path.relative_to(root).parts:
            continue
        for number in set(re.findall(r"(?<![A-Za-z0-9])([CS]\d+)(?![0-9])", path.read_text())):
            files.setdefault(number, []).append(path)
    return files


def main(root):
    files = named(root)
    missing = [number for number in WANTED if number not in files]
    for number in missing:
        print(f"no test names {number}")
    if not missing:
        print(f"{len(WANTED)} numbers, each in a test")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
