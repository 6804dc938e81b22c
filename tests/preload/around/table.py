#!/usr/bin/env python3
"""What is around a command, bare and under `slipstream run`: every case on real processes, and on a real pseudo-terminal
where one matters. Nothing may differ but the lines that slipstream prints itself (S68).

    table.py SLIPSTREAM PROBE CUDA_PROGRAM [--only NAME] [--checkpoints N] [--torch DIR --build DIR]

With the folder of PyTorch (tools/setup --torch) and that of the build, torchrun is a case too. Prints a line for each
case with what was seen on either side. Exit status: 0 all equal; 1 something differs.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

LIMIT = 60  # seconds, for whatever is waited for
PR_SET_CHILD_SUBREAPER = 36
TIOCGPTN = 0x80045430  # the number of a terminal's other side
CASES = {}


class Skip(Exception):
    """Why a case cannot be run here."""


def case(function):
    CASES[function.__name__] = function
    return function


class Side:
    """A way to start a command, and a folder for it to leave things in."""

    def __init__(self, name, options, arguments, variables):
        self.name = name
        self.options = options
        self.arguments = arguments
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="around-"))
        self.work = self.folder / "work"
        self.work.mkdir()
        (self.folder / "home").mkdir()
        (self.folder / "tmp").mkdir()
        self.environment = {
            **os.environ,
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CONFIG_HOME": "/nonexistent",
            "SLIPSTREAM_SYSTEM_DIRECTORY": "/nonexistent",
            "SLIPSTREAM_RUN_WATCHER": "on",
            **variables,
        }

    @property
    def bare(self):
        return self.options is None

    def words(self, *command):
        command = [str(word) for word in command]
        return command if self.bare else [self.arguments.slipstream, "run", *self.options, "--", *command]

    def text(self, *command):
        """For a shell."""
        return " ".join(self.words(*command))

    def start(self, *command, **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("cwd", self.work)
        options.setdefault("env", self.environment)
        return subprocess.Popen(self.words(*command), text=True, **options)

    def finish(self, process):
        out, err = process.communicate(timeout=LIMIT)
        return {"status": process.returncode, "out": out, "err": self.without_ours(err or "")}

    def run(self, *command, **options):
        return self.finish(self.start(*command, **options))

    def shell(self, script, **options):
        """A script of bash that holds the command's text."""
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.work, env=self.environment, text=True, capture_output=True, timeout=LIMIT,
            stdin=subprocess.DEVNULL, check=False, **options)
        return {"status": done.returncode, "out": self.without_ours(done.stdout), "err": self.without_ours(done.stderr)}

    @staticmethod
    def without_ours(text):
        """Less the lines of slipstream's own, and those that go on from them."""
        kept = []
        ours = False
        for line in text.splitlines(keepends=True):
            ours = line.startswith("slipstream: ") or (ours and line.startswith("  "))
            if not ours:
                kept.append(line)
        return "".join(kept)

    def left(self):
        """What is left in the working directory and in the place for temporary files, but for the traces asked for."""
        names = [path.name for path in self.work.iterdir() if not path.name.startswith("slipstream-trace-")]
        names += [path.name for path in (self.folder / "tmp").iterdir()]
        return sorted(names)

    def traces(self):
        return sorted(self.work.glob("slipstream-trace-*"))

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_until(what, condition):
    """Until it holds; there is an end to it, for a failure."""
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not seen within {LIMIT} s: {what}")
        time.sleep(0.002)


def read_line(stream):
    line = stream.readline()
    if not line:
        raise AssertionError("the command ended before it was ready")
    return line.strip()


def ready(process):
    assert read_line(process.stdout) == "ready"


