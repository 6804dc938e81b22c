"""The checks with compute-sanitizer, on scripts that stand in for the tool, for slipstream and for the program."""

import contextlib
import json
import os
import pathlib
import sqlite3
import unittest
from unittest import mock

import support
from suite import sanitizer
from suite.harness import Failed, Result, Skipped

LINE = "checksum 0123456789abcdef, all bytes as expected"
PROGRAM = f"""#!/bin/bash
[[ "$1" = --out-of-bounds || "$1" = --race ]] && {{ echo did wrong; exit 0; }}
[ -n "$WRONG" ] && {{ echo "checksum 0, all bytes as expected"; exit 0; }}
echo "{LINE}"
"""
# slipstream run --quiet --summary FILE -- COMMAND...
SLIPSTREAM = """#!/bin/bash
cp "$DECISIONS" "$4"
shift 5
UNDER=1 exec "$@"
"""
TOOL = """#!/bin/bash
# Options end at the first argument that is a path.
[ "$TOOL_MODE" = outside ] && [ -n "$UNDER" ] && { echo "========= Error: cannot attach"; exit 1; }
[ "$TOOL_MODE" = silent ] && exit 0
[ "$2" = racecheck ] && what="RACECHECK SUMMARY: %d hazards displayed" || what="ERROR SUMMARY: %d errors"
while [[ "$1" != */* ]]; do shift; done
echo "========= COMPUTE-SANITIZER"
"$@" || exit
errors=0
[[ "$*" = *--out-of-bounds && "$what" = ERROR* || "$*" = *--race && "$what" = RACECHECK* ]] && errors=1
[[ "$TOOL_MODE" = finds && ( -n "$UNDER" || "$*" = *--summary* ) ]] && errors=2
[ "$TOOL_MODE" = blind ] && errors=0
[ $errors != 0 ] && echo "========= Invalid __global__ write of size 1 bytes"
printf "========= $what\n" $errors
[ $errors = 0 ] || exit 9
"""


class Verdicts(unittest.TestCase):
    def verdict(self, output, status=0, **more):
        return sanitizer.verdict(sanitizer.MEMCHECK, Result(status, output, b"", 1, **more), [LINE.encode()])

    def test_nothing_found(self):
        good = LINE.encode() + b"\n========= ERROR SUMMARY: 0 errors\n"
        self.assertIsNone(self.verdict(good))
        self.assertIn("exit status 3", self.verdict(good, 3))
        self.assertIn("in time", self.verdict(good, timed_out=True))
        self.assertIn("watched nothing", self.verdict(LINE.encode()))

    def test_found(self):
        for output, status in (
            (b"========= Invalid read\n========= ERROR SUMMARY: 1 error\n", 9),
            (b"========= ERROR SUMMARY: 0 errors\n========= ERROR SUMMARY: 3 errors\n", 0),
            (b"checksum 1\n========= ERROR SUMMARY: 0 errors\n", 0),
            (LINE.encode(), 9),
        ):
            with self.assertRaises(Failed):
                self.verdict(output, status)


