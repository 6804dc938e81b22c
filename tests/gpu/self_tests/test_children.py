"""The checks of children find a program that has the library and should not, or lacks it and should have it."""

import os
import pathlib
import sys
import unittest

import support
from suite import children
from suite.harness import Failed, Skipped

PROGRAM = "import subprocess, sys; print(subprocess.run(['cat', '/dev/null']).returncode, subprocess.run([sys.executable, '-c', 'pass']).returncode)"


class Judged(unittest.TestCase):
    def test_good(self):
        programs = [("slipstream", False), ("python3.12", True), ("dash", True), ("ptxas", False), ("cc1", False)]
        self.assertEqual(["cc1", "ptxas"], children.judge(programs))
        self.assertEqual([], children.judge([("python3", True)], tools=0))

    def test_every_kind_of_wrong(self):
        for programs in (
            [("python3.12", True), ("ptxas", True)],
            [("python3.12", True), ("python3.12", False), ("ptxas", False)],
            [("python3.12", True), ("dash", False), ("ptxas", False)],
            [("python3.12", True), ("python3-config", True), ("cc1", False)],
            [("python3.12", True)],
            [("slipstream", False), ("ptxas", False)],
            [],
        ):
            with self.assertRaises(Failed, msg=programs):
                children.judge(programs)

    def test_no_file(self):
        with self.assertRaises(Failed):
            children.read(pathlib.Path("/nonexistent/programs.txt"))


@unittest.skipIf(
    os.environ.get("GPU_TEST_SANITIZER"), "a sanitized preload needs the sanitizer's runtime in front of it"
)
class Run(unittest.TestCase):
    def run_check(self, text, tools=1, policy=children.POLICY):
        before, children.POLICY = children.POLICY, policy
        try:
            with support.TemporarySuite(build=os.environ["GPU_TEST_BUILD"]) as suite:
                data = {}
                detail = children.same(suite, "run", [sys.executable, "-c", text], tools)(data)
                return detail, data
        finally:
            children.POLICY = before

    def setUp(self):
        if not (pathlib.Path(os.environ["GPU_TEST_BUILD"]) / "tests" / "gpu" / "libprogram_witness.so").exists():
            self.fail("the witness is not in the build folder")

    def test_a_real_run(self):
        detail, data = self.run_check(PROGRAM)
        self.assertIn("without the library: cat", detail)
        self.assertEqual(1, data["programs"]["cat without"])
        self.assertEqual(2, sum(count for name, count in data["programs"].items() if name.startswith("python")))

    def test_without_the_policy_it_fails(self):
        for policy, tools in (("version = 1\n", 1), (children.POLICY + 'drop = ["python*"]\n', 0),
                              (children.POLICY + 'keep = ["cat"]\n', 0)):
            with self.assertRaisesRegex(Failed, "the library: "):
                self.run_check(PROGRAM, tools, policy)

    def test_nothing_started(self):
        with self.assertRaisesRegex(Failed, "shows nothing"):
            self.run_check("print(1)")

    def test_another_outcome(self):
        with self.assertRaisesRegex(Failed, "stdout differs"):
            self.run_check("import os, subprocess; subprocess.run(['cat', '/dev/null']); print('SLIPSTREAM_CHILDREN' in os.environ)")

    def test_no_witness(self):
        with support.TemporarySuite(build="/nonexistent") as suite, self.assertRaises(Skipped):
            children.same(suite, "run", ["true"], 0)({})


if __name__ == "__main__":
    unittest.main()