def is_alive(pid):
    """Whether it is there and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def reap():
    """Collects what was left to us."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def processes_with(text):
    """Those whose command line holds it, but for this one."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in line:
            found.append(int(entry.name))
    return found


class Terminal:
    """A command that leads a session on a terminal of its own."""

    def __init__(self, side, *command):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(side.work)
                words = side.words(*command)
                os.execvpe(words[0], words, side.environment)
            finally:
                os._exit(98)
        self.text = ""

    def read_until(self, part):
        end = time.monotonic() + LIMIT
        while part not in self.text:
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"{part!r} was not printed: {self.text!r}")
            try:
                self.text += os.read(self.master, 4096).decode()
            except OSError as error:  # the other side is closed
                raise AssertionError(f"{part!r} was not printed: {self.text!r}") from error

    def type(self, text):
        os.write(self.master, text.encode())

    def close(self):
        os.close(self.master)
        self.master = -1

    def wait(self):
        status = {}

        def ended():
            pid, how = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                status["status"] = os.waitstatus_to_exitcode(how)
            return pid != 0

        try:
            wait_until("the end of the command on the terminal", ended)
        except AssertionError:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise
        if self.master >= 0:
            self.close()
        return status["status"]


# ---- What the command is


@case
def facts(side):
    """Parent, group, session, terminal, signals, limits, descriptors, children and variables."""
    return side.run(side.arguments.probe, "facts", start_new_session=True)


@case
def facts_in_a_group(side):
    """The same where a shell with job control has made the group, and with signals ignored and blocked from outside."""

    def prepare():
        os.setpgid(0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGCHLD, signal.SIGTERM})
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.nice(3)
        os.umask(0o027)

    return side.run(side.arguments.probe, "facts", preexec_fn=prepare)


@case
def pid(side):
    """The number is the one that was started."""
    process = side.start("sh", "-c", "echo $$ $PPID")
    seen = side.finish(process)
    return {"status": seen["status"], "same": seen["out"].split() == [str(process.pid), str(os.getpid())]}


@case
def found_once(side):
    """Who looks for the command by its words finds it once."""
    mark = f"mark-{side.name}-{os.getpid()}"
    process = side.start("sh", "-c", f"echo ready; read line; : {mark}", stdin=subprocess.PIPE)
    ready(process)
    found = processes_with(mark)
    seen = side.finish(process)
    return {"found": len(found), "it is the command": found == [process.pid], "status": seen["status"]}


@case
def ends(side):
    """Every way to end."""
    seen = {}
    for name, script in {
        "exit 0": "exit 0", "exit 3": "exit 3", "exit 255": "exit 255", "TERM": "kill -TERM $$", "KILL": "kill -KILL $$",
        "INT": "kill -INT $$", "SEGV": "kill -SEGV $$",
    }.items():
        for shell in ("sh", "bash"):
            seen[f"{shell} {name}"] = side.run(shell, "-c", f"echo out; echo err >&2; {script}")
    for name, script in {
        "exit": "import sys; print('out'); sys.exit(4)", "_exit": "import os; os._exit(5)", "error": "raise KeyError(1)",
        "interrupt": "raise KeyboardInterrupt",
    }.items():
        seen[f"python {name}"] = side.run("python3", "-c", script)
    return seen


# ---- H1 to H5: signals


@case
def h01_hang_up(side):
    """The terminal is closed: the command ends by SIGHUP, and nobody is left."""
    mark = f"hangup-{side.name}-{os.getpid()}"
    terminal = Terminal(side, "sh", "-c", f"echo ready; while :; do sleep 0.01; done; : {mark}")
    terminal.read_until("ready")
    terminal.close()
    status = terminal.wait()
    wait_until("the end of every process", lambda: not [one for one in processes_with(mark) if is_alive(one)])
    return {"status": status}


@case
def h02_own_group(side):
    """A command that makes a group of its own has the terminal's input, and its Ctrl-C."""
    terminal = Terminal(side, side.arguments.probe, "input")
    terminal.read_until("ready")
    terminal.type("hello\n")
    terminal.read_until("line hello")
    terminal.type("\x03")
    terminal.read_until("interrupted")
    return {"status": terminal.wait()}


@case
def h02_timeout(side):
    """timeout(1), which makes a group of its own."""
    return {"ended": side.run("timeout", "60", "sh", "-c", "exit 3"), "in time": side.run("timeout", "0.1", "sleep", "60")}


@case
def h03_signals_of_errors(side):
    """What a watchdog sends to a job that hangs."""
    seen = {}
    for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGTRAP, signal.SIGFPE, signal.SIGILL,
                   signal.SIGSYS, signal.SIGPIPE):
        process = side.start(side.arguments.probe, "crash")
        ready(process)
        process.send_signal(number)
        seen[number.name] = side.finish(process)
    script = "import faulthandler, time; faulthandler.enable(); print('ready', flush=True); time.sleep(60)"
    process = side.start("python3", "-c", script)
    ready(process)
    process.send_signal(signal.SIGABRT)
    done = side.finish(process)
    seen["faulthandler"] = {"status": done["status"], "printed": "Fatal Python error: Aborted" in done["err"]}
    return seen


