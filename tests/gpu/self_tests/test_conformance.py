"""The group `conformance`: what it makes of the programs that it starts."""

import os
import unittest

import support
from suite import conformance
from suite.harness import Failed, Skipped

PASSED = "27 passed, 0 failed, 0 crashed\nallocator.parked 12\nallocator.reused 7\n"


class Conformance(unittest.TestCase):
    def run_check(self, name, script, runtime=True):
        with support.TemporarySuite() as suite:
            suite.build = suite.scratch("build")
            folder = suite.scratch("build/conformance")
            runtimes = suite.scratch("runtimes")
            if runtime:
                (runtimes / "libcudart.so.13").touch()
            for program in ("conformance13_ptds", "conformance_fuzz13_ptds", "run_conformance"):
                (folder / program).write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
                (folder / program).chmod(0o755)
            previous = os.environ.get("LD_LIBRARY_PATH")
            os.environ["LD_LIBRARY_PATH"] = str(runtimes)
            try:
                return dict(conformance.checks(suite))[name]({})
            finally:
                del os.environ["LD_LIBRARY_PATH"]
                if previous is not None:
                    os.environ["LD_LIBRARY_PATH"] = previous

    def test_passed(self):
        text = self.run_check("conformance.13.ptds.segments", f"printf '{PASSED}'")
        self.assertEqual(text, "processes: 27 passed, 0 failed, 0 crashed; parked 12, reused 7")

    def test_what_it_starts(self):
        echo = 'echo "$@" >&2; printf "1 passed, 0 failed, 0 crashed\\n"; [[ "$*" == *{} ]]'
        for name, ending in (
            ("segments", f"--allocator segments --require {conformance.DECISIONS['tests']}"),
            ("off", "--allocator off"),
            ("bare", f"--limit {conformance.SUITE_SECONDS}"),
            ("bare.fuzz", "--seed 13 --steps 3000 --steps 300"),
            ("segments.fuzz.unordered", "--seed 13 --steps 300 --threads 8 --ordered 0 --steps 300"),
        ):
            with self.subTest(name):
                script = echo.format(f'"{ending}"')
                self.assertIn("1 passed", self.run_check(f"conformance.13.ptds.{name}", script))

    def test_failed(self):
        script = "printf '%s\\n' '[  FAILED  ] Reuse/CudaMalloc.X (3 ms)' '26 passed, 1 failed, 0 crashed'; exit 1"
        with self.assertRaisesRegex(Failed, r"1 failed, 0 crashed; \[  FAILED  \] Reuse/CudaMalloc.X"):
            self.run_check("conformance.13.ptds.off", script)

    def test_said_nothing(self):
        with self.assertRaisesRegex(Failed, "exit status 0"):
            self.run_check("conformance.13.ptds.off", "exit 0")

    def test_no_runtime(self):
        with self.assertRaisesRegex(Skipped, "no libcudart.so.12"):
            self.run_check("conformance.12.legacy.off", "exit 1")

    def test_not_built(self):
        with self.assertRaisesRegex(Failed, "conformance13_legacy is not there"):
            self.run_check("conformance.13.legacy.off", "exit 1")


if __name__ == "__main__":
    unittest.main()
