#!/usr/bin/env python3
"""The summaries that runs leave in the directory of run.summaries, and what `slipstream site` says of them.

    summaries.py BUILD
"""

import json
import os
import pathlib
import pwd
import re
import signal
import socket
import sys
import tempfile
import time
import unittest

from site_testing import BUILD, LIMIT_S, SiteTest

LOOP = BUILD / "examples" / "train_loop"


class Summaries(SiteTest):
    def records(self, directory=None):
        return [json.loads(path.read_text()) for path in sorted((directory or self.runs).glob("*.json"))]

    def record(self):
        records = self.records()
        self.assertEqual(len(records), 1)
        return records[0]

    def test_what_a_run_leaves(self):
        before = time.time()
        done = self.run_under(LOOP, options=("--summary", "s.json"))
        record = self.record()
        self.assertEqual(record["schema"], "slipstream-run-1")
        self.assertEqual(record["host"], socket.gethostname())
        self.assertEqual(record["user"], pwd.getpwuid(os.geteuid()).pw_name)
        self.assertEqual(record["program"], "train_loop")
        self.assertEqual(record["version"], self.slipstream("--version").stdout.split()[1])
        self.assertTrue(before - 1 < record["start_unix_ns"] / 1e9 < time.time(), record["start_unix_ns"])
        self.assertEqual((record["exit_status"], record["signal"], record["processes"]), (0, None, 1))
        self.assertTrue(0 < record["duration_s"] < LIMIT_S)
        self.assertEqual((record["stood_aside"], record["failed_open"]), ([], []))
        self.assertTrue(record["gained"]["unknown"])  # it promotes copies
        # What `--summary` writes is in it.
        self.assertEqual(record["summary"], json.loads((self.place / "s.json").read_text()))
        self.assertEqual(record["gained"]["estimated_ns"], (record["summary"]["gains"] or {}).get("estimated_ns", 0))
        self.assertNotIn(str(self.runs), done.stderr)

    def test_modes(self):
        for mode, bits in (("private", 0o600), ("group", 0o640)):
            for mask in (0o000, 0o077):
                with self.subTest(mode=mode, mask=mask), tempfile.TemporaryDirectory(dir=self.place) as directory:
                    shell = f'umask {mask:o}; exec "$@"'
                    self.slipstream("run", "--quiet", "--set", f"run.summaries={directory}", "--set", f"run.summaries_mode={mode}",
                                    "--", "sh", "-c", shell, "sh", LOOP)
                    [path] = pathlib.Path(directory).iterdir()
                    self.assertEqual(path.stat().st_mode & 0o7777, bits)

    def test_many_processes_are_one_file(self):
        self.run_under("sh", "-c", f"{LOOP} & {LOOP} & wait; {LOOP}", options=("--quiet",))
        record = self.record()
        self.assertEqual((record["program"], record["processes"], len(record["summary"]["processes"])), ("sh", 3, 3))

    def test_exit_status_and_signals(self):
        for script, status, expected in (("exit 3", 3, (3, None)), ("kill -TERM $$", -signal.SIGTERM, (143, 15))):
            with self.subTest(script):
                self.run_under("sh", "-c", script, status=status)
                record = self.record()
                self.assertEqual((record["exit_status"], record["signal"]), expected)
                next(self.runs.iterdir()).unlink()

    def test_a_run_that_is_killed(self):
        """Its watcher ends it."""
        worker = self.start_worker("--set", "run.watcher=on")
        self.work(worker, 3)
        maps = pathlib.Path(f"/proc/{worker.pid}/maps").read_text()
        [run] = set(map(pathlib.Path, re.findall(r"(/\S+/slipstream-run-[^/\n]+)/", maps)))
        worker.kill()
        self.assertEqual(worker.wait(LIMIT_S), -signal.SIGKILL)
        end = time.monotonic() + LIMIT_S
        # The last thing that the watcher does in any folder is to remove the run's.
        while run.exists():
            self.assertLess(time.monotonic(), end, "nobody has ended a run that was killed")
        record = self.record()
        self.assertEqual((record["exit_status"], record["signal"]), (None, None))
        self.assertEqual(record["processes"], 1)

    def test_where_it_cannot_be_written_the_run_goes_on(self):
        (self.place / "file").write_text("")
        for directory, why in ((self.place / "missing", "No such file or directory"), (self.place / "file", "Not a directory")):
            for options in ((), ("--quiet",)):
                with self.subTest(why, options=options):
                    done = self.run_under("sh", "-c", f"{LOOP}; exit 7", options=options, status=7, SLIPSTREAM_RUN_SUMMARIES=str(directory))
                    lines = [line for line in done.stderr.splitlines() if "run.summaries" in line]
                    self.assertEqual(lines, [f"slipstream: no summary of this run in {directory} (run.summaries): {why}"])
                    if options:
                        self.assertEqual(done.stderr.splitlines(), lines)
        # No file may grow: a full disk, in small.
        done = self.run_under("sh", "-c", "ulimit -f 0; exit 7", status=7, options=("--quiet",))
        self.assertIn("(run.summaries): File too large", done.stderr)
        self.assertEqual(list(self.runs.iterdir()), [])

    def test_a_relative_directory_is_refused(self):
        done = self.slipstream("run", "--", LOOP, status=125, SLIPSTREAM_RUN_SUMMARIES="here")
        self.assertIn('found "here", expected an absolute path, or ""', done.stderr)

    def test_who_stood_aside(self):
        self.run_under(LOOP, CUDA_LAUNCH_BLOCKING="1")
        self.assertEqual(self.record()["stood_aside"], [{"engine": "transfer", "reason": "CUDA_LAUNCH_BLOCKING is set", "processes": 1}])
        next(self.runs.iterdir()).unlink()
        self.run_under(LOOP, SLIPSTREAM_ENABLED="false")
        self.assertEqual(self.record()["stood_aside"], [{"engine": "all", "reason": "enabled = false in the policy", "processes": 0}])

    def test_site(self):
        self.run_under(LOOP)
        self.run_under(LOOP, CUDA_LAUNCH_BLOCKING="1")
        self.run_under("sh", "-c", f"{LOOP}; exit 3", status=3)
        (self.runs / "README").write_text("no summary")
        done = self.slipstream("site", self.runs, "--since", "1d")
        user = pwd.getpwuid(os.geteuid()).pw_name
        self.assertIn("3 runs of 1 user, ", done.stdout)
        self.assertRegex(done.stdout, rf"(?m)^{user} +3 +0\.00 .* 1 +- +- +1$")
        self.assertRegex(done.stdout, r"(?m)^train_loop +2 ")
        self.assertRegex(done.stdout, r"(?m)^sh +1 ")
        self.assertIn("  transfer: CUDA_LAUNCH_BLOCKING is set (1 run, 1 process)\n", done.stdout)
        self.assertTrue(done.stdout.endswith("\nskipped 1 file: 1 of something else\n"), done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        one = self.slipstream("site", self.runs, "--by", "program").stdout
        self.assertIn("\nprogram ", one)
        self.assertNotIn("\nuser ", one)
        told = json.loads(self.slipstream("site", "--json", SLIPSTREAM_RUN_SUMMARIES=str(self.runs)).stdout)
        self.assertEqual((told["all"]["runs"], told["all"]["failed"], told["skipped"]["foreign"]), (3, 1, 1))

    def test_site_of_nothing(self):
        done = self.slipstream("site", self.runs)
        self.assertIn(f'    summaries = "{self.runs}"\n', done.stdout)
        done = self.slipstream("site", self.place / "missing", status=1)
        self.assertEqual(done.stderr, f"slipstream site: {self.place}/missing: No such file or directory. Name the directory of run.summaries\n")
        done = self.slipstream("site", status=2)
        self.assertIn("run.summaries is not set here. Write:  slipstream site DIR", done.stderr)
        self.slipstream("site", self.runs, "--by", "host", status=2)
        self.slipstream("site", self.runs, "--since", "yesterday", status=2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
