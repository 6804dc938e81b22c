"""Runs commands and checks, keeps their logs and outcomes.

A check is a function that returns a line of detail (a pass), or raises Failed or Skipped. Threading: checks of one
group may run side by side; Suite.record and Suite.log_command are safe to call from any of them.
"""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import selectors
import signal
import subprocess
import tarfile
import threading
import time
import traceback

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
GPU_TESTS = REPOSITORY / "tests" / "gpu"
# Groups that run only where --only names them: each needs the time of all the others.
ON_REQUEST = (
    "advice",
    "allocator",
    "blocks",
    "children",
    "conformance",
    "devices",
    "distributed",
    "fragmentation",
    "gains",
    "keys",
    "ladder",
    "nsight",
    "older",
    "peers",
    "profilers",
    "replay",
    "rules",
    "samples",
    "soak",
    "steady",
    "tuned",
    "unrecorded",
    "workloads",
)
SCHEMA = "slipstream-gpu-results-1"

# Everything off, and: nothing done about what the program calls, but all of it counted.
OFF_POLICY = """version = 1

[allocator]
mode = "off"

[transfer]
h2d = "off"
d2h = "off"

[tracer]
counters = "off"
nvtx = false
"""
COUNTING_POLICY = """version = 1

[allocator]
mode = "off"

[transfer]
h2d = "off"
d2h = "off"
"""


class Failed(Exception):
    """The check ran and what it claims does not hold."""


class Skipped(Exception):
    """The check cannot run here; the text says why."""


@dataclasses.dataclass
class Result:
    status: int  # as a shell shows it: 128 + n for a process that signal n ended
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool = False

    def expect_success(self, what):
        if self.timed_out:
            raise Failed(f"{what}: did not end in time")
        if self.status != 0:
            raise Failed(f"{what}: exit status {self.status}: {last_line(self.stderr) or last_line(self.stdout)}")
        return self


def last_line(output):
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def shell_status(returncode):
    return 128 - returncode if returncode < 0 else returncode


