"""Paths for the tests of the suite's own parts, and a Suite without a machine."""

import argparse
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
sys.path[:0] = [str(REPOSITORY / "tests" / "gpu"), str(REPOSITORY / "tools" / "dev" / "bench")]

from suite import harness  # noqa: E402


def load_script(path):
    """A script without .py as a module."""
    loader = importlib.machinery.SourceFileLoader(pathlib.Path(path).name.replace("-", "_"), str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class TemporarySuite:
    """with TemporarySuite() as suite: a Suite in a folder that goes afterwards."""

    def __init__(self, build=".", only="", budget=100.0):
        self.directory = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.directory.name)
        (root / "work").mkdir()
        out = harness.prepare_out(root / "out")
        options = argparse.Namespace(
            build=build, out=out, python=sys.executable, rehearse=False, quick=True, only=only, budget=budget
        )
        self.suite = harness.Suite(options, root / "work")

    def __enter__(self):
        return self.suite

    def __exit__(self, *_):
        self.directory.cleanup()
