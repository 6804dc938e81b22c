"""`cmake --install` of a build folder: what is there then, and that it runs from where it is, also when it is moved."""

import os
import stat
import unittest

from support import BUILD, WheelTest, tree

FILES = {"bin", "bin/slipstream", "libexec", "libexec/libslipstream.so",
         "share", "share/slipstream", "share/slipstream/grafana_dashboard.json"}
# The manual, where the folder was built with it.
MANUAL = {f"share/{path}" for path in tree(BUILD / "share")} if (BUILD / "share").is_dir() else set()


class CMakeInstall(WheelTest):
    def reads(self, slipstream):
        """That it finds its pages from where it is."""
        if MANUAL:
            self.assertTrue(self.succeeds(slipstream, "help", "effects").stdout.startswith("What slipstream changes"))

    def test_installs_files_that_find_each_other(self):
        prefix = self.scratch / "prefix"
        self.succeeds("cmake", "--install", BUILD, "--strip", "--prefix", prefix)
        self.assertEqual(tree(prefix), FILES | MANUAL)
        self.assertTrue(os.stat(prefix / "bin" / "slipstream").st_mode & stat.S_IXOTH)
        self.runs(prefix / "bin" / "slipstream")
        moved = self.scratch / "moved"
        prefix.rename(moved)
        self.runs(moved / "bin" / "slipstream")
        self.reads(moved / "bin" / "slipstream")

    def test_into_a_root_of_its_own(self):
        """As packagers do."""
        root = self.scratch / "root"
        environment = dict(os.environ, DESTDIR=str(root))
        self.succeeds("cmake", "--install", BUILD, "--prefix", "/opt/slipstream", environment=environment)
        self.assertEqual(tree(root / "opt" / "slipstream"), FILES | MANUAL)
        self.assertEqual(tree(root) - {f"opt/slipstream/{name}" for name in FILES | MANUAL}, {"opt", "opt/slipstream"})
        self.runs(root / "opt" / "slipstream" / "bin" / "slipstream")


if __name__ == "__main__":
    unittest.main()
