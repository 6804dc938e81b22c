"""doc_paths.py finds a machine's folder and a registry's host. What it looks for is put together here, never written."""

import unittest

from support import CheckTest


class DocPaths(CheckTest):
    def check(self, text):
        self.write("README.md", f"first\n{text}\n")
        return self.run_check("doc_paths", self.scratch)

    def test_plain_text(self):
        self.assert_fine(self.check("see docs/work-items/notes.md, $HOME/x, /usr/local/cuda and https://github.com/example/x"))

    def test_folders(self):
        for folder in ("work", "root", "home"):
            with self.subTest(folder):
                self.assert_finds(self.check(f"run `/{folder}/" + "someone/x`"), "README.md:2: a path of one machine")

    def test_hosts(self):
        for host in ("pypi" + ".org", "files.python" + "hosted.org", "deb" + ".debian.org", "archive" + ".ubuntu.com"):
            with self.subTest(host):
                self.assert_finds(self.check(f"from https://{host}/simple"), "the host of a package registry")


if __name__ == "__main__":
    unittest.main()
