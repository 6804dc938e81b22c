"""tools/demo runs `slipstream demo` of a build folder; what that does is tests/cli/demo.py's."""

import subprocess
import unittest

from support import ROOT, CheckTest


class Demo(CheckTest):
    def run_demo(self, *arguments):
        return subprocess.run([ROOT / "tools" / "demo", "--build", self.scratch / "build", *arguments], capture_output=True, text=True)

    def test_it_becomes_the_command(self):
        self.write("build/slipstream", '#!/bin/sh\necho "$#: $*"\nexit 3\n').chmod(0o755)
        done = self.run_demo("--simulated")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "2: demo --simulated\n", ""))
        self.assertEqual(self.run_demo().stdout, "1: demo\n")

    def test_a_folder_that_is_not_built(self):
        self.assertIn("there is no folder", self.run_demo().stderr)
        (self.scratch / "build").mkdir()
        done = self.run_demo("--simulated")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no built folder", done.stderr)


if __name__ == "__main__":
    unittest.main()