class Checks(unittest.TestCase):
    @contextlib.contextmanager
    def checks(self, decisions=None, **environment):
        temporary = support.TemporarySuite()
        with temporary as suite, mock.patch.dict(os.environ):
            root = pathlib.Path(temporary.directory.name)
            folder = root / "bin"
            (root / "tests" / "gpu").mkdir(parents=True)
            folder.mkdir()
            for path, text in (
                (root / "slipstream", SLIPSTREAM),
                (root / "tests" / "gpu" / "copy_patterns", PROGRAM),
                (folder / "compute-sanitizer", TOOL),
            ):
                path.write_text(text)
                path.chmod(0o755)
            if decisions is None:
                decisions = {"transfer.h2d.promoted.large": {"count": 3}, "transfer.sync.skipped": {"count": 2}}
            (root / "decisions").write_text(json.dumps({"totals": {"functions": [], "decisions": decisions}}))
            os.environ.update(
                PATH=f"{folder}:/usr/bin:/bin", DECISIONS=str(root / "decisions"), CUDA_HOME=str(root), **environment
            )
            suite.build, suite.slipstream = root, root / "slipstream"
            yield dict(sanitizer.checks(suite))

    def test_pass(self):
        with self.checks() as checks:
            self.assertIn("3 copies promoted", checks["sanitizer.copies"]({}))
            data = {}
            self.assertIn("no error", checks["sanitizer.memcheck"](data))
            self.assertEqual([1], data["control"])
            self.assertTrue(data["order"].startswith("slipstream run"))

    def test_racecheck(self):
        with self.checks() as checks:
            data = {}
            self.assertIn("no error", checks["sanitizer.racecheck"](data))
            self.assertEqual([1], data["control"])
        # Another tool's summary shows nothing.
        with self.checks(TOOL_MODE="blind") as checks, self.assertRaisesRegex(Skipped, "racecheck does not find"):
            checks["sanitizer.racecheck"]({})

    def test_the_other_order_where_one_does_not_work(self):
        with self.checks(TOOL_MODE="outside") as checks:
            data = {}
            checks["sanitizer.memcheck"](data)
            self.assertEqual("compute-sanitizer slipstream run", data["order"])

    def test_errors_under_slipstream(self):
        with self.checks(TOOL_MODE="finds") as checks, self.assertRaisesRegex(Failed, "Invalid __global__ write"):
            checks["sanitizer.memcheck"]({})

    def test_an_engine_that_did_nothing(self):
        with self.checks(decisions={}) as checks:
            for check in checks.values():
                with self.assertRaisesRegex(Failed, "did not act"):
                    check({})

    def test_a_tool_that_finds_nothing_shows_nothing(self):
        for mode in ("blind", "silent"):
            with self.checks(TOOL_MODE=mode) as checks, self.assertRaises(Skipped):
                checks["sanitizer.memcheck"]({})

    def test_no_tool(self):
        with self.checks() as checks, mock.patch.object(sanitizer, "find_tool", lambda *_: None):
            with self.assertRaisesRegex(Skipped, "no compute-sanitizer"):
                checks["sanitizer.memcheck"]({})

    def test_other_bytes_under_slipstream(self):
        with self.checks() as checks:
            checks["sanitizer.copies"]({})
            with mock.patch.dict(os.environ, WRONG="1"), self.assertRaisesRegex(Failed, "printed"):
                checks["sanitizer.copies"]({})

    def test_what_a_trace_has_of_its_devices(self):
        def said(*statements):
            with contextlib.closing(sqlite3.connect(":memory:")) as connection:
                connection.execute("CREATE TABLE SLIPSTREAM_FACTS (processId INTEGER, key TEXT, value TEXT)")
                for statement in statements:
                    connection.execute(statement)
                return sanitizer.devices_in(connection)

        kernels = (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (correlationId INTEGER)",
            "CREATE TABLE SLIPSTREAM_CALLS (correlationId INTEGER)",
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1), (1), (2)",
            "INSERT INTO SLIPSTREAM_CALLS VALUES (1), (2)",
        )
        self.assertEqual("3 kernels, 3 of them with their call", said(*kernels))
        with self.assertRaisesRegex(Failed, "2 of 3 kernels have no call"):
            said(*kernels, "DELETE FROM SLIPSTREAM_CALLS WHERE correlationId = 1")
        off = "INSERT INTO SLIPSTREAM_FACTS VALUES (1, 'device_work', 'off: a profiler is attached: X is set')"
        self.assertEqual("no kernels (off: a profiler is attached: X is set)", said(off))
        for wrong in ((), ("INSERT INTO SLIPSTREAM_FACTS VALUES (1, 'device_work', 'on')",)):
            with self.assertRaisesRegex(Failed, "does not say why"):
                said(*wrong)


if __name__ == "__main__":
    unittest.main()
