"""The checks of inert processes pass with a preload that does nothing and fail with each one that misbehaves."""

import os
import pathlib
import shutil
import unittest

import support
from suite import inert
from suite.harness import Failed

NOTHING, THREAD, FILE, OPEN_FILE, OUTPUT, STATUS = range(6)


@unittest.skipIf(
    os.environ.get("GPU_TEST_SANITIZER"), "a sanitized preload needs the sanitizer's runtime in front of it"
)
class Inert(unittest.TestCase):
    def run_check(self, name, misbehavior):
        preloads = pathlib.Path(os.environ["GPU_TEST_PRELOADS"])
        with support.TemporarySuite() as suite:
            suite.library = preloads / f"preload_{misbehavior}" / "libslipstream.so"
            self.assertTrue(suite.library.exists(), suite.library)
            return dict(inert.checks(suite))["inert." + name]({})

    def expect(self, name, *caught):
        for misbehavior in range(6):
            with self.subTest(check=name, misbehavior=misbehavior):
                if misbehavior in caught:
                    with self.assertRaises(Failed):
                        self.run_check(name, misbehavior)
                elif misbehavior == NOTHING:
                    self.run_check(name, misbehavior)

    def test_true(self):
        self.expect("true", FILE, OUTPUT, STATUS)

    def test_bash(self):
        self.expect("bash", FILE, OUTPUT, STATUS)

    def test_python(self):
        self.expect("python", FILE, OUTPUT, STATUS)

    def test_python_census(self):
        self.expect("python_census", THREAD, FILE, OPEN_FILE, OUTPUT, STATUS)

    def test_waiting_processes(self):
        self.expect("cat_waiting", THREAD, OPEN_FILE)
        self.expect("bash_waiting", THREAD, OPEN_FILE)

    def test_compiler(self):
        if not shutil.which("gcc"):
            self.skipTest("no gcc")
        self.expect("gcc", FILE, OUTPUT, STATUS)
        self.expect("gcc_waiting", THREAD, OPEN_FILE)

    def test_start_up_is_measured(self):
        self.assertIn("preload adds", self.run_check("start_up", NOTHING))


if __name__ == "__main__":
    unittest.main()
