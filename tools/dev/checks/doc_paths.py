#!/usr/bin/env python3
"""No file of ours names a folder of somebody's machine or the host of a package registry.

    doc_paths.py [ROOT]
"""

import pathlib
import re
import sys

from findings import finish

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "testing"))
from sources import tracked  # noqa: E402  (the folder is known only now)

# Written so that no pattern finds itself.
FORBIDDEN = (
    (re.compile(r"(?<![\w./$}-])/(?:work|root|home)/\w"), "a path of one machine"),
    (re.compile(r"\.py[e]nv\b"), "a path of one machine"),
    (
        re.compile(
            r"\b(?:[\w-]+\.)*(?:pypi|pythonhosted|npmjs|rubygems|maven|crates|conda|anaconda|"
            r"deb\.debian|security\.debian|snapshot\.debian|archive\.ubuntu|ports\.ubuntu)\.(?:org|com|io)\b"
        ),
        "the host of a package registry",
    ),
)


def problems_of(path, text):
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in FORBIDDEN:
            match = pattern.search(line)
            if match:
                problems.append(f"{path}:{number}: {what}: {match.group(0)}")
    return problems


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[3]).resolve()
    files = tracked(root)
    problems = []
    for path in files:
        problems += problems_of(path, (root / path).read_text(errors="replace"))
    finish("doc_paths", files, problems)


if __name__ == "__main__":
    main()
