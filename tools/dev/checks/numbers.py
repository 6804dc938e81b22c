"""numbers.py ROOT: every number that is cited is defined, every rule has a test that cites it, and every complaint one named for it.

Rules (S), complaints (C) and cases around a command (H) are defined in docs/rules.md, as list items that begin with the number
in bold. Targets (T) are defined in docs/targets.md, as rows of a table. A number is cited by itself (S12, C7), in the name of
a test (S52_C3_..., c19_..., h04_...), or in the name of a mutant (kS30Wait). A complaint has to be in the name of a test: one of
GoogleTest's, or a function of Python's. Every mutant is named in a CMakeLists.txt of the tests, which runs it.
"""

import collections
import pathlib
import re
import sys

RULES = "docs/rules.md"
TARGETS = "docs/targets.md"
SUFFIXES = (".cpp", ".h", ".def", ".py", ".md", ".txt")
FOLDERS = ("allocator", "cuda", "docs", "policy", "shim", "tests", "tools", "tracer", "transfer")

DEFINED = re.compile(r"^- \*\*([SCH]\d+[a-z]?)\*\* ", re.MULTILINE)
DEFINED_TARGET = re.compile(r"^\| (T\d+) \|", re.MULTILINE)
# Not a part of a longer word, path, version or color; not "H2D", "T4s" or "S3://".
CITED = re.compile(r"(?<![A-Za-z0-9_.#%/\\-])(S\d\d[a-z]?|[CTH]\d\d?)(?![A-Za-z0-9/]|:/)|(?<=[a-z\d]_)(S\d\d[a-z]?|C\d\d?)(?=_)")
MUTANT = re.compile(r"\bk(S\d\d(?:b(?![a-z]))?)")
MUTANT_ROW = re.compile(r'\bROW\(k\w+, "(\w+)", ')
CASE = re.compile(r"\bh(\d\d)_[a-z]")
COMPLAINT_TEST = re.compile(r"^TEST(?:_[FP])?\(\w+,\s*(?:\w+_)?C(\d\d?)_|^ *def c(\d\d)_", re.MULTILINE)


def definitions(root):
    """The numbers, and those that are defined twice."""
    found = collections.Counter(DEFINED.findall((root / RULES).read_text(encoding="utf-8")))
    found.update(DEFINED_TARGET.findall((root / TARGETS).read_text(encoding="utf-8")))
    return set(found), sorted(number for number, times in found.items() if times > 1)


def cited_in(text):
    numbers = {one or other for one, other in CITED.findall(text)}
    numbers |= set(MUTANT.findall(text)) | complaints_tested_in(text)
    return numbers | {f"H{int(number)}" for number in CASE.findall(text)}


def complaints_tested_in(text):
    return {f"C{int(one or other)}" for one, other in COMPLAINT_TEST.findall(text)}


def complaints_tested(root):
    """Those that are in the name of a test."""
    files = [path for path in (root / "tests").rglob("*") if path.suffix in (".cpp", ".py") and path.parent != root / "tests/checks"]
    return set().union(*(complaints_tested_in(path.read_text(encoding="utf-8", errors="replace")) for path in files))


def citations(root):
    """{number: files that cite it}, without the definitions and the checks' own examples."""
    files = collections.defaultdict(list)
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))] + sorted(root.glob("*.md"))
    for path in paths:
        name = path.relative_to(root).as_posix()
        if path.suffix not in SUFFIXES or not path.is_file() or name == RULES or name.startswith(("tests/checks/", "tools/dev/checks/")):
            continue
        for number in cited_in(path.read_text(encoding="utf-8", errors="replace")):
            files[number].append(name)
    return files


def idle_mutants(root):
    """Those that no test runs."""
    lists = " ".join(path.read_text(encoding="utf-8") for path in sorted((root / "tests").rglob("CMakeLists.txt")))
    words = set(re.findall(r"\w+", lists))
    names = [name for path in sorted(root.glob("*/mutant.h")) for name in MUTANT_ROW.findall(path.read_text(encoding="utf-8"))]
    return [name for name in names if name not in words]


def main(root):
    defined, twice = definitions(root)
    files = citations(root)
    wrong = [f"{number} is defined twice" for number in twice]
    wrong += [f"{number} is not defined: {', '.join(files[number][:3])}" for number in sorted(set(files) - defined)]
    wrong += [f"no test names {number}" for number in sorted(defined)
              if not any(name.startswith("tests/") for name in files[number])]
    tested = complaints_tested(root)
    wrong += [f"no test is named for {number}" for number in sorted(defined)
              if number.startswith("C") and number not in tested and any(name.startswith("tests/") for name in files[number])]
    wrong += [f"no test breaks {name}" for name in idle_mutants(root)]
    print("\n".join(wrong) or f"{len(defined)} numbers, each in a test")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
