"""What the tests of the checks share."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKS = ROOT / "tools" / "dev" / "checks"
sys.path[:0] = [str(CHECKS), str(ROOT / "tools" / "dev" / "testing")]

COMPILER = shutil.which("g++")


class CheckTest(unittest.TestCase):
    """A test with a scratch folder, `self.scratch`, and a way to run a check as ctest does."""

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-checks-"))
        self.addCleanup(shutil.rmtree, self.scratch)

    def write(self, name, text):
        path = self.scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run_check(self, name, *arguments):
        return subprocess.run([sys.executable, CHECKS / f"{name}.py", *arguments], capture_output=True, text=True)

    def assert_fine(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def assert_finds(self, done, *texts):
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stdout)

    def compile_library(self, source, version_script=None, *flags):
        """A shared library made as libslipstream.so is, from `source`."""
        if not COMPILER:
            self.skipTest("g++ is not here to make a library that is wrong")
        code = self.write("library.cpp", source)
        library = self.scratch / "library.so"
        command = [COMPILER, "-shared", "-fPIC", "-O1", "-o", library, code, "-static-libstdc++", "-static-libgcc"]
        if version_script:
            command.append(f"-Wl,--version-script={self.write('library.map', version_script)}")
        if "-Wl,-z,lazy" not in flags:
            command.append("-Wl,-z,now")
        done = subprocess.run([*command, *flags], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return library
