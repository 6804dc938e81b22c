"""Copies out of mirrors are found right, and their absence is found out, on the simulated device."""

import contextlib
import os
import pathlib
import types
import unittest
from unittest import mock

import support
from suite import levels, mirrors
from suite.harness import Failed, Skipped


@unittest.skipIf(os.environ.get("GPU_TEST_SANITIZER"), "a sanitized library is not preloaded into plain programs")
class Mirrors(unittest.TestCase):
    @contextlib.contextmanager
    def checks(self):
        with support.TemporarySuite(build=str(pathlib.Path(os.environ["GPU_TEST_BUILD"]))) as suite:
            suite.rehearsal = True
            if (said := mirrors.said_by_doctor(suite)) != mirrors.THERE:
                self.skipTest(said)
            yield mirrors.checks(suite)

    def test_both_levels(self):
        with self.checks() as checks:
            self.assertEqual([name for name, _ in checks], ["mirrors.runtime", "mirrors.driver"])
            for _, check in checks:
                data = {}
                check(data)
                self.assertGreater(data["mirrored"], 0)

    def test_without_mirrors_nothing_is_shown(self):
        none = levels.Level("none", (("transfer", "max_mirrored", "0"),))
        with mock.patch.object(mirrors, "LEVELS", (none,)), self.checks() as checks:
            with self.assertRaisesRegex(Failed, "shows nothing"):
                checks[0][1]({})

    def test_where_doctor_says_there_are_none(self):
        with mock.patch.object(mirrors, "said_by_doctor", lambda suite: mirrors.THERE), self.checks() as checks:
            with mock.patch.object(mirrors, "said_by_doctor", lambda suite: "none: so"):
                with self.assertRaisesRegex(Skipped, "none: so"):
                    checks[0][1]({})

    def test_wrong_bytes(self):
        printed = types.SimpleNamespace(expect_success=lambda _: None, stdout=b"changing sources: 5 copies, 1 wrong\n")
        with self.assertRaisesRegex(Failed, "it printed.*1 wrong"):
            mirrors.expect_right(5, printed)


if __name__ == "__main__":
    unittest.main()
