"""For which Pythons there is a wheel of which PyTorch, as pip's index says."""

import re
import subprocess
import sys

from versions_package import CannotTry
from versions_page import FIRST_PYTORCH, minor

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")


def minors(output):
    """The minor releases, from 2.4 on, in what `pip index versions torch` prints; the oldest first."""
    match = re.search(r"^Available versions: (.*)$", output, re.MULTILINE)
    found = {minor(version) for version in re.split(r",\s*", match[1])} if match else set()
    pairs = sorted(tuple(map(int, version.split("."))) for version in found)
    return [f"{major}.{release}" for major, release in pairs if (major, release) >= FIRST_PYTORCH]


def row(python):
    done = subprocess.run([sys.executable, "-m", "pip", "index", "versions", "torch", "--python-version", python],
                          capture_output=True, text=True)
    found = minors(done.stdout)
    if not found:
        raise CannotTry(f"pip's index names no PyTorch for Python {python}: {done.stderr.strip()[-200:]}")
    return {"python": python, "pytorch": found, "wrong": []}
