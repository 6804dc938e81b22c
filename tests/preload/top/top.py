"""top.py SLIPSTREAM TRACED LIBRARIES [--without-terminal] [--sanitized]: `slipstream top` on programs that run.

The programs do their calls when they are told to, and say when they are done, so that every figure is known beforehand.
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from screen import Screen

SLIPSTREAM, TRACED, LIBRARIES = sys.argv[1:4]
WITHOUT_TERMINAL = "--without-terminal" in sys.argv
SANITIZED = "--sanitized" in sys.argv
CALLS = 1000  # of TRACED, for each byte
LIMIT_S = 60  # not to wait for: what needs it has failed

# Three lines a step: at each byte one. Said is that a step has ended.
TRAIN = """\
import ctypes, os
ctypes.CDLL("libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(None)
memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(1 << 20))
batch = (ctypes.c_char * (1 << 20))()
while os.read(0, 1):
    cuda.cudaMemcpyAsync(memory, batch, ctypes.c_size_t(1 << 20), 1, None)
    cuda.cudaStreamSynchronize(None)
    for _ in range(3):
        cuda.cudaMemsetAsync(memory, 0, ctypes.c_size_t(64), None)
    os.write(1, b"x")
"""
STEP_LINE = 8


def variables(**more):
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")},
        "SLIPSTREAM_SYSTEM_DIRECTORY": "/nonexistent",
        "XDG_CONFIG_HOME": "/nonexistent",
        "LD_LIBRARY_PATH": LIBRARIES,
        "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        **more,
    }


class Run:
    """`slipstream run OPTIONS -- COMMAND`, which works when it is told to."""

    def __init__(self, place, options, command):
        self.process = subprocess.Popen([SLIPSTREAM, "run", *options, "--", *command], cwd=place, env=variables(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.pid = str(self.process.pid)

    def work(self, times=1):
        os.write(self.process.stdin.fileno(), b"x" * times)
        done = b""
        while len(done) < times:
            got = os.read(self.process.stdout.fileno(), times)
            assert got, "the program has ended"
            done += got

    def end(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        status = self.process.wait(LIMIT_S)
        self.process.stdout.close()
        return status


class State:
    """What can be seen of a process from outside, while it does nothing."""

    def __init__(self, pid):
        place = pathlib.Path("/proc") / pid
        # It has said that it is done, and goes to wait for the next byte.
        while (place / "stat").read_text().rpartition(")")[2].split()[0] != "S":
            pass
        self.descriptors = {name.name: os.readlink(name) for name in (place / "fd").iterdir()}
        self.reads_and_writes = (place / "io").read_text()
        self.threads = {}
        for task in (place / "task").iterdir():
            lines = (task / "status").read_text().splitlines()
            kept = ("TracerPid:", "SigPnd:", "ShdPnd:", "voluntary_ctxt_switches:")
            self.threads[task.name] = [line for line in lines if line.startswith(kept)]
        self.maps = (place / "maps").read_text()
        [self.run] = [word[len("SLIPSTREAM_RUN_DIRECTORY="):] for word in (place / "environ").read_text().split("\0")
                      if word.startswith("SLIPSTREAM_RUN_DIRECTORY=")]
        self.files = {entry.name: (entry.stat().st_size, entry.stat().st_mtime_ns, entry.stat().st_mode) for entry in os.scandir(self.run)}

    def tracers(self):
        return {line for lines in self.threads.values() for line in lines if line.startswith("TracerPid:")}


def top(*arguments, **more):
    return subprocess.run([SLIPSTREAM, "top", *arguments], env=variables(**more), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_S)


class Terminal:
    """`slipstream top` on a terminal: what it has written there, and what is seen of it."""

    def __init__(self, *arguments, rows=24, **more):
        self.master, self.slave = pty.openpty()
        self.screen = Screen(rows, 80)
        self.text = ""
        self.set_size()
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen([SLIPSTREAM, "top", *arguments], env=variables(**{"TERM": "xterm-256color", **more}),
                                        stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True)

    def set_size(self):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", self.screen.rows, self.screen.columns, 0, 0))

    def read(self, timeout_s):
        """Whether anything came in that time."""
        ready, _, _ = select.select([self.master], [], [], timeout_s)
        if ready:
            data = os.read(self.master, 65536)
            self.text += data.decode(errors="replace")
            self.screen.feed(data)
        return bool(ready)

    def seen(self):
        """The screen without most of its empty rows."""
        return re.sub(r"\n{4,}", "\n\n...\n\n", str(self.screen))

    def wait_for(self, what, is_shown):
        until = time.monotonic() + LIMIT_S
        while not is_shown():
            left_s = until - time.monotonic()
            assert left_s > 0 and self.read(left_s), f"{what} was never shown, but\n{self.seen()}"

    def shows(self, wanted):
        """Waits until what is wanted can be found on the screen."""
        self.wait_for(repr(wanted), lambda: re.search(wanted, str(self.screen)))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self.set_size()
        self.process.send_signal(signal.SIGWINCH)

    # Of the list of the machine:

    def row_of(self, pid):
        """The number of its row, or None."""
        return next((number for number, line in enumerate(self.screen.lines()) if line[1:8] == pid.rjust(7)), None)

    def selected(self):
        """The number of the row that is in reverse video, or None."""
        rows = self.screen.reversed_lines()
        return rows[0] if len(rows) == 1 else None

    def shows_selected(self, pid, keys):
        """Waits until the row of the process is the selected one, above a last line, which is drawn last, with those keys."""
        self.wait_for(f"process {pid} as the selected one of a list with {keys!r}",
                      lambda: self.row_of(pid) is not None and self.selected() == self.row_of(pid) and keys in self.screen.lines()[-1])

    def select(self, pid):
        """Nothing was selected before, so that the first row is marked, whichever that is."""
        self.wait_for(f"process {pid}", lambda: self.row_of(pid) is not None)
        # Others begin and end at any time. In a list that stands still it is known where the keys lead.
        self.press("p")
        self.wait_for("PAUSED", lambda: "PAUSED" in self.screen.lines()[0] and "go on" in self.screen.lines()[-1])
        down = self.row_of(pid) - self.selected()
        # There is nothing above the first row; yet it is selected then, and not only marked.
        self.press("j" * down if down != 0 else "k")
        self.shows_selected(pid, "go on")
        self.press("p")
        self.shows_selected(pid, "pause")

    def end(self):
        """(exit status, whether the terminal is as it was)"""
        until = time.monotonic() + LIMIT_S
        # What nobody reads it would wait with.
        while self.process.poll() is None:
            assert time.monotonic() < until, f"it does not end:\n{self.seen()}"
            self.read(0.05)
        while self.read(0):
            pass
        return self.process.returncode, termios.tcgetattr(self.slave) == self.before and self.text.rstrip().endswith(LEAVES)

    def close(self):
        self.process.kill()
        self.process.wait(LIMIT_S)
        os.close(self.slave)
        os.close(self.master)


# What an xterm is sent to have its old screen and its cursor keys back, and with it the end of the view.
LEAVES = "\x1b[?1l\x1b>"


class Top(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="slipstream-top-")
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    def run_program(self, options, command):
        run = Run(self.place, options, command)
        self.addCleanup(run.end)
        return run

    def run_top(self, *arguments, **more):
        terminal = Terminal(*arguments, **more)
        self.addCleanup(terminal.close)
        return terminal

    def test_calls_are_counted_to_the_last(self):
        run = self.run_program(["--quiet", "--summary", "s.json"], [TRACED, "steps"])
        run.work()
        watch = subprocess.Popen([SLIPSTREAM, "top", "--json", "--interval", "0.1", run.pid], env=variables(), stdout=subprocess.PIPE)
        first = json.loads(watch.stdout.readline())
        self.assertEqual(first["schema"], "slipstream-top-1")
        process = first["processes"][0]
        self.assertEqual(process["counters"]["total_calls"], CALLS)
        self.assertEqual(process["counters"]["all"]["calls"], 0)
        self.assertIsNone(process["trace"])
        self.assertTrue(process["alive"])
        run.work(3)
        calls, names = 0, set()
        while True:
            counters = json.loads(watch.stdout.readline())["processes"][0]["counters"]
            self.assertGreater(counters["seconds"], 0)
            calls += counters["all"]["calls"]
            names |= {function["name"] for function in counters["functions"]}
            if counters["total_calls"] == 4 * CALLS:
                break
        self.assertEqual(calls, 3 * CALLS)
        self.assertEqual(names, {"cudaPeekAtLastError"})
        # What is done at last is seen, and the end ends the watch.
        run.work()
        self.assertEqual(run.end(), 0)
        rest = [json.loads(line) for line in watch.stdout]
        watch.stdout.close()
        self.assertEqual(watch.wait(LIMIT_S), 0)
        self.assertEqual([look["ended"] for look in rest], [False] * (len(rest) - 1) + [True])
        self.assertFalse(rest[-1]["processes"][0]["alive"])
        self.assertEqual(rest[-1]["processes"][0]["counters"]["total_calls"], 5 * CALLS)
        self.assertEqual(sum(look["processes"][0]["counters"]["all"]["calls"] for look in rest if look["processes"][0]["alive"] or look is rest[-1]), CALLS)

    def test_all_processes_of_the_machine(self):
        runs = [self.run_program(["--quiet", "--summary", f"{name}.json"], [TRACED, "steps", name]) for name in ("one", "two")]
        for run in runs:
            run.work()
        look = top("--once", "--json", "--interval", "0.1")
        self.assertEqual((look.returncode, look.stderr), (0, ""))
        view = json.loads(look.stdout)
        self.assertEqual(view["schema"], "slipstream-top-1")
        self.assertFalse(view["ended"])
        # Other tests may run programs under slipstream at the same time.
        mine = {str(process["pid"]): process for process in view["processes"]}
        for run, name in zip(runs, ("one", "two")):
            process = mine[run.pid]
            self.assertEqual(process["command"], f"preload_traced steps {name}")
            self.assertEqual(process["counters"]["total_calls"], CALLS)
            self.assertEqual(process["recording"], "none")
            self.assertIn(process["directory"], view["directories"])
        self.assertNotEqual(mine[runs[0].pid]["directory"], mine[runs[1].pid]["directory"])
        look = top("--once", "--interval", "0.1")
        self.assertEqual((look.returncode, look.stderr), (0, ""))
        for run in runs:
            self.assertRegex(look.stdout, rf"(?m)^ +{run.pid} ")
        self.assertIn("not recorded: slipstream run --record", look.stdout)
        self.assertLessEqual(max(map(len, look.stdout.splitlines())), 80)
        self.assertNotIn("\x1b", look.stdout)

    @unittest.skipIf(SANITIZED, "a sanitizer's own thread wakes up now and then")
    # Somebody looks, and looks again: the program, which does nothing, does not so much as wake up.
    def test_the_program_does_not_notice(self):
        run = self.run_program(["--quiet", "--summary", "s.json"], [TRACED, "steps"])
        run.work()
        before = State(run.pid)
        for arguments in ((), (run.pid,)):
            watch = subprocess.Popen([SLIPSTREAM, "top", "--json", "--interval", "0.1", *arguments], env=variables(), stdout=subprocess.PIPE)
            for _ in range(3):
                self.assertIn(run.pid, [str(process["pid"]) for process in json.loads(watch.stdout.readline())["processes"]])
            opened = []
            for number in pathlib.Path(f"/proc/{watch.pid}/fd").iterdir():
                try:
                    path, flags = os.readlink(number), pathlib.Path(f"/proc/{watch.pid}/fdinfo/{number.name}").read_text()
                except FileNotFoundError:
                    continue  # of /proc: it is closed again
                if path.startswith(before.run + "/"):
                    opened.append(path)
                    self.assertEqual(int(re.search(r"flags:\s*(\d+)", flags)[1], 8) & os.O_ACCMODE, os.O_RDONLY, path)
            self.assertEqual(len(opened), 1, "the counters")
            self.assertEqual([line for line in pathlib.Path(f"/proc/{watch.pid}/maps").read_text().splitlines() if before.run in line], [])
            while_looked_at = State(run.pid)
            watch.kill()
            watch.stdout.close()
            watch.wait(LIMIT_S)
            self.assertEqual(vars(while_looked_at), vars(before))
            self.assertEqual(before.tracers(), {"TracerPid:\t0"})
        # What is compared would show it.
        run.work()
        self.assertNotEqual(vars(State(run.pid)), vars(before))

    def test_a_look_as_text(self):
        run = self.run_program(["--quiet", "--summary", "s.json"], [TRACED, "steps"])
        run.work()
        look = top("--once", "--interval", "0.1", run.pid)
        self.assertEqual((look.returncode, look.stderr), (0, ""))
        self.assertRegex(look.stdout, r"\Aslipstream top  preload_traced \(pid \d+\)")
        self.assertIn("steps    not recorded; start with: slipstream run --record", look.stdout)
        self.assertNotIn("\x1b", look.stdout)

    def test_before_the_first_call(self):
        run = self.run_program(["--quiet", "--summary", "s.json"], [TRACED, "steps"])
        # The command has begun when its directory is there; before that it is not under slipstream.
        look = top("--once", "--interval", "0.1", run.pid)
        while "is not under slipstream" in look.stderr:
            look = top("--once", "--interval", "0.1", run.pid)
        self.assertEqual(look.returncode, 0, look.stderr)
        self.assertIn("no CUDA call yet", look.stdout)

    @unittest.skipIf(SANITIZED, "a sanitizer's runtime would have to be in Python first")
    def test_steps_and_lines_of_a_python_program(self):
        (self.place / "train.py").write_text(TRAIN)
        run = self.run_program(["--record", "--quiet"], [sys.executable, "train.py"])
        run.work(20)
        watch = subprocess.Popen([SLIPSTREAM, "top", "--json", "--interval", "0.1", run.pid], env=variables(), stdout=subprocess.PIPE)
        self.addCleanup(watch.stdout.close)
        self.assertTrue(watch.stdout.readline())
        run.work(20)
        self.assertEqual(run.end(), 0)
        last = json.loads(watch.stdout.readlines()[-1])
        self.assertEqual(watch.wait(LIMIT_S), 0)
        self.assertTrue(last["ended"])
        trace = last["processes"][0]["trace"]
        self.assertTrue(trace["ended"])
        self.assertIsNone(trace["trouble"])
        self.assertEqual(trace["steps"]["seen"], 39)  # the last one has no end
        self.assertTrue(trace["steps"]["how"].endswith(f"train.py:{STEP_LINE}"), trace["steps"]["how"])
        lines = {line["line"]: line["calls"] for line in trace["lines"]}
        self.assertEqual({line: lines.get(line) for line in (STEP_LINE, STEP_LINE + 1, STEP_LINE + 3)}, {8: 40, 9: 40, 11: 120})
        # The trace stays, and is read by what reads whole ones.
        [directory] = self.place.glob("slipstream-trace-*")
        ended = top(str(directory))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("the run has ended", ended.stderr)
        self.assertIn(f"slipstream report {directory}", ended.stderr)

    def test_what_is_not_there_is_said(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        for arguments, said in (
            ([str(gone.pid)], f"no process {gone.pid} is here"),
            ([str(os.getpid())], "is not under slipstream"),
            ([str(self.place / "none")], "No such file or directory"),
            ([str(self.place)], "has ended"),
        ):
            look = top("--once", *arguments)
            self.assertEqual((look.returncode, look.stdout), (1, ""), said)
            self.assertIn(said, look.stderr)
        self.assertEqual(top("--interval", "0").returncode, 2)

    def test_without_counters(self):
        run = self.run_program(["--quiet"], [TRACED, "steps"])
        run.work()
        look = top("--once", run.pid)
        self.assertEqual(look.returncode, 1)
        self.assertIn("keeps no counters", look.stderr)

    @unittest.skipIf(WITHOUT_TERMINAL, "this build has no ncurses")
    def test_the_view_on_a_terminal(self):
        run = self.run_program(["--quiet", "--summary", "s.json"], [TRACED, "steps"])
        run.work()
        terminal = self.run_top(run.pid)
        terminal.shows(r"\Aslipstream top  preload_traced(?s:.)*not recorded(?s:.)* q quit.*\Z")
        self.assertIn("\x1b[36m", terminal.text)  # a color
        terminal.press("h")
        terminal.shows(r"\Aslipstream top: keys\n(?s:.)* back\Z")
        terminal.press("h")
        terminal.shows(r"\Aslipstream top  preload_traced(?s:.)*not recorded(?s:.)* help\Z")
        terminal.press("p")
        terminal.shows(r"\A.* PAUSED\n")
        terminal.resize(30, 100)
        terminal.wait_for("the keys in the last row", lambda: " q quit" in terminal.screen.lines()[29])
        self.assertNotEqual(termios.tcgetattr(terminal.slave), terminal.before)
        terminal.press("q")
        self.assertEqual(terminal.end(), (0, True), terminal.text[-200:])

    @unittest.skipIf(WITHOUT_TERMINAL, "this build has no ncurses")
    def test_the_machine_on_a_terminal(self):
        run = self.run_program(["--quiet", "--summary", "s.json"], [TRACED, "steps"])
        run.work()
        terminal = self.run_top(rows=300)  # for every run that tests beside this one have
        terminal.select(run.pid)
        terminal.press("\r")
        terminal.shows(rf"\Aslipstream top  preload_traced \(pid {run.pid}\)(?s:.)* esc all .*\Z")
        terminal.press("\x1b")
        terminal.shows_selected(run.pid, "detail")
        # However few rows there are, the one that is selected is among them.
        terminal.resize(30, 160)
        terminal.shows(r"\n +pid .* hottest line\n")
        terminal.shows_selected(run.pid, "detail")
        terminal.press("q")
        self.assertEqual(terminal.end(), (0, True), terminal.text[-200:])

    @unittest.skipIf(WITHOUT_TERMINAL, "this build has no ncurses")
    def test_signals_and_the_end_restore_the_terminal(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            run = self.run_program(["--quiet", "--summary", "s.json"], [TRACED, "steps"])
            run.work()
            terminal = self.run_top(run.pid, NO_COLOR="1")
            terminal.shows(r"\n q quit")
            terminal.process.send_signal(number)
            self.assertEqual(terminal.end(), (-number, True), terminal.text[-200:])
            self.assertNotIn("\x1b[36m", terminal.text)
            run.end()

    @unittest.skipIf(WITHOUT_TERMINAL, "this build has no ncurses")
    def test_the_end_of_the_run_stays_on_the_screen(self):
        run = self.run_program(["--quiet", "--summary", "s.json"], [TRACED, "steps"])
        run.work()
        terminal = self.run_top("--interval", "0.1", run.pid)
        terminal.shows(r"\n q quit")
        run.end()
        terminal.shows(r"\Aslipstream top .* THE RUN HAS ENDED\n")
        self.assertIsNone(terminal.process.poll())
        terminal.press("q")
        self.assertEqual(terminal.end(), (0, True))

    @unittest.skipIf(WITHOUT_TERMINAL, "this build has no ncurses")
    def test_a_terminal_that_nobody_knows(self):
        run = self.run_program(["--quiet", "--summary", "s.json"], [TRACED, "steps"])
        run.work()
        terminal = self.run_top("--interval", "0.1", run.pid, TERM="no-such-terminal")
        # What is written so goes up the screen, and away.
        for wanted in ("text instead", "not recorded"):
            terminal.wait_for(wanted, lambda: wanted in terminal.text)
        terminal.process.send_signal(signal.SIGINT)
        self.assertEqual(terminal.end()[0], -signal.SIGINT)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
