"""A CUDA program that copies memory of many sizes, on several streams and threads: under slipstream, and under
compute-sanitizer besides, which checks every access to device memory (memcheck) and to what the threads of a block
share (racecheck)."""

import contextlib
import dataclasses
import functools
import glob
import os
import pathlib
import re
import sqlite3
import threading

from . import harness
from .harness import GPU_TESTS, Failed, Skipped, needs_gpu
from .summary import expect_acted

EXPECTED = b"all bytes as expected"
FOUND_ERRORS = 9
COMMON_OPTIONS = ("--target-processes", "all", "--error-exitcode", str(FOUND_ERRORS), "--print-limit", "20")


@dataclasses.dataclass(frozen=True)
class Tool:
    """One of compute-sanitizer's."""

    name: str
    options: tuple
    wrong: str  # with which the program has what the tool finds
    summary: re.Pattern  # the number of findings, of one process that it watched to its end
    arguments: tuple = ()  # of the program that does well


# Errors that calls return are left out: asking the driver what a pointer is gives one for plain host memory, and the
# program looks at every result itself.
MEMCHECK = Tool("memcheck", ("--report-api-errors", "no"), "--out-of-bounds", re.compile(rb"ERROR SUMMARY: (\d+) error"))
RACECHECK = Tool(
    "racecheck",
    ("--racecheck-report", "all"),
    "--race",
    re.compile(rb"RACECHECK SUMMARY: (\d+) hazard"),
    arguments=("--few",),
)
# With no GPU of a kind named here the driver compiles for it at the start.
NVCC_OPTIONS = (
    *("-std=c++17", "-cudart", "shared", "-O1", "-lineinfo"),
    *("-gencode", "arch=compute_80,code=[sm_80,compute_80]", "-gencode", "arch=compute_90,code=sm_90"),
)


