"""What is not kept differs under slipstream as the list says, and not with the key: in earnest, on the simulated device."""

import contextlib
import os
import pathlib
import re
import unittest
from unittest import mock

import support
from suite import unkept
from suite.harness import Failed

EFFECTS = support.REPOSITORY / "docs" / "effects.md"


@unittest.skipIf(os.environ.get("GPU_TEST_SANITIZER"), "a sanitized library is not preloaded into plain programs")
class Unkept(unittest.TestCase):
    @contextlib.contextmanager
    def checks(self):
        build = pathlib.Path(os.environ["GPU_TEST_BUILD"])
        with support.TemporarySuite(build=str(build)) as suite:
            suite.rehearsal = True
            yield {name.removeprefix("unkept."): check for name, check in unkept.checks(suite)}

    def test_every_case(self):
        with self.checks() as checks:
            self.assertEqual(set(checks), set(unkept.CASES))
            for case, check in checks.items():
                with self.subTest(case):
                    data = {}
                    check(data)
                    # Nothing runs there before it is waited for: what is not kept always shows.
                    self.assertEqual(data["differs"], unkept.CASES[case][1] is not None)

    def changed(self, case, bare=None, other=None, key=None):
        kept = unkept.CASES[case]
        return mock.patch.dict(unkept.CASES, {case: (bare or kept[0], other or kept[1], kept[2] if key is None else key)})

    def test_a_key_that_ends_nothing(self):
        with self.changed("pinned_write", key={"SLIPSTREAM_TRANSFER_THREADS": "2"}), self.checks() as checks:
            with self.assertRaisesRegex(Failed, "with .*THREADS"):
                checks["pinned_write"]({})

    def test_what_no_list_says(self):
        with self.changed("pinned_read", other=(0, b"neither\n")), self.checks() as checks:
            with self.assertRaisesRegex(Failed, "neither as bare"):
                checks["pinned_read"]({})

    def test_a_case_that_shows_nothing(self):
        with self.changed("printf", bare=(0, b"")), self.checks() as checks:
            with self.assertRaisesRegex(Failed, "shows nothing"):
                checks["printf"]({})

    def test_a_failure_that_nobody_is_told_of(self):
        with mock.patch.object(unkept, "UNSAID", b"something else"), self.checks() as checks:
            with self.assertRaisesRegex(Failed, "nobody was told"):
                checks["last_error"]({})


class Page(unittest.TestCase):
    def test_names_every_case_with_its_key(self):
        text = EFFECTS.read_text()
        rows = dict(re.findall(r"^\| `unkept\.(\w+)` \|.*\| `([\w.]+) = \w+` \|$", text, re.M))
        listed = {case for case, (_, other, _) in unkept.CASES.items() if other is not None}
        self.assertEqual(set(rows), listed)
        for case in listed:
            (variable,) = unkept.CASES[case][2]
            self.assertEqual(variable, "SLIPSTREAM_" + rows[case].upper().replace(".", "_"))


if __name__ == "__main__":
    unittest.main()