@case
def h04_counted_once(side):
    """A signal to the group, or to the command, comes once."""
    seen = {}
    for name, send in {"group": os.killpg, "command": os.kill}.items():
        process = side.start(side.arguments.probe, "count", start_new_session=True)
        ready(process)
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGWINCH, signal.SIGUSR1):
            send(process.pid, number)
            assert read_line(process.stdout) == number.name[3:]
        send(process.pid, signal.SIGQUIT)
        seen[name] = side.finish(process)
    return seen


@case
def h04_checkpoints(side):
    """SIGTERM to the group, at which the command saves a checkpoint: a second one would kill it."""
    whole = 0
    for number in range(side.arguments.checkpoints):
        path = side.work / f"checkpoint-{number}"
        process = side.start(side.arguments.probe, "checkpoint", path, start_new_session=True)
        ready(process)
        os.killpg(process.pid, signal.SIGTERM)
        if side.finish(process)["status"] == 0 and path.stat().st_size == 200 * len("piece\n"):
            whole += 1
    return {"whole": f"{whole} of {side.arguments.checkpoints}"}


@case
def h05_stopped(side):
    """Stopped and continued, by whoever."""
    process = side.start(side.arguments.probe, "count", start_new_session=True)
    ready(process)
    seen = []
    for send in (os.kill, os.killpg):
        send(process.pid, signal.SIGSTOP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        seen.append(os.WIFSTOPPED(status))
        send(process.pid, signal.SIGCONT)
        _, status = os.waitpid(process.pid, os.WCONTINUED)
        seen.append(os.WIFCONTINUED(status))
        assert read_line(process.stdout) == "CONT"
    process.send_signal(signal.SIGQUIT)
    return {"seen": seen, **side.finish(process)}


# ---- H6 to H15: the end, and what is missing


@case
def h07_nobody_reads(side):
    """The summary goes nowhere, and the status stays."""
    command = side.text("sh", "-c", "'echo out; exit 5'")
    return {
        "head": side.shell(f"{command} 2>&1 | head -1; echo ${{PIPESTATUS[0]}}"),
        "closed": side.shell(f"{command} 2>&-; echo $?"),
        "full": side.shell(f"{command} 2>/dev/full; echo $?"),
        "no file may grow": side.shell(f"(ulimit -f 0; {command}); echo $?"),
        "unread": side.shell(f"{command} 2> >(exec sleep 0); echo $?"),
    }


@case
def h07_order(side):
    """What the program has written, with stdio too, stands before the summary."""
    log = side.work / "log"
    seen = side.shell(f"{side.text(side.arguments.program, 'workload')} > {log} 2>&1; echo $?")
    text = log.read_text(encoding="utf-8")
    log.unlink()
    if not side.bare and "--quiet" not in side.options:
        assert re.search(r"^slipstream: [\d,]+ CUDA calls", text, re.MULTILINE), text
    return {**seen, "log": side.without_ours(text), "first is ours": text.startswith("slipstream: ")}


@case
def h08_few_descriptors(side):
    command = side.text("sh", "-c", "'echo out; exit 5'")
    return {str(limit): side.shell(f"ulimit -n {limit}; exec {command}") for limit in (4, 5, 6, 7, 8, 16)}


@case
def h08_no_process(side):
    """No other process may be made."""
    if os.geteuid() == 0:
        return as_nobody(side, "ulimit -u 0; ")
    return side.shell(f"ulimit -u 0; exec {side.text('/bin/true')}")


def as_nobody(side, limits):
    for path in (side.folder, *side.folder.rglob("*")):
        os.chmod(path, 0o777)
    reach = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "test", "-x", side.arguments.slipstream],
                           check=False)
    if reach.returncode != 0:
        raise Skip("another user cannot reach the build")
    words = " ".join(side.words("/bin/echo", "out"))
    return side.shell(f"exec setpriv --reuid 65534 --clear-groups bash -c '{limits}exec {words}'")