def toolkits(suite):
    """Folders in which a CUDA toolkit may lie, the ones that the user named first, PyTorch's packages last."""
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    usual = ["/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True), "/opt/cuda"]
    libcupti = suite.results.get("libcupti")
    packages = [str(pathlib.Path(libcupti).parents[1])] if libcupti else []
    return [pathlib.Path(folder) for folder in dict.fromkeys([*named, *usual, *packages]) if os.path.isdir(folder)]


def find_tool(suite, name):
    folders = [pathlib.Path(folder) for folder in os.get_exec_path()]
    for root in toolkits(suite):
        folders += [root / "bin", root / name, root / "extras" / name]
    for folder in folders:
        if (folder / name).is_file() and os.access(folder / name, os.X_OK):
            return folder / name
    return None


def library_path(suite):
    """LD_LIBRARY_PATH with the folders that have a libcudart, behind what the user has."""
    folders = [os.environ.get("LD_LIBRARY_PATH", "")]
    for root in toolkits(suite):
        for folder in (root / "lib64", root / "lib"):
            if glob.glob(str(folder / "libcudart.so.*")):
                folders.append(str(folder))
    return ":".join(filter(None, folders))


def summaries_of(tool, output):
    """The numbers of findings that it reports, one for each process that it watched to its end."""
    return [int(number) for number in tool.summary.findall(output)]


def first_finding(output):
    lines = [line[9:].strip() for line in output.decode(errors="replace").splitlines() if line.startswith("=========")]
    dull = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY")
    interesting = [line for line in lines if line and not line.startswith(dull)]
    return (interesting or lines or ["nothing"])[0][:200]


def result_line(output):
    """What the program itself printed, among the lines of the tool."""
    return [line for line in output.splitlines() if line.startswith(b"checksum ")]


def verdict(tool, result, expected_line):
    """None when the tool watched a program that did well; Failed when it found something; else why it shows nothing."""
    summaries = summaries_of(tool, result.stdout + result.stderr)
    if result.timed_out:
        return "did not end in time"
    if any(summaries) or result.status == FOUND_ERRORS:
        raise Failed(f"{tool.name} found errors: {first_finding(result.stdout + result.stderr)}")
    if not summaries:
        return f"{tool.name} watched nothing: {first_finding(result.stdout + result.stderr)}"
    if result.status != 0:
        return f"exit status {result.status}: {harness.last_line(result.stderr)}"
    if result_line(result.stdout) != expected_line:
        raise Failed(f"under {tool.name} the program printed {result_line(result.stdout)}, bare {expected_line}")
    return None


def newest_trace(folder):
    traces = sorted(glob.glob(str(folder / "slipstream-trace-*")), key=os.path.getmtime)
    if not traces:
        raise Failed("it left no trace")
    return traces[-1]


def devices_in_trace(suite, trace):
    """What a trace has of its devices, in words: kernels, nearly all with their call, or the reason why none are there."""
    database = pathlib.Path(trace) / "trace.sqlite"
    export = [suite.slipstream, "export", trace, "--sqlite", database, "--force"]
    suite.command("sanitizer", export, timeout=60).expect_success("slipstream export")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return devices_in(connection)


def devices_in(connection):
    """The same of its database."""
    kernels, with_call = 0, 0
    # A table that would have no rows is not there.
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'").fetchone():
        kernels, with_call = connection.execute(
            "SELECT count(*), count(c.correlationId) FROM CUPTI_ACTIVITY_KIND_KERNEL k "
            "LEFT JOIN SLIPSTREAM_CALLS c ON c.correlationId = k.correlationId"
        ).fetchone()
    facts = [value for (value,) in connection.execute("SELECT value FROM SLIPSTREAM_FACTS WHERE key = 'device_work'")]
    if kernels:
        # Of those that were on their way when a profiler came or went, the call is not known.
        if with_call < 0.9 * kernels:
            raise Failed(f"{kernels - with_call} of {kernels} kernels have no call")
        return f"{kernels} kernels, {with_call} of them with their call"
    if not facts or not all(fact.startswith("off: ") for fact in facts):
        raise Failed(f"the trace has no kernels and does not say why: {facts}")
    return f"no kernels ({facts[0]})"


class Program:
    """A CUDA program of tests/gpu/programs, carried in the build folder or compiled here, at the first use."""

    rehearses = False  # whether the build has it for the simulated device too, for a rehearsal

    def __init__(self, suite, name="copy_patterns", log="sanitizer", trial=()):
        """trial: arguments with which it runs for a moment, to see whether it does here."""
        self.suite = suite
        self.name = name
        self.log = log
        self.trial = trial
        self.env = {"LD_LIBRARY_PATH": library_path(suite) or None}
        self._lock = threading.Lock()

    def run(self, prefix=(), arguments=(), timeout=60, env=None):
        return self.suite.command(
            self.log,
            [*prefix, self.path(), *arguments],
            env=self.env | (env or {}),
            timeout=timeout,
            cwd=self._scratch(),
        )

    def _scratch(self):
        return self.suite.scratch(self.log)

    def path(self):
        with self._lock:
            return self._path

    @functools.cached_property
    def _path(self):
        return self._find()

    @property
    def simulated(self):
        return self.suite.build / "tests" / "gpu" / "sim" / self.name

    def _find(self):
        if self.rehearses and self.suite.rehearsal:
            if not os.access(self.simulated, os.X_OK):
                raise Skipped("a rehearsal, and the build has no program for the simulated device")
            return self.simulated
        carried = self.suite.build / "tests" / "gpu" / self.name
        if os.access(carried, os.X_OK):
            # It may have been linked for a CUDA that is not here.
            if self.suite.command(self.log, [carried, *self.trial], env=self.env, timeout=60).status == 0:
                return carried
        nvcc = find_tool(self.suite, "nvcc")
        if not nvcc:
            raise Skipped(f"the build has no {self.name} that runs here, and there is no nvcc to compile it")
        made = self._scratch() / self.name
        source = GPU_TESTS / "programs" / f"{self.name}.cu"
        result = self.suite.command(self.log, [nvcc, *NVCC_OPTIONS, "-o", made, source], timeout=120)
        if result.status != 0:
            raise Skipped(f"nvcc does not compile it here: {harness.last_line(result.stderr)}")
        return made

    @functools.lru_cache(maxsize=None)
    def bare_line(self, arguments=()):
        """What it prints without slipstream."""
        result = self.run(arguments=arguments).expect_success("bare")
        line = result_line(result.stdout)
        if len(line) != 1 or not line[0].endswith(EXPECTED):
            raise Failed(f"bare, it printed {result.stdout!r:.200}")
        return line


def watched(suite, program, data, policy=None, acted=expect_acted, kind=MEMCHECK, options=()):
    """The tool finds nothing in the program under slipstream, but does in a run that does wrong: a line of detail.

    policy: variables for the runs under slipstream, options: of slipstream run. acted(summary) says what slipstream did,
    or raises Failed.
    """
    # Of a few copies on a busy machine, all may be over before staging memory is there.
    policy = {"SLIPSTREAM_TRANSFER_START": "now"} | (policy or {})
    command = find_tool(suite, "compute-sanitizer")
    if not command:
        raise Skipped("no compute-sanitizer here")
    tool = [command, "--tool", kind.name, *kind.options, *COMMON_OPTIONS]
    expected = program.bare_line(kind.arguments)
    broken = program.run(tool, [kind.wrong], timeout=100)
    data["control"] = summaries_of(kind, broken.stdout + broken.stderr)
    if broken.status != FOUND_ERRORS:
        raise Skipped(
            f"{kind.name} does not find what {kind.wrong} does wrong here (exit status {broken.status}): "
            f"{first_finding(broken.stdout + broken.stderr)}"
        )
    if reason := verdict(kind, program.run(tool, kind.arguments, timeout=100), expected):
        raise Failed(f"bare: {reason}")
    reasons = []
    for order in ("slipstream run -- compute-sanitizer", "compute-sanitizer slipstream run"):
        summary = suite.scratch(program.log) / f"{kind.name}.{len(reasons)}.json"
        prefix = suite.run_prefix("--quiet", "--summary", summary, *options)
        outside_in = [*prefix, *tool] if order.startswith("slipstream") else [*tool, *prefix]
        reason = verdict(kind, program.run(outside_in, kind.arguments, timeout=100, env=policy), expected)
        if reason is None:
            try:
                did = acted(harness.read_json(summary, "summary"))
            except Failed as idle:
                reason = str(idle)
            else:
                data["order"] = order
                return f"{order}: no error, {expected[0].decode()}; {did}"
        reasons.append(f"{order}: {reason}")
    raise Failed("; ".join(reasons))


def checks(suite):
    program = Program(suite)

    def under(prefix, summary):
        """(line that it printed, what the engine did) in a run under slipstream."""
        result = program.run(prefix).expect_success("under slipstream")
        return result_line(result.stdout), expect_acted(harness.read_json(summary, "summary"))

    def copies(data):
        expected = program.bare_line()
        summary = suite.scratch("sanitizer") / "summary.json"
        line, acted = under(suite.run_prefix("--quiet", "--summary", summary), summary)
        data["decisions"] = harness.read_json(summary, "summary")["totals"].get("decisions", {})
        if line != expected:
            raise Failed(f"printed {line}, bare {expected}")
        return f"{line[0].decode()}, as bare; {acted}"

    def watching(kind):
        return needs_gpu(suite, lambda data: watched(suite, program, data, kind=kind))

    def recorded(data):
        """Both want the devices: the tool finds what it finds, and the trace says whether it has their work."""
        recording = Program(suite, log="sanitizer/recorded")
        text = watched(suite, recording, data, options=("--record",))
        return f"{text}; in the trace {devices_in_trace(suite, newest_trace(suite.scratch('sanitizer/recorded')))}"

    return [
        ("sanitizer.copies", needs_gpu(suite, copies)),
        *((f"sanitizer.{kind.name}", watching(kind)) for kind in (MEMCHECK, RACECHECK)),
        ("sanitizer.recorded", needs_gpu(suite, recorded)),
    ]
