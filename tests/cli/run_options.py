#!/usr/bin/env python3
"""What `slipstream run` records and sets by its options, and which run the other commands take, on the simulated device.

    run_options.py BUILD
"""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest


class RunOptions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name).resolve()

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "XDG_"))}
        return kept | {"LD_LIBRARY_PATH": str(BUILD / "sim"), "SIMCUDA_DEVICES": "1", "HOME": str(self.place), "COLUMNS": "80", "TMPDIR": str(self.place)}

    def slipstream(self, *words, status=0, any_status=False):
        argv = [BUILD / "slipstream", *words]
        done = subprocess.run(argv, cwd=self.place, env=self.environment(), capture_output=True, text=True, timeout=100)
        if not any_status:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def run_loop(self, *options, status=0):
        return self.slipstream("run", *options, "--", BUILD / "examples" / "train_loop", status=status)

    def test_a_directory_that_is_named(self):
        done = self.run_loop("-o", "mine")
        self.assertEqual(len(list((self.place / "mine").glob("*.spool"))), 1)
        self.assertIn(f"slipstream report {self.place}/mine\n", done.stderr)
        self.assertEqual((self.place / "mine").stat().st_mode & 0o777, 0o700)
        # Nothing is recorded over another run.
        done = self.run_loop("-o", "mine", status=125)
        self.assertEqual(
            done.stderr,
            "slipstream: cannot record in mine: it is there, and is no empty directory that can be written. "
            "Name another directory\n",
        )
        self.assertEqual(done.stdout, "")
        done = self.run_loop("--out", "missing/below", status=125)
        self.assertIn("cannot record in missing/below: No such file or directory", done.stderr)
        (self.place / "empty").mkdir()
        self.run_loop("--out", "empty")
        self.assertEqual(len(list((self.place / "empty").glob("*.spool"))), 1)

    def test_a_report_at_the_end(self):
        done = self.run_loop("--report")
        trace = next(self.place.glob("slipstream-trace-*"))
        report = self.slipstream("report", trace).stdout
        self.assertIn("VERDICT", report)
        # Behind the summary, as the command prints it.
        self.assertTrue(done.stderr.endswith(report), done.stderr)
        self.assertNotIn("to read it", done.stderr)
        self.assertTrue(self.run_loop("--report", "--quiet").stderr.startswith("VERDICT"))

    def test_a_report_that_nobody_reads_holds_nothing_up(self):
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        words = [BUILD / "slipstream", "run", "--report", "--quiet", "--", BUILD / "examples" / "train_loop"]
        with subprocess.Popen(words, cwd=self.place, env=self.environment(), stdout=subprocess.DEVNULL, stderr=writing) as run:
            # The report has room for a part of it alone.
            os.write(writing, bytes(4096 - 256))
            os.close(writing)
            self.assertEqual(run.wait(timeout=100), 0)

    def test_no_report_of_nothing(self):
        done = self.slipstream("run", "--report", "--quiet", "--", "true")
        self.assertNotIn("slipstream report", done.stderr)
        self.assertNotIn("VERDICT", done.stderr)
        done = self.run_loop("--report", "--delay", "1h")
        self.assertIn("not one call was recorded", done.stderr)
        self.assertIn("tracer.window", " ".join(done.stderr.split()))
        self.assertNotIn("VERDICT", done.stderr)
        self.assertNotIn("to read it", self.run_loop("--delay", "1h").stderr)

    def test_a_part_of_a_second_is_refused(self):
        for option in ("--delay", "--duration"):
            done = self.run_loop(option, "500ms", status=2)
            self.assertEqual(done.stderr, f"slipstream run: {option}: whole seconds, such as 10s or 2m\n  `slipstream run --help` says what there is.\n")
            self.assertEqual(done.stdout, "")

    def test_a_summary_that_nobody_reads_holds_nothing_up(self):
        os.mkfifo(self.place / "pipe")
        done = self.run_loop("--quiet", "--summary", "pipe")
        self.assertEqual(done.stderr, f"slipstream: cannot write the summary to {self.place}/pipe: nobody reads it\n")
        # One that somebody has open for reading gets all of it.
        reader = os.open(self.place / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.assertEqual(self.run_loop("--quiet", "--summary", "pipe").stderr, "")
        self.assertEqual(json.loads(os.read(reader, 1 << 20))["schema"], "slipstream-summary-1")

    def test_no_escapes_of_words_reach_the_terminal(self):
        for words in (("ev\x1b[31mil",), ("help", "ev\x1b[31mil"), ("site", "--by", "ev\x1b[31mil"), ("run", "--ev\x1b[31mil")):
            self.assertNotIn("\x1b", self.slipstream(*words, status=2).stderr)

    def test_what_is_no_file_is_not_replaced(self):
        os.mkfifo(self.place / "pipe")
        self.assertIn("is no regular file", self.slipstream("metrics", "--output", "pipe", status=1).stderr)
        (self.place / "link.prom").symlink_to("/dev/null")
        self.assertIn("is no regular file", self.slipstream("metrics", "--output", "link.prom", status=1).stderr)
        self.assertIn("is no regular file", self.slipstream("policy", "init", "--force", "pipe", status=1).stderr)
        self.assertTrue(stat.S_ISFIFO((self.place / "pipe").lstat().st_mode))
        self.assertTrue((self.place / "link.prom").is_symlink())

    def test_keys_of_the_policy(self):
        self.run_loop("--summary", "on.json")
        self.run_loop("--summary", "off.json", "--set", "transfer.h2d=off", "--set", "allocator.mode=off")
        on, off = ((self.place / f"{name}.json").read_text() for name in ("on", "off"))
        self.assertIn("transfer.h2d.promoted", on)
        self.assertNotIn("transfer.h2d.promoted", off)
        for setting, said in (
            ("transfer.h2=off", 'no key "transfer.h2"; did you mean transfer.h2d?'),
            ("transfer.h2d=maybe", 'transfer.h2d: found "maybe", expected "off" or "on"'),
            ("transfer.max_pinned=1", 'transfer.max_pinned: found "1", expected a size'),
            ("transfer.h2d", '"transfer.h2d" is no KEY=VALUE'),
            ("version=2", 'no key "version"'),
        ):
            with self.subTest(setting):
                done = self.run_loop("--set", setting, status=2)
                self.assertTrue(done.stderr.startswith(f"slipstream run: --set: {said}"), done.stderr)
                self.assertEqual(done.stdout, "")

    def test_the_newest_run_is_taken(self):
        done = self.slipstream("report", status=2)
        self.assertTrue(done.stderr.startswith("slipstream: no run, and none here. Write:  slipstream report RUN\n"), done.stderr)
        for name in ("20260101-120000-bbbbbb", "20260101-120001-aaaaaa", "20251231-235959-cccccc"):
            self.run_loop("--quiet", "-o", f"slipstream-trace-{name}")
            if name.endswith("bbbbbb"):
                done = self.slipstream("advise")
                self.assertIn("slipstream advise: slipstream-trace-20260101-120000-bbbbbb, the only run here\n", done.stderr)
                self.slipstream("compare", status=2)
        (self.place / "slipstream-trace-20270101-000000-nobody").mkdir()  # holds no trace
        newest = "slipstream-trace-20260101-120001-aaaaaa"
        said = f"{newest}, the newest of 3 runs here; others: slipstream-trace-20260101-120000-bbbbbb, slipstream-trace-2025"
        done = self.slipstream("report")
        self.assertTrue(done.stderr.startswith(f"slipstream report: {said}"), done.stderr)
        self.assertEqual(done.stdout, self.slipstream("report", newest).stdout)
        self.assertIn(said, self.slipstream("export", "--sqlite", "run.sqlite").stderr)
        done = self.slipstream("compare", "--pairs", "3", status=2)  # of a command, which is missing
        self.assertTrue(done.stderr.startswith("slipstream: no command. Write:  slipstream compare"), done.stderr)
        done = self.slipstream("compare", any_status=True)  # busy machines make steps that depend on each other
        self.assertIn(f"slipstream compare: slipstream-trace-20260101-120000-bbbbbb {newest}, the newest of 3 runs", done.stderr)

    def test_a_terminal_that_knows_no_escapes(self):
        argv = [BUILD / "slipstream", "compare", "-n", "3", "--by", "wall", "--", "true"]
        for kind, escapes in (("dumb", False), ("xterm", True)):
            with self.subTest(kind):
                ours, theirs = pty.openpty()
                with subprocess.Popen(argv, cwd=self.place, env=os.environ | {"TERM": kind}, stdout=theirs, stderr=theirs) as done:
                    os.close(theirs)
                    said = b""
                    with contextlib.suppress(OSError):  # how the end of a terminal shows
                        while part := os.read(ours, 65536):
                            said += part
                os.close(ours)
                self.assertEqual(done.returncode, 0, said)
                self.assertEqual(b"\x1b" in said, escapes, said)
                # Without them each run has a line.
                self.assertEqual(b"pair 3 of 3, bare: " in said.replace(b"\r\n", b"\n") and b"pair 1 of 3, bare: " in said, True, said)

    def test_completion(self):
        """By the shells themselves; zsh and fish only where they are."""
        expected = {
            "r": {"run", "report", "record"},
            "run --re": {"--record", "--report"},
            "policy s": {"show"},
            "policy show --": {"--help", "--json"},
            "report ''": set(),  # files
            "report --html ''": set(),
            "run --quiet tu": set(),  # options of run, and none of them begins so
            "run --record -- re": None,  # a command of the shell's
        }
        asks = {
            "bash": 'source {script}; COMP_WORDS=(slipstream {line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); '
            '_slipstream; printf "%s\\n" "${{COMPREPLY[@]}}"',
            # What it offers is matched by zsh itself.
            "zsh": 'compadd() {{ print -rl -- ${{(M)${{@[2,-1]}}:#$words[CURRENT]*}} }}; _files() {{ }}; _normal() {{ }}; '
            "compdef() {{ }}; source {script}; words=(slipstream {line}); CURRENT=$#words; _slipstream",
            "fish": "source {script}; complete -C 'slipstream {line}'",
        }
        for shell, ask in asks.items():
            script = self.place / shell
            script.write_text(self.slipstream("completion", shell).stdout, encoding="utf-8")
            if not shutil.which(shell):
                continue
            for line, offers in expected.items():
                with self.subTest(f"{shell}: {line}"):
                    options = ["-f"] if shell == "zsh" else []
                    done = subprocess.run([shell, *options, "-c", ask.format(script=script, line=line)], cwd=self.place, capture_output=True, text=True, timeout=60)
                    self.assertEqual(done.stderr, "")
                    if line.endswith("''") and shell != "bash":
                        continue  # those put files beside what they offer
                    offered = set(done.stdout.split())
                    if offers is None:
                        self.assertNotIn("report", offered)
                    else:
                        self.assertEqual(offered, offers)
        self.slipstream("completion", "tcsh", status=2)

    def test_no_file_has_the_arguments(self):
        """SECURITY.md: whatever is written, where, and by which command."""
        secret = "hunter2-is-a-password"
        command = ["sh", "-c", f"exec {BUILD}/examples/train_loop", "sh", f"--token={secret}"]
        (self.place / "policy.toml").write_text('version = 1\n[log]\nlevel = "debug"\nfile = "log.txt"\n', encoding="utf-8")
        (self.place / "site").mkdir()
        under = ["--policy", "policy.toml", "--set", f"run.summaries={self.place}/site", "--summary", "summary.json", "--set", "tracer.stacks=full"]
        self.slipstream("run", *under, "-o", "trace", "--report", "--", *command)
        self.slipstream("run", "--", *command)
        self.slipstream("export", "trace", "--sqlite", "run.sqlite", "--chrome", "run.json", "--perfetto", "run.pftrace", "--allocations", "run.alloc")
        self.slipstream("report", "trace", "--html", "report.html")
        self.slipstream("doctor", "--", *command, any_status=True)
        self.slipstream("compare", "-n", "3", "--warmup", "0", "--", *command, any_status=True)
        # There is a journal when time is over; there is none when all was tried.
        self.slipstream("tune", "--budget", "1500ms", "--by", "wall", "-o", "tuned.toml", "--", *command)
        files = [path for path in self.place.rglob("*") if path.is_file()]
        self.assertLessEqual(
            {"log.txt", "summary.json", "run.sqlite", "run.json", "report.html", "tuned.toml", "tuned.toml.journal"},
            {path.name for path in files},
        )
        self.assertIn("train_loop", (self.place / "summary.json").read_text())
        self.assertIn("train_loop", next((self.place / "site").glob("*.json")).read_text())
        for path in files:
            self.assertNotIn(secret.encode(), path.read_bytes(), path)
        # Only who asks for it has it.
        named = ["bash", "-c", f"exec -a {secret} {BUILD}/examples/train_loop"]
        self.slipstream("run", "-o", "with", "--set", "tracer.command_line=true", "--", *named)
        self.assertIn(secret.encode(), next((self.place / "with").glob("*.spool")).read_bytes())

    def test_a_part_of_the_run(self):
        for options, window in (
            (["--steps", "2-4"], "steps 2-4"),
            (["--steps", "3"], "steps 0-2"),
            (["--steps", "5-,2-3"], "steps 5-,2-3"),
            (["--delay", "1m"], "seconds 60-"),
            (["--delay", "2s", "--duration", "1m"], "seconds 2-62"),
            (["--duration", "9"], "seconds 0-9"),
        ):
            with self.subTest(options):
                shell = ["sh", "-c", "echo $SLIPSTREAM_TRACER_RECORD, $SLIPSTREAM_TRACER_WINDOW"]
                done = self.slipstream("run", "--quiet", *options, "--", *shell)
                self.assertEqual(done.stdout, f"on, {window}\n")
        for options, said in (
            (["--steps", "x"], '--steps: "x" is no number of steps and no part, such as 100 or 10-20'),
            (["--steps", "0"], '--steps: "0" is no number of steps'),
            (["--steps", "3", "--delay", "2s"], "--steps excludes --delay"),
            (["--duration", "soon"], '--duration: "soon" is no time, such as 90, 90s, 10m or 1h30m'),
        ):
            with self.subTest(options):
                self.assertTrue(self.run_loop(*options, status=2).stderr.startswith(f"slipstream run: {said}"))


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
