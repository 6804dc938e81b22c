#!/usr/bin/env python3
"""The differential test finds what is broken, makes it small, and says nothing of what is not.

test_differential.py RUNNER BROKEN_LIBRARY COUNTS LIBRARY MUTANTS WATCH
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
RUNNER = BROKEN = COUNTS = LIBRARY = MUTANTS = WATCH = None


class DifferentialTest(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-differential-test-"))
        self.addCleanup(shutil.rmtree, self.scratch)

    def differential(self, *arguments, **variables):
        command = [sys.executable, HERE / "differential.py", "--runner", RUNNER, "--out", self.scratch, *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, **variables})

    def found(self):
        files = sorted(self.scratch.glob("*.txt"))
        self.assertEqual(len(files), 1)
        return files[0]

    def assert_finds(self, done, most_operations, *texts):
        """A difference, and a program of few operations that has these texts and is itself a program that shows it."""
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        text = self.found().read_text()
        operations = [line for line in text.splitlines() if re.match(r"t\d ", line)]
        self.assertLessEqual(len(operations), most_operations, text)
        for wanted in texts:
            self.assertTrue(any(re.search(wanted, line) for line in operations), f"{wanted}:\n{text}")
        self.assertIn("# First difference:", text)

    def broken(self, how, *arguments):
        return self.differential("--preload", BROKEN, "--count", 60000, "--chunk", 1000, *arguments, BROKEN=how)

    def without(self, rule, *arguments):
        """Under the library with this rule of the transfer engine broken. That it shrinks far is shown by the others."""
        settings = ["SLIPSTREAM_TRANSFER_START=now", "SLIPSTREAM_TRANSFER_THREADS=3", "SLIPSTREAM_ALLOCATOR_MODE=off",
                    f"BROKEN_RULE={rule}"]
        settings = [word for setting in settings for word in ("--preload-environment", setting)]
        return self.differential("--preload", MUTANTS, *settings, "--count", 60000, "--chunk", 1000, "--shrink-seconds", 1,
                                 *arguments)

    # ---- broken promises
    def test_a_synchronization_that_is_dropped_now_and_then(self):
        # What the copy brought is not there yet, or a question says so.
        self.assert_finds(self.broken("drop_sync"), 9, "as=d2h| query ", " sync ")

    def test_an_engine_without_any_rule(self):
        self.assert_finds(self.broken("naive_skip"), 14, "copy_async", " sync ")

    def test_a_source_that_is_read_late(self):
        self.assert_finds(self.broken("late_source"), 8, "copy_async", "write|drop|host_function|sync")

    def test_a_pinned_source_that_is_read_early(self):
        self.assert_finds(self.broken("early_pinned"), 8, "copy_async .*src=[hp]")

    def test_the_end_of_a_large_source_that_is_read_early(self):
        self.assert_finds(self.broken("early_tail"), 8, "host_function", "copy_async")

    def test_an_error_that_is_forgotten(self):
        self.assert_finds(self.broken("wrong_status"), 6, "last_error")

    def test_a_crash(self):
        done = self.broken("crash")
        self.assert_finds(done, 8, "copy_async")
        self.assertIn("SIGABRT", done.stdout)
        self.assertIn("at t0 copy_async", self.found().read_text())

    def test_a_hang(self):
        done = self.broken("hang", "--watchdog", 4, "--no-shrink")
        self.assert_finds(done, 200, "copy_async")
        self.assertIn("no sign of life", done.stdout)

    def test_what_it_wrote_shows_it_again(self):
        self.broken("late_source")
        kept = self.found()
        text = kept.read_text()
        done = self.differential("--preload", BROKEN, "--program", kept, "--no-shrink", BROKEN="late_source")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        kept.write_text(text)
        done = self.differential("--preload", BROKEN, "--program", kept, BROKEN="nothing")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    # ---- what only several programs in one process show
    def test_a_difference_that_needs_the_programs_before(self):
        self.assert_finds(self.broken("count_copies", "--shrink-seconds", 3), 10000, "copy_async")
        self.assertGreater(self.found().read_text().count("\nprogram "), 1)

    # ---- the engine itself
    def test_an_engine_without_one_of_the_rules(self):
        for rule in ["S03", "S05", "S07", "S10", "S10other", "S12", "S13query", "S13free", "S16", "S70", "S71"]:
            with self.subTest(rule=rule):
                for file in self.scratch.glob("*.txt"):
                    file.unlink()
                self.assert_finds(self.without(rule), 200, "copy")

    def test_an_engine_that_does_not_mind_mapped_memory(self):
        self.assert_finds(self.without("S11", "--family", "managed"), 200, "device_pointer|managed")

    def test_an_engine_that_another_preload_sees_through(self):
        # By the driver's functions, after a wait: the program needs none of them.
        for how in ("watch", "time"):
            with self.subTest(how=how):
                for file in self.scratch.glob("*.txt"):
                    file.unlink()
                beside = ["--beside", WATCH, "--beside-in-front", "--environment", f"OTHER={how}"]
                self.assert_finds(self.without("S70", *beside, "--shrink-seconds", 5), 12, "copy_async", " sync ")
                self.assertNotIn(" by=", self.found().read_text())

    # ---- the test itself
    def test_a_library_that_was_not_there_is_no_success(self):
        done = self.differential("--preload", BROKEN, "--counts", COUNTS, "--count", 10, BROKEN="nothing")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("do not show: call cudaMemcpyAsync", done.stdout)

    def test_a_decision_that_was_not_taken_is_no_success(self):
        done = self.differential("--preload", LIBRARY, "--counts", COUNTS, "--count", 10)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.differential("--preload", LIBRARY, "--counts", COUNTS, "--count", 10, "--require", "transfer.never")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("do not show: decision transfer.never", done.stdout)

    def test_a_program_that_is_not_determined_is_refused(self):
        program = self.scratch / "race"
        program.write_text("program seed=0 sim=1 family=main\nt0 stream stream=s2 flags=non_blocking\n"
                           "t0 malloc dst=d0 n=64\nt0 pinned dst=h1 n=64 value=1 flags=default\n"
                           "t0 copy_async stream=s2 dst=h1 src=d0 n=64 as=d2h\nt0 read dst=h1 n=64\n")
        done = self.differential("--program", program)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("not ordered", done.stderr)

    def test_a_library_that_does_not_exist(self):
        done = self.differential("--preload", self.scratch / "nothing.so", "--count", 1)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)

    def test_a_runner_that_is_not_there(self):
        done = subprocess.run([sys.executable, HERE / "differential.py", "--runner", "/nowhere", "--count", "1"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    # MUTANTS: the library in which rules can be broken (cuda/mutant.h); WATCH: other_watch.cpp.
    RUNNER, BROKEN, COUNTS, LIBRARY, MUTANTS, WATCH = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