@case
def h09_no_proc(side):
    """Without /proc nothing is looked for in the working directory."""
    planted = side.work / "lib"
    planted.mkdir()
    (planted / "libslipstream.so").write_text("planted", encoding="utf-8")
    script = f"mount -t tmpfs none /proc && cd {side.work} && exec {side.text('sh', '-c', chr(39) + 'echo out; exit 5' + chr(39))}"
    able = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/proc"], capture_output=True, check=False)
    if able.returncode != 0:
        raise Skip("no mount namespace may be made")
    return side.shell(f"exec unshare -m sh -c \"{script}\"")


@case
def h10_no_directory(side):
    """The working directory was removed."""
    before = sorted(os.listdir("/"))
    seen = side.shell(f"mkdir gone; cd gone; rmdir ../gone; exec {side.text('sh', '-c', chr(39) + 'exit 5' + chr(39))}")
    for trace in (side.folder / "tmp").glob("slipstream-trace-*"):
        shutil.rmtree(trace)
    return {**seen, "made in /": sorted(set(os.listdir("/")) - set(before))}


@case
def h11_error_closed(side):
    """Standard error is closed: no other file gets what is meant for it."""
    data = side.work / "data"
    seen = side.shell(f"{side.text('sh', '-c', chr(39) + 'exec 2>data; echo mine >&2' + chr(39))} 2>&-; echo $?")
    text = data.read_text(encoding="utf-8")
    data.unlink()
    return {**seen, "data": text}


@case
def h15_daemon(side):
    """A process that outlives the command makes nothing again."""
    done = side.work / "done"
    script = f"(setsid sh -c 'read line < go; {side.arguments.program} workload > /dev/null; touch {done}' > /dev/null 2>&1 &)"
    os.mkfifo(side.work / "go")
    seen = side.run("sh", "-c", script)
    traces = side.traces()
    for trace in traces:
        shutil.rmtree(trace)
    (side.work / "go").write_text("go\n", encoding="utf-8")
    wait_until("the daemon's end", done.exists)
    (side.work / "go").unlink()
    done.unlink()
    return {**seen, "made again": [trace.name for trace in side.traces()]}


# ---- Launchers


@case
def launchers(side):
    """Pids, groups and statuses behind what people start commands with."""
    makefile = side.work / "Makefile"
    echo = "'echo \"$$RANK\"; exit 0'"
    makefile.write_text(
        "all: " + " ".join(f"job{number}" for number in range(6)) + "\n"
        + "".join(f"job{number}:\n\t@RANK={number} {side.text('sh', '-c', echo)} > {number}.out 2>/dev/null\n"
                  for number in range(6)),
        encoding="utf-8")
    one = side.text("sh", "-c", "'exit 3'")
    seen = {
        "make -j": side.shell("make -s -j4 && cat ?.out; rm -f ?.out Makefile"),
        "xargs -P8": side.shell(f"seq 16 | xargs -P8 -I{{}} {side.text('sh', '-c', chr(34) + 'exit 0' + chr(34))}; echo $?"),
        "timeout": side.shell(f"timeout 60 {one}; echo $?"),
        "nohup": side.shell(f"nohup {one} < /dev/null > /dev/null 2>&1; echo $?"),
        "setsid": side.shell(f"setsid -w {one}; echo $?"),
        "env": side.shell(f"env A=b {side.text('sh', '-c', chr(39) + 'echo $A' + chr(39))}"),
        "pipeline": side.shell(f"set -o pipefail; seq 3 | {side.text('cat')} | wc -l; {one} | cat; echo $?"),
        "background": side.shell(f"{one} & wait $!; echo $?"),
        "wait for all": side.shell(f"{side.text('bash', '-c', chr(39) + 'true & true & wait; exit 4' + chr(39))}; echo $?"),
        "nested": side.shell(f"{side.text('sh', '-c', chr(34) + one + chr(34))}; echo $?"),
    }
    if shutil.which("script"):
        seen["script"] = {"status": side.shell(f"script -qec \"{one}\" /dev/null < /dev/null")["status"]}
    return seen


@case
def srun_like(side):
    """A launcher that starts a group for each rank, and ends them by their groups."""
    ranks = [side.start(side.arguments.probe, "count", start_new_session=True,
                        env={**side.environment, "RANK": str(rank)}) for rank in range(4)]
    for process in ranks:
        ready(process)
    for process in ranks:
        os.killpg(process.pid, signal.SIGTERM)
        assert read_line(process.stdout) == "TERM"
        os.killpg(process.pid, signal.SIGQUIT)
    return {str(rank): side.finish(process) for rank, process in enumerate(ranks)}


