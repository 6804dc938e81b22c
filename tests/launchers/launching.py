"""What the tests of launchers share: a command bare, with `slipstream run --` in front of it, and with that inside.

    test_NAME.py --build DIR [--torch DIR] [unittest's arguments]
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TRAIN = HERE / "programs" / "train.py"
CALLS = 4  # of each process of programs/train.py, at least
LIMIT_S = 60  # for whatever is waited for
HEAD = re.compile(r"^slipstream: (?:[\d,]+ CUDA calls|.* left no counts)", re.MULTILINE)
NO_SUITE = 77  # ctest: skipped

OPTIONS = argparse.Namespace(build=None, torch=None)


class Ended:
    """How a command ended: its status, what it wrote less slipstream's own lines, and what slipstream printed and left."""

    def __init__(self, status, out, err, folder):
        self.status = status
        self.out = sorted(without_ours(out).splitlines())
        self.err = without_ours(err)
        self.everything = out + err
        self.summaries = len(HEAD.findall(out + err))
        written = folder / "summary.json"
        self.summary = json.loads(written.read_text()) if written.exists() else None
        self.traces = sorted(folder.glob("slipstream-trace-*"))

        self.records = sum(len(list(trace.glob("*.spool"))) for trace in self.traces)

    def outcome(self):
        return {"status": self.status, "out": self.out, "err": self.err}


def without_ours(text):
    """Less the lines of slipstream's own, and those that go on from them."""
    kept, ours = [], False
    for line in text.splitlines(keepends=True):
        ours = line.startswith("slipstream: ") or (ours and line.startswith("  "))
        if not ours:
            kept.append(line)
    return "".join(kept)


def wait_until(what, condition):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not seen within {LIMIT_S} s: {what}")
        time.sleep(0.005)


def is_alive(pid):
    """Whether it is there and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def has(command):
    return shutil.which(command) is not None


def needs(*commands):
    """The test is skipped where one of them is not on the PATH."""
    missing = [command for command in commands if not has(command)]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class LauncherTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-launchers-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.runs = 0
        self.environment = {
            name: value for name, value in os.environ.items()
            if name == "SLURM_CONF" or not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "PYTHON", "OMPI_", "PMI", "SLURM_", "LD_"))
        }
        (self.folder / "home").mkdir()
        self.environment |= {
            "HOME": str(self.folder / "home"), "XDG_CONFIG_HOME": "/nonexistent",
            # What ends a killed run, maybe in the next test, saves no summary here.
            "XDG_STATE_HOME": "/dev/null/none", "SLIPSTREAM_SYSTEM_DIRECTORY": "",
            "LD_LIBRARY_PATH": str(OPTIONS.build / "sim"), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8",
            # Lines of documents name the command as its users do.
            "PATH": f"{OPTIONS.build}{os.pathsep}{os.environ['PATH']}",
        }
        self.train = [sys.executable, str(TRAIN)]

    def place(self):
        """An empty working directory, for one run."""
        self.runs += 1
        place = self.folder / f"run{self.runs}"
        place.mkdir()
        return place

    def start(self, command, place):
        return subprocess.Popen([str(word) for word in command], cwd=place, env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def finish(self, process, place):
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            self.fail(f"did not end within {LIMIT_S} s: {out}{err}")
        return Ended(process.returncode, out, err, place)

    def run_command(self, command):
        place = self.place()
        return self.finish(self.start(command, place), place)

    @staticmethod
    def run_words(*options):
        return ["slipstream", "run", *options, "--"]

    def assert_same(self, bare, other):
        self.assertEqual(bare.outcome(), other.outcome(), other.everything)

    def assert_seen(self, ended, processes):
        """One summary for all, with so many processes that made CUDA calls."""
        self.assertEqual(ended.summaries, 1, ended.everything)
        self.assertEqual(len(ended.summary["processes"]), processes, ended.everything)
        for process in ended.summary["processes"]:
            self.assertGreaterEqual(sum(function["calls"] for function in process["functions"]), CALLS)

    def both_ways(self, launcher, *, status=0, processes=1, arguments=()):
        """`launcher` makes a command of the program's words. Equal bare, in front and inside; every process is seen."""
        program = [*self.train, *arguments]
        bare = self.run_command(launcher(program))
        self.assertEqual(bare.status, status, bare.everything)
        self.assertEqual(len([line for line in bare.out if line.endswith(": good")]), processes, bare.everything)
        self.in_front(launcher(program), bare, processes)
        self.inside(launcher([*self.run_words(), *program]), bare, processes)

    def in_front(self, command, bare, processes):
        ended = self.run_command([*self.run_words("--summary", "summary.json"), *command])
        self.assert_same(bare, ended)
        self.assert_seen(ended, processes)

    def inside(self, command, bare, processes):
        """Each `slipstream run` prints a summary of its own."""
        ended = self.run_command(command)
        self.assert_same(bare, ended)
        self.assertEqual(ended.summaries, processes, ended.everything)

    def told(self, command, number, ranks, to_all):
        """Ends it by a signal, to the launcher or as a terminal does to its group, when every rank waits."""
        self.addCleanup(self.run_command, ["slipstream", "summary"])  # ends the run if it had no watcher
        place = self.place()
        process = self.start(command, place)
        flags = [place / f"ready-{rank}" for rank in ranks]
        try:
            wait_until("every rank", lambda: all(flag.exists() and flag.read_text() for flag in flags) or
                       process.poll() is not None)
            if process.poll() is not None:
                self.fail(f"ended before it was told to: {process.communicate()}")
            pids = [int(flag.read_text()) for flag in flags]
            (os.killpg if to_all else os.kill)(process.pid, number)
            ended = self.finish(process, place)
            wait_until("the end of every rank", lambda: not any(is_alive(pid) for pid in pids))
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        return ended

    def ended_by_signals(self, launcher, ranks, *, say_the_same=True, to_launcher=True, interrupt=True):
        """SIGTERM to the launcher, and Ctrl-C to all, end every rank as they do bare."""
        program = [*self.train, "--wait"]
        ways = [(signal.SIGTERM, False)] if to_launcher else [(signal.SIGTERM, True)]
        if interrupt:
            ways.append((signal.SIGINT, True))
        for number, to_all in ways:
            sides = {"bare": launcher(program), "in front": [*self.run_words(), *launcher(program)],
                     "inside": launcher([*self.run_words(), *program])}
            ended = {side: self.told(command, number, ranks, to_all) for side, command in sides.items()}
            for side in ("in front", "inside"):
                with self.subTest(signal=number.name, side=side):
                    if say_the_same:
                        self.assert_same(ended["bare"], ended[side])
                    else:
                        self.assertEqual((ended["bare"].status, ended["bare"].out), (ended[side].status, ended[side].out),
                                         ended[side].everything)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--torch", type=pathlib.Path)
    options, rest = parser.parse_known_args()
    OPTIONS.build = options.build.resolve()
    OPTIONS.torch = options.torch
    program = unittest.main(argv=[sys.argv[0], "--verbose", *rest], exit=False)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.skipped and len(result.skipped) >= result.testsRun:
        print("; ".join(sorted({reason for _, reason in result.skipped})))
        sys.exit(NO_SUITE)