def clean_environment():
    """This process's environment without what would steer slipstream or a profiler behind the suite's back."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLIPSTREAM_", "CUDA_INJECTION", "NVTX_INJECTION", "CUPTI_COUNT_"))
        and name not in ("LD_PRELOAD", "CUDA_LAUNCH_BLOCKING")
    }


def environment_with(changes):
    """The clean environment with changes; a value of None removes a variable."""
    environment = clean_environment()
    for name, value in (changes or {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = str(value)
    return environment


class Suite:
    """Paths, settings and outcomes of one run of the suite."""

    def __init__(self, options, workdir):
        self.build = pathlib.Path(options.build).resolve()
        self.out = pathlib.Path(options.out).resolve()
        self.python = options.python
        self.rehearsal = options.rehearse
        self.device = "cpu" if options.rehearse else "cuda"
        self.quick = options.quick
        self.only = [name for name in (options.only or "").split(",") if name]
        # What single groups take: checkouts of CUDA's samples and of PyTorch's examples; how long to soak, and what earlier
        # stretches came to.
        self.samples = getattr(options, "samples", None)
        self.examples = getattr(options, "examples", None)
        self.soak_minutes = getattr(options, "minutes", None) or 4.0
        self.soak_state = getattr(options, "soak_state", None)
        self.slipstream = self.build / "slipstream"
        self.library = self.build / "libslipstream.so"
        older = getattr(options, "older", None)
        self.older = pathlib.Path(older).resolve() if older else None
        self.workdir = pathlib.Path(workdir)
        self.logs = self.workdir / "logs"
        self.logs.mkdir()
        self.started = time.monotonic()
        self.deadline = self.started + options.budget
        # Two commands at a time on two cores, twelve on sixteen: beyond that they would only time each other out.
        self.slots = threading.BoundedSemaphore(max(2, min(12, (os.cpu_count() or 2) * 3 // 4)))
        self.results = {
            "schema": SCHEMA,
            "rehearsal": self.rehearsal,
            "complete": False,
            "checks": [],
            "benchmarks": [],
        }
        # Reentrant: a signal handler of the main thread calls stop() while that thread may be in record().
        self._lock = threading.RLock()
        self._children = set()
        self._stopping = False

    # -- settings

    def remaining(self):
        return max(0.0, self.deadline - time.monotonic())

    def wanted(self, name):
        """--only takes groups, checks and what their names begin with: `inert`, `inert.bash`, `counts.lm`."""
        if not self.only:
            return name.split(".")[0] not in ON_REQUEST
        return any(f"{name}.".startswith(only + ".") or only.startswith(name + ".") for only in self.only)

    def scratch(self, name):
        directory = self.workdir / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def run_prefix(self, *options):
        return [str(self.slipstream), "run", *map(str, options), "--"]

    def policy(self, name, text):
        """A policy file with this text. Checks that run side by side may ask for the same one."""
        path = self.scratch("policies") / f"{name}.toml"
        partial = path.with_suffix(f".{threading.get_ident()}")
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
        return path

    # -- commands

    def command(self, log, argv, *, env=None, timeout=120, cwd=None, stdin=None, most_output=None):
        """Runs argv to its end in a process group of its own, which is killed when the time is over.

        env is added to the clean environment; a value of None removes a variable. most_output: bytes after which the
        process is killed as well, for programs that may print a line for every wrong byte; such a one reads no stdin.
        """
        argv = [str(part) for part in argv]
        with self.slots:
            result = self._run(argv, environment_with(env), timeout, cwd, stdin, most_output)
        self.log_command(log, argv, env, result)
        return result

    def _run(self, argv, environment, timeout, cwd, stdin, most_output):
        timeout = max(1.0, min(timeout, self.remaining()))
        start = time.monotonic()
        process = self.spawn(
            argv, environment, cwd=cwd, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL
        )
        timed_out = False
        try:
            if most_output is not None:
                stdout, stderr, timed_out = self._bounded(process, start + timeout, most_output)
            else:
                stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            self.kill_group(process)
            stdout, stderr = process.communicate()
        finally:
            self.forget(process)
        return Result(shell_status(process.returncode), stdout, stderr, time.monotonic() - start, timed_out)

    def _bounded(self, process, deadline, most_output):
        """(stdout, stderr, whether the time was over) of a process that is killed at the deadline or beyond that output."""
        parts = {process.stdout: bytearray(), process.stderr: bytearray()}
        timed_out = too_much = False
        with selectors.DefaultSelector() as selector:
            for stream in parts:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map() and not timed_out and not too_much:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                timed_out = not ready
                for key, _ in ready:
                    if part := os.read(key.fd, 1 << 16):
                        parts[key.fileobj] += part
                    else:
                        selector.unregister(key.fileobj)
                too_much = sum(map(len, parts.values())) > most_output
        if too_much:
            parts[process.stderr] += f"\nended by the suite: more than {most_output} bytes of output\n".encode()
        if timed_out or too_much:
            self.kill_group(process)
            process.wait()
        try:
            # Its output may be closed before it has ended.
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            timed_out = True
            self.kill_group(process)
            process.wait()
        for stream in parts:
            stream.close()
        return bytes(parts[process.stdout]), bytes(parts[process.stderr]), timed_out

    def spawn(self, argv, environment, *, cwd=None, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE):
        """A process in a group of its own, known to the suite so that an interrupted suite ends it."""
        with self._lock:
            if self._stopping:
                raise Failed("the suite was interrupted")
            process = subprocess.Popen(
                [str(part) for part in argv],
                env=environment,
                cwd=cwd,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
            self._children.add(process)
        return process

    def kill_group(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def forget(self, process):
        # What the command left running in its group ends with it.
        self.kill_group(process)
        with self._lock:
            self._children.discard(process)

    def stop(self):
        """Ends every command that runs now and lets none start."""
        with self._lock:
            self._stopping = True
            children = list(self._children)
        for process in children:
            self.kill_group(process)

    def log_command(self, name, argv, env, result):
        path = self.logs / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"$ {' '.join(f'{key}={value}' for key, value in (env or {}).items())} {' '.join(argv)}\n"
        text += f"exit status {result.status}{' (out of time)' if result.timed_out else ''}, {result.seconds:.2f} s\n"
        for title, output in (("stdout", result.stdout), ("stderr", result.stderr)):
            text += f"---- {title}\n{output.decode(errors='replace')}"
        with self._lock, open(path, "a", encoding="utf-8") as file:
            file.write(text + "\n")

    # -- checks

    def run_checks(self, checks, parallel=False):
        """checks: list of (name, function). Outcomes are printed and recorded as they come."""
        checks = [(name, function) for name, function in checks if self.wanted(name)]
        if parallel:
            with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
                for future in [pool.submit(self._check, name, function) for name, function in checks]:
                    future.result()
        else:
            for name, function in checks:
                self._check(name, function)

    def _check(self, name, function):
        start = time.monotonic()
        data = {}
        try:
            if self.remaining() <= 0:
                raise Failed("not run: the time of the suite was over")
            outcome, detail = PASS, function(data) or ""
        except Skipped as reason:
            outcome, detail = SKIP, str(reason)
        except Failed as reason:
            outcome, detail = FAIL, str(reason)
        except Exception as error:  # pylint: disable=broad-except
            # An error of the suite itself: the claim is not shown, so it is a failure, with all there is to find it by.
            outcome, detail = FAIL, f"error in the suite: {error!r}"
            (self.logs / f"{name}.traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
        self.record(name, outcome, detail, time.monotonic() - start, data)

    def record(self, name, outcome, detail, seconds, data):
        entry = {"name": name, "outcome": outcome, "detail": detail, "seconds": round(seconds, 3)}
        if data:
            entry["data"] = data
        with self._lock:
            self.results["checks"].append(entry)
            print(f"{outcome}  {name:<34} {seconds:6.1f} s  {detail}", flush=True)
            self._write()

    def add_benchmark(self, benchmark):
        with self._lock:
            self.results["benchmarks"].append(benchmark)
            self._write()

    def _write(self):
        # After every check, so that a suite that is killed leaves what it had.
        path = self.out / "results.json"
        partial = path.with_suffix(".json.new")
        # Results are kept and compared: where the project lay on this machine is nobody's business.
        text = json.dumps(self.results, indent=1).replace(f"{REPOSITORY}/", "")
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, path)

    def finish(self, complete):
        with self._lock:
            self.results["complete"] = complete
            self.results["seconds"] = round(time.monotonic() - self.started, 1)
            self._write()
        with tarfile.open(self.out / "logs.tar.gz", "w:gz") as archive:
            archive.add(self.logs, arcname="logs")

    def outcomes(self):
        with self._lock:
            return [check["outcome"] for check in self.results["checks"]]


def gpus(suite):
    """How many there are."""
    return len(suite.results.get("machine", {}).get("gpus", []))


def needs_gpu(suite, check):
    """The check, skipped in a rehearsal."""

    def guarded(data):
        if suite.rehearsal:
            raise Skipped("needs a GPU")
        return check(data)

    return guarded


def read_json(path, what):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise Failed(f"{what}: {error}") from None


def prepare_out(out):
    """Makes the folder for results and removes what an earlier run of the suite left in it, nothing else."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for name in ("results.json", "logs.tar.gz"):
        (out / name).unlink(missing_ok=True)
    return out