RANK_TEXT = """
import os, signal, sys
watched = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
signal.pthread_sigmask(signal.SIG_BLOCK, watched)  # in every thread that PyTorch makes, too
import torch, torch.distributed as dist
rank, what = int(os.environ["RANK"]), sys.argv[1]
dist.init_process_group("gloo")
total = torch.full((4,), rank + 1.0).cuda().cpu()
dist.all_reduce(total)
group = "own" if os.getpgrp() == os.getpid() else "its parent's"
session = "own" if os.getsid(0) == os.getpid() else "its parent's"
with open(f"rank-{rank}", "w") as file:
    print("of", os.environ["WORLD_SIZE"], "sum", total.tolist(), "group", group, "session", session, file=file)
if what == "fails" and rank == 1:
    os._exit(3)
if what != "ends":
    open(f"ready-{rank}", "w").close()
    came = [signal.sigwait(watched).name] + sorted(one.name for one in signal.sigpending())
    with open(f"rank-{rank}", "a") as file:
        print(*came, file=file)
dist.barrier() if what == "ends" else None
os._exit(0)
"""


def places_of(pids):
    """Of each of their threads, the place where it waits."""
    lines = []
    for pid in pids:
        try:
            tasks = sorted(pathlib.Path(f"/proc/{pid}/task").iterdir())
            lines += [f"{pid}/{task.name} {(task / 'comm').read_text().strip()} {(task / 'syscall').read_text().strip()} "
                      f"{(task / 'wchan').read_text()}" for task in tasks]
        except OSError:  # it ends
            pass
    return lines


def finish_or_tell(side, process):
    """What a command did; of one that does not end, the stacks of its Python threads."""
    try:
        return side.finish(process)
    except subprocess.TimeoutExpired:
        pids = processes_with(str(side.folder))  # torchrun and its ranks, and nobody else's
        left = places_of(pids)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it ends
                os.kill(pid, signal.SIGABRT)  # PYTHONFAULTHANDLER
        _, err = process.communicate(timeout=LIMIT)
        raise AssertionError("\n".join([f"not over within {LIMIT} s:", *left, err[-8000:]])) from None


@case
def torchrun(side):
    """Ranks of torchrun, which gives each a session of its own and ends them all when one fails or it is told to end."""
    arguments = side.arguments
    if not arguments.torch:
        raise Skip("no --torch")
    python = (arguments.torch / "python").read_text(encoding="utf-8").strip()
    ranks = side.folder / "rank.py"
    ranks.write_text(RANK_TEXT, encoding="utf-8")
    side.environment |= {
        "PYTHONPATH": str(arguments.torch / "site-packages"), "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "LD_LIBRARY_PATH": f"{arguments.build / 'sim'}:{arguments.torch / 'stand-ins'}", "OMP_NUM_THREADS": "1",
        "SIMCUDA_KERNELS": "empty", "GLOO_SOCKET_IFNAME": "lo", "PYTHONFAULTHANDLER": "1",
    }
    seen = {}
    for what in ("ends", "fails", "told"):
        process = side.start(python, "-B", "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1",
                             "--nproc-per-node=2", ranks, what, start_new_session=True)
        if what == "told":
            flags = [side.work / f"ready-{rank}" for rank in range(2)]
            wait_until("both ranks", lambda: all(flag.exists() for flag in flags) or process.poll() is not None)
            process.send_signal(signal.SIGTERM)
        done = finish_or_tell(side, process)
        # What torchrun says of itself has times and numbers of processes in it.
        ranks_said = sorted(side.work.glob("rank-*"))
        seen[what] = {"status": done["status"],
                      "ranks": {path.name: path.read_text(encoding="utf-8") for path in ranks_said}}
        for path in [*ranks_said, *side.work.glob("ready-*")]:
            path.unlink()
        for path in (side.folder / "tmp").glob("torchelastic_*"):  # it leaves its logs
            shutil.rmtree(path)
        if not seen[what]["ranks"]:
            raise AssertionError(f"no rank ran: {done['err'][-2000:]}")
    return seen


torchrun.sides = ("bare", "run", "record")  # each takes seconds to import PyTorch

# ---- What holds under slipstream alone


