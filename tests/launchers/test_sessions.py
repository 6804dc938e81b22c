"""What keeps an environment of its own, or looks at a program from outside: sudo, tmux, screen, notebooks, debuggers."""

import json
import os
import shlex
import shutil
import sys

from launching import LauncherTest, main, needs, wait_until


@needs("sudo")
class Sudo(LauncherTest):
    def test_resets_the_environment(self):
        """In front of sudo nothing is seen, and the summary says so; behind it all is. Here: for root, without a password."""
        libraries = f"LD_LIBRARY_PATH={self.environment['LD_LIBRARY_PATH']}"
        command = ["sudo", "-n", "env", libraries, *self.train]
        bare = self.run_command(command)
        if bare.status != 0:
            self.skipTest("sudo asks for a password")
        front = self.run_command([*self.run_words("--summary", "summary.json"), *command])
        self.assert_same(bare, front)
        self.assert_seen(front, 0)
        slipstream = os.path.join(self.environment["PATH"].split(os.pathsep)[0], "slipstream")
        inside = self.run_command(["sudo", "-n", "env", libraries, slipstream, "run", "--", *self.train])
        self.assert_same(bare, inside)
        self.assertEqual(inside.summaries, 1)


class Multiplexer(LauncherTest):
    """The server is started by the first call and keeps that one's environment. So slipstream belongs inside."""

    def look(self, start, stop):
        place = self.place()
        line = f"slipstream run --summary {place}/summary.json -- {shlex.join(self.train)} > {place}/out 2>&1; echo $? > {place}/status"
        try:
            started = self.finish(self.start(start(f"{line}.tmp; mv {place}/status.tmp {place}/status"), place), place)
            self.assertEqual(started.status, 0, started.everything)
            wait_until("the end of the window's command", (place / "status").exists)
        finally:
            self.finish(self.start(stop, place), place)
        self.assertEqual((place / "status").read_text(), "0\n", (place / "out").read_text())
        self.assertEqual(len(json.loads((place / "summary.json").read_text())["processes"]), 1)


@needs("tmux")
class Tmux(Multiplexer):
    def test_server_is_there(self):
        tmux = ["tmux", "-S", self.folder / "socket", "-f", "/dev/null"]
        place = self.place()
        # A server that was started before, by somebody without slipstream.
        self.finish(self.start([*tmux, "new-session", "-d", "-s", "first", "sh"], place), place)
        self.look(lambda line: [*tmux, "new-window", "-d", line], [*tmux, "kill-server"])


@needs("screen")
class Screen(Multiplexer):
    def test_window(self):
        self.environment["SCREENDIR"] = str(self.folder / "screens")
        (self.folder / "screens").mkdir(mode=0o700)
        self.look(lambda line: ["screen", "-dmS", "slipstream", "sh", "-c", line], ["screen", "-S", "slipstream", "-X", "quit"])


@needs("strace")
class Strace(LauncherTest):
    def test_status(self):
        self.both_ways(lambda program: ["strace", "-f", "-o", "calls", "-e", "trace=openat", *program], status=3,
                       arguments=["--fail", "3"])


@needs("gdb")
class Gdb(LauncherTest):
    def test_run(self):
        """gdb starts the program by a shell; `run` in it has the library either way."""
        command = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "run", "-ex",
                   "print $_exitcode", "--args"]
        bare = self.run_command([*command, *self.train, "--fail", "3"])
        self.assertIn("$1 = 3", bare.out)
        front = self.run_command([*self.run_words("--summary", "summary.json"), *command, *self.train, "--fail", "3"])
        self.assertIn("$1 = 3", front.out)
        self.assertIn("rank 0 of 1: good", front.out)
        self.assert_seen(front, 1)


class PythonDebugger(LauncherTest):
    def test_run(self):
        """pdb in front of the program, as `python -m pdb`; commands come from its arguments."""
        self.train[1:1] = ["-m", "pdb", "-c", "continue", "-c", "quit"]
        bare = self.run_command(self.train)
        front = self.run_command([*self.run_words("--summary", "summary.json"), *self.train])
        self.assert_same(bare, front)
        self.assert_seen(front, 1)


NOTEBOOK = {
    "cells": [{"cell_type": "code", "id": "one", "metadata": {}, "execution_count": None, "outputs": [],
               "source": "import sys\nsys.argv = ['train']\nsys.path.insert(0, FOLDER)\nimport train\nassert train.round_trip()\n"}],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
}


@needs("jupyter-execute")
class Notebooks(LauncherTest):
    """The kernel is a process of its own, which the server starts and ends."""

    def setUp(self):
        super().setUp()
        folder = os.path.dirname(self.train[1])
        notebook = json.dumps(NOTEBOOK).replace("FOLDER", f"{folder!r}")
        (self.folder / "train.ipynb").write_text(notebook)
        self.environment["IPYTHONDIR"] = str(self.folder / "ipython")
        self.environment["JUPYTER_DATA_DIR"] = str(self.folder / "jupyter")

    def execute(self, *words, kernel="python3"):
        ended = self.run_command([*words, "jupyter-execute", f"--kernel_name={kernel}", self.folder / "train.ipynb"])
        self.assertEqual(ended.status, 0, ended.everything)
        return ended

    def test_in_front(self):
        """One run for the server's whole life: the summary comes when it ends."""
        self.execute()
        self.assert_seen(self.execute(*self.run_words("--summary", "summary.json")), 1)

    def test_kernelspec(self):
        """A kernel of its own: each has a run of its own, whose summary `slipstream summary` prints."""
        kernel = self.folder / "jupyter" / "kernels" / "slipstream"
        kernel.mkdir(parents=True)
        python = os.path.join(os.path.dirname(shutil.which("jupyter-execute")), "python")
        argv = ["slipstream", "run", "--quiet", "--summary", str(self.folder / "kernel.json"), "--", python, "-m",
                "ipykernel_launcher", "-f", "{connection_file}"]
        (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python (slipstream)", "language": "python"}))
        self.execute(kernel="slipstream")
        summary = self.folder / "kernel.json"
        wait_until("the kernel's summary", summary.exists)
        self.assertEqual(len(json.loads(summary.read_text())["processes"]), 1)


@needs("uv")
class Uv(LauncherTest):
    def test_run(self):
        self.environment["UV_CACHE_DIR"] = str(self.folder / "uv")
        self.both_ways(lambda program: ["uv", "run", "--no-project", "--offline", "--python", sys.executable, *program], status=3,
                       arguments=["--fail", "3"])


if __name__ == "__main__":
    main()
