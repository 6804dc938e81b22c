#!/usr/bin/env python3
"""Includes point downward only, no folders include each other, and only policy/ reads the environment.

    layering.py [ROOT]
"""

import pathlib
import re
import sys

from findings import finish

CHECK = "layering"

# What each folder may include, beside itself. tests/ may include anything and nothing may include tests/.
MAY_INCLUDE = {
    "policy": set(),
    "cuda": {"policy"},
    "allocator": {"cuda", "policy"},
    "transfer": {"cuda", "policy"},
    "tracer": {"cuda", "policy"},
    "shim": {"allocator", "transfer", "tracer", "cuda", "policy"},
    "tools": {"tracer", "policy"},
}
# Tables without code: names and rows that the folder generates from.
ALLOWED_FILES = {"tools": {"shim/hooks.def", "allocator/decision.h", "transfer/decision.h"}}
# The rooms of tools/, and what each may include of the others. Nothing of the product includes the workshop, tools/dev/.
ROOMS_OF_TOOLS = {
    "text": set(),
    "trace": {"text"},
    "compare": {"text", "trace"},
    "tune": {"compare"},
    "site": {"text", "trace"},
    "cli": {"text", "trace", "compare", "tune", "site"},
    "dev": {"trace"},
    "examples": set(),
}
FOLDERS = {*MAY_INCLUDE, "tests"}
SUFFIXES = {".h", ".hpp", ".c", ".cc", ".cpp", ".cu", ".def", ".inc", ".in"}

# Where no other place may read the environment: what is preloaded, and the command.
NO_GETENV = ("cuda", "allocator", "transfer", "tracer", "shim", "tools/cli")
_GETENV = re.compile(r"\b(?:__)?(?:secure_)?getenv\b")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include(?:_next)?[ \t]+(.*?)[ \t]*$", re.MULTILINE)
# Raw strings, strings, characters and comments, in one pass so that none hides another.
_TOKENS = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|//(?:\\\n|[^\n])*|/\*.*?\*/',
    re.DOTALL,
)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def without_comments(text):
    return _TOKENS.sub(lambda match: match.group(0) if match.group(0)[0] in "R\"'" else _blank(match), text)


def without_comments_and_strings(text):
    return _TOKENS.sub(_blank, text)


def included_folder(root, file, target):
    """(folder of ours that `target` leads to, the path from the root), or None for what is not ours."""
    name = target[1:-1]
    if target[0] == '"':
        beside = (file.parent / name).resolve()
        if beside.is_relative_to(root) and beside.exists():
            path = beside.relative_to(root)
            return (path.parts[0], path.as_posix()) if path.parts[0] in FOLDERS else None
    path = pathlib.PurePosixPath(name)
    if path.parts and path.parts[0] in FOLDERS and len(path.parts) > 1:
        # <policy/...> cannot be somebody else's: no third-party library has a folder of that name. <cuda/...> can: NVIDIA's
        # C++ library has one.
        if target[0] == "<" and path.parts[0] == "cuda" and not (root / path).exists():
            return None
        return path.parts[0], name
    if ".." in path.parts:
        return "..", name
    return None


def parting(one, other):
    """The two rooms, side by side, that the folders lie in; the folders themselves where one lies in the other."""
    for depth, names in enumerate(zip(one.parts, other.parts), 1):
        if names[0] != names[1]:
            return pathlib.PurePosixPath(*one.parts[:depth]), pathlib.PurePosixPath(*other.parts[:depth])
    return one, other


def circles(root, files):
    """Folders of the product, at any depth, that lead to each other, themselves or by folders in them: an include of each
    on the way round."""
    edges = {}
    for file in files:
        relative = file.relative_to(root)
        if relative.parts[0] == "tests":
            continue
        code = without_comments(file.read_text(errors="replace"))
        for match in _INCLUDE.finditer(code):
            found = included_folder(root, file, match.group(1)) if match.group(1)[:1] in ('"', "<") else None
            if found is None or found[0] in ("tests", ".."):
                continue
            ways = (relative.parent, pathlib.PurePosixPath(found[1]).parent)
            for one, other in {ways, parting(*ways)}:
                if one != other:
                    edges.setdefault(one.as_posix(), {}).setdefault(other.as_posix(), f"{relative} includes {found[1]}")
    reached = {}
    for start in edges:
        reached[start], left = set(), [start]
        while left:
            for folder in edges.get(left.pop(), {}):
                if folder not in reached[start]:
                    reached[start].add(folder)
                    left.append(folder)
    problems = set()
    for one, others in edges.items():
        for other, where in others.items():
            if one in reached.get(other, ()):
                problems.add(f"{where}; {other}/ leads back to {one}/")
    return sorted(problems)


def problems_of(root, file):
    relative = file.relative_to(root)
    folder = relative.parts[0]
    text = file.read_text(errors="replace")
    code = without_comments(text)
    problems = []
    for match in _INCLUDE.finditer(code):
        where = f"{relative}:{code.count(chr(10), 0, match.start()) + 1}"
        target = match.group(1)
        if target[:1] not in ('"', "<"):
            problems.append(f"{where}: includes the macro {target}; name the file, so that the layer can be seen")
            continue
        found = included_folder(root, file, target)
        if found is None or folder == "tests":
            continue
        if found[0] == folder:
            room, other = relative.parts[1], pathlib.PurePosixPath(found[1]).parts[1]
            if folder == "tools" and other != room and other not in ROOMS_OF_TOOLS.get(room, ()):
                may = ", ".join(sorted(ROOMS_OF_TOOLS.get(room, ()))) or "none"
                problems.append(f"{where}: tools/{room}/ includes {found[1]}; of the other rooms of tools/ it may include {may}")
            continue
        if found[0] not in MAY_INCLUDE[folder] and found[1] not in ALLOWED_FILES.get(folder, ()):
            may = ", ".join(sorted(MAY_INCLUDE[folder])) or "nothing of ours"
            problems.append(f"{where}: {folder}/ includes {found[1]}; it may include {may}")
    if relative.as_posix().startswith(tuple(f"{place}/" for place in NO_GETENV)):
        bare = without_comments_and_strings(text)
        for match in _GETENV.finditer(bare):
            line = bare.count("\n", 0, match.start()) + 1
            problems.append(f"{relative}:{line}: {match.group(0)}; only policy/ reads the environment")
    return problems


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[3]).resolve()
    files = sorted(file for folder in FOLDERS for file in (root / folder).rglob("*") if file.suffix in SUFFIXES)
    finish(CHECK, files, [problem for file in files for problem in problems_of(root, file)] + circles(root, files))


if __name__ == "__main__":
    main()