def run_directories():
    """Everybody's."""
    places = [pathlib.Path("/dev/shm"), pathlib.Path("/tmp")]
    return [path for place in places if place.is_dir() for path in place.glob("slipstream-run-*")]


def run_directories_of(root):
    """Those of the run whose command is that process."""
    found = []
    for path in run_directories():
        try:
            state = json.loads((path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # somebody else's that begins or ends
            continue
        if state["root"] == root:
            found.append(path)
    return found


def held_by(pid, descriptor):
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:  # it ends
        return ""


def check_watcher(arguments):
    """It holds nothing of the command's, lives in a session of its own, and ends the run of a command that is killed."""
    side = Side("watcher", ["--summary", "summary.json"], arguments, {})
    process = side.start("sh", "-c", f"{arguments.program} workload > /dev/null; echo ready; read line",
                         stdin=subprocess.PIPE, start_new_session=True)
    ready(process)
    (directory,) = run_directories_of(process.pid)
    watchers = [one for one in processes_with("slipstream-watcher") if held_by(one, "1") == str(directory)]
    assert len(watchers) == 1, watchers
    watcher = watchers[0]
    links = {name: os.readlink(f"/proc/{watcher}/fd/{name}") for name in sorted(os.listdir(f"/proc/{watcher}/fd"))}
    assert sorted(links) == ["0", "1", "2"] and "pidfd" in links["0"] and links["1"] == links["2"], links
    assert os.getsid(watcher) not in (os.getsid(0), process.pid)
    assert os.readlink(f"/proc/{watcher}/cwd") == "/"
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        os.kill(watcher, number)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_until("the watcher's end", lambda: reap() or not is_alive(watcher))
    assert not directory.exists()
    summary = json.loads((side.work / "summary.json").read_text(encoding="utf-8"))
    assert summary["exit_status"] is None and summary["processes"], summary
    again = subprocess.run([arguments.slipstream, "summary"], env=side.environment, capture_output=True, text=True,
                           check=False)
    assert again.returncode == 0 and "was killed, or left without exiting" in again.stdout, again
    assert "CUDA calls" in again.stdout, again.stdout
    one = subprocess.run([arguments.slipstream, "summary", str(process.pid), "--json"], env=side.environment,
                         capture_output=True, text=True, check=False)
    assert json.loads(one.stdout) == summary, one
    side.remove()


def check_both_killed(arguments):
    """The watcher is killed as well: whoever comes next ends the run."""
    side = Side("killed", [], arguments, {"SLIPSTREAM_RUN_WATCHER": "off"})
    process = side.start("sh", "-c", f"{arguments.program} workload > /dev/null; echo ready; read line",
                         stdin=subprocess.PIPE)
    ready(process)
    (directory,) = run_directories_of(process.pid)
    ask = [arguments.slipstream, "summary"]
    # While it lives nobody ends it.
    alive = subprocess.run(ask, env=side.environment, capture_output=True, text=True, check=False)
    assert alive.returncode == 1 and directory.is_dir(), alive
    process.kill()
    process.wait()
    answers = []

    def answered():  # another test's run may be ending it just now
        answers.append(subprocess.run(ask, env=side.environment, capture_output=True, text=True, check=False))
        return answers[-1].returncode == 0

    wait_until("the summary", answered)
    assert "CUDA calls" in answers[-1].stdout, answers
    assert not directory.exists()
    side.remove()


def check_recorded_and_killed(arguments):
    """The same of a run that records: its trace stays, and loses what only the end of the run needed."""
    side = Side("recorded", ["--record"], arguments, {"SLIPSTREAM_RUN_WATCHER": "off"})
    process = side.start("sh", "-c", f"{arguments.program} workload > /dev/null; echo ready; read line",
                         stdin=subprocess.PIPE)
    ready(process)
    (trace,) = side.traces()
    ask = [arguments.slipstream, "summary"]
    alive = subprocess.run(ask, cwd=side.work, env=side.environment, capture_output=True, text=True, check=False)
    assert alive.returncode == 1 and (trace / "run.json").exists(), alive
    process.kill()
    process.wait()
    # As another machine's, which may go on there: it is not ours to end.
    state = (trace / "run.json").read_text(encoding="utf-8")
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    assert boot in state, state
    (trace / "run.json").write_text(state.replace(boot, boot[::-1]), encoding="utf-8")
    foreign = subprocess.run(ask, cwd=side.work, env=side.environment, capture_output=True, text=True, check=False)
    assert foreign.returncode == 1 and (trace / "run.json").exists(), foreign
    (trace / "run.json").write_text(state, encoding="utf-8")
    after = subprocess.run(ask, cwd=side.work, env=side.environment, capture_output=True, text=True, check=False)
    assert after.returncode == 0 and "CUDA calls" in after.stdout and str(trace) in after.stdout, after
    assert [path.suffix for path in trace.iterdir()] == [".spool"], list(trace.iterdir())
    side.remove()


def check_killed_by_itself(arguments):
    """A command that kills itself, as Python and shells do behind a Ctrl-C, has its summary where it was started."""
    for number, words in (
            (2, ["python3", "-c", "import subprocess, sys; subprocess.run(sys.argv[1:]); raise KeyboardInterrupt",
                 arguments.program, "workload"]),
            (2, ["sh", "-c", f"{arguments.program} workload; kill -INT $$"]),
            (15, ["bash", "-c", f"{arguments.program} workload; kill $$"]),
            (9, ["bash", "-c", f"{arguments.program} workload; kill -KILL $$"]),
            (10, ["python3", "-c", "import signal, subprocess, sys; subprocess.run(sys.argv[1:]); signal.raise_signal(10)",
                  arguments.program, "workload"])):
        side = Side("itself", ["--summary", "s.json"], arguments, {"SLIPSTREAM_RUN_WATCHER": "off"})
        process = side.start(*words)
        _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == -number, (words, process.returncode)
        assert "CUDA calls" in err, (words, err)
        assert not run_directories_of(process.pid), words
        summary = json.loads((side.work / "s.json").read_text(encoding="utf-8"))
        assert summary["exit_status"] == 128 + number and summary["processes"], (words, summary["exit_status"])
        side.remove()
    # What does not end the process does not end its run.
    for script in ("trap 'echo came' TERM; kill $$", "trap '' TERM; kill $$", "kill -0 $$", "kill -CHLD $$; kill -WINCH $$",
                   "sleep 60 & kill $!; wait $!", "(kill $BASHPID); true"):
        side = Side("goes on", ["--summary", "s.json"], arguments, {"SLIPSTREAM_RUN_WATCHER": "off"})
        process = side.start("bash", "-c", f"{script}; {arguments.program} workload; exit 3")
        _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 3 and "CUDA calls" in err, (script, process.returncode, err)
        assert json.loads((side.work / "s.json").read_text(encoding="utf-8"))["exit_status"] == 3, script
        side.remove()
    blocked = "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); os.kill(os.getpid(), 15); os._exit(4)"
    side = Side("blocked", ["--summary", "s.json"], arguments, {"SLIPSTREAM_RUN_WATCHER": "off"})
    assert side.run("python3", "-c", blocked)["status"] == 4
    assert json.loads((side.work / "s.json").read_text(encoding="utf-8"))["exit_status"] == 4
    side.remove()


def check_killed_on_a_terminal(arguments):
    """The summary of a command that is killed comes to the terminal that it was started from."""
    side = Side("terminal", [], arguments, {})
    terminal = Terminal(side, "sh", "-c", f"{arguments.program} workload > /dev/null; echo ready; (kill -9 $$); :")
    terminal.read_until("ready")
    number = struct.unpack("i", fcntl.ioctl(terminal.master, TIOCGPTN, struct.pack("i", 0)))[0]
    keep = os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY)  # as a shell would
    terminal.read_until("CUDA calls")
    os.close(keep)
    assert terminal.wait() == -signal.SIGKILL
    side.remove()


def check_summary_file(arguments):
    """H14: a file that is there stays as it is until there is a summary; one that cannot be written is said."""
    side = Side("file", ["--summary", "s.json"], arguments, {})
    path = side.work / "s.json"
    path.write_text("before\n", encoding="utf-8")
    process = side.start("sh", "-c", "echo ready; read line; exit 3", stdin=subprocess.PIPE)
    ready(process)
    assert path.read_text(encoding="utf-8") == "before\n"
    side.finish(process)
    assert json.loads(path.read_text(encoding="utf-8"))["exit_status"] == 3
    path.write_text("before\n", encoding="utf-8")
    assert side.run("no-such-command-anywhere")["status"] == 127
    assert path.read_text(encoding="utf-8") == "before\n"
    # H11
    side.shell(f"exec {side.text('true')} 2>&-")
    assert json.loads(path.read_text(encoding="utf-8"))["exit_status"] == 0
    assert side.left() == ["s.json"], side.left()
    side.remove()


def check_policy_in_mid_run(arguments):
    """H13: every process of a run has the policy that it began with; one that cannot be read any more too."""
    side = Side("policy", ["--policy", "p.toml", "--summary", "s.json"], arguments, {})
    policy = side.work / "p.toml"
    policy.write_text('version = 1\n[tracer]\ncounters = "calls"\n', encoding="utf-8")
    one = f"{arguments.program} workload > /dev/null"
    process = side.start("sh", "-c", f"{one}; echo ready; read line; {one}; echo ready; read line; {one}", stdin=subprocess.PIPE)
    ready(process)
    policy.write_text('version = 1\nenabled = false\n', encoding="utf-8")
    process.stdin.write("go\n")
    process.stdin.flush()
    ready(process)
    policy.unlink()
    process.stdin.write("go\n")
    process.stdin.flush()
    seen = side.finish(process)
    assert seen["status"] == 0, seen
    processes = json.loads((side.work / "s.json").read_text(encoding="utf-8"))["processes"]
    assert len(processes) == 3, processes
    assert all(one["facts"]["policy"] == str(policy) for one in processes), processes
    assert all(function["time_ns"] == 0 for one in processes for function in one["functions"]), processes
    side.remove()


CHECKS = [check_policy_in_mid_run, check_watcher, check_both_killed, check_recorded_and_killed, check_killed_by_itself,
          check_killed_on_a_terminal, check_summary_file]


def short(value):
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def differences(bare, other, path=""):
    if isinstance(bare, dict) and isinstance(other, dict):
        return [line for key in sorted({*bare, *other})
                for line in differences(bare.get(key), other.get(key), f"{path}/{key}")]
    return [] if bare == other else [f"{path}: bare {bare!r}, here {other!r}"]


def look_at(name, arguments):
    """The lines of one case, and whether all is equal."""
    lines = []
    good = True
    bare = None
    for side_name, options in {"bare": None, "run": [], "record": ["--record"], "quiet": ["--quiet"],
                               "summary": ["--summary", "/dev/null"]}.items():
        if side_name not in getattr(CASES[name], "sides", (side_name,)):
            continue
        side = Side(side_name, options, arguments, {})
        try:
            seen = CASES[name](side)
            seen["left"] = side.left()
            reap()
        except Skip as why:
            return [f"{name}: skipped: {why}"], True
        except (AssertionError, subprocess.TimeoutExpired, OSError) as error:
            lines.append(f"{name} {side_name}: {type(error).__name__}: {error}")
            good = False
            continue
        finally:
            side.remove()
        seen = json.loads(json.dumps(seen, default=str).replace(str(side.folder), "FOLDER"))
        if side.bare:
            bare = seen
            continue
        found = differences(bare, seen)
        good = good and not found
        lines += [f"{name} {side_name}{line}" for line in found]
    verdict = "same" if good else "DIFFERENT"
    return [f"{verdict:9} {name:24} {short(bare)}", *lines], good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("slipstream")
    parser.add_argument("probe")
    parser.add_argument("program")
    parser.add_argument("--only")
    parser.add_argument("--checkpoints", type=int, default=200)
    parser.add_argument("--torch", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--build", type=lambda path: pathlib.Path(path).resolve())
    arguments = parser.parse_args()
    for name in ("slipstream", "probe", "program"):
        setattr(arguments, name, os.path.abspath(getattr(arguments, name)))
    # What the commands leave comes to us, as it would to the first process of a machine.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    good = True
    for name in CASES:
        if arguments.only and arguments.only not in name:
            continue
        start = time.monotonic()
        lines, same = look_at(name, arguments)
        good = good and same
        print("\n".join(lines), f"({time.monotonic() - start:.1f} s)", flush=True)
    for check in CHECKS:
        if arguments.only and arguments.only not in check.__name__:
            continue
        try:
            check(arguments)
            print("good     ", check.__name__, flush=True)
        except (AssertionError, OSError, subprocess.TimeoutExpired, ValueError) as error:
            good = False
            print("FAILED   ", check.__name__, type(error).__name__, error, flush=True)
        reap()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
