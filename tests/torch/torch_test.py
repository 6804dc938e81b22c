#!/usr/bin/env python3
"""Runs a program of this folder with real PyTorch on the simulated device, bare or under slipstream, and checks the run.

    torch_test.py --build DIR --torch DIR --out DIR PROGRAM CONFIGURATION

The configuration `bare` comes first: it leaves the program's output and exit status in OUT, and every other one is
compared with that. Exit status: 0 good, 1 not, 77 there is no PyTorch (tools/setup --torch brings it).
"""

import argparse
import contextlib
import dataclasses
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT_S = 280
RUNTIME = "libcudart.so.13"  # unless the folder of PyTorch names another one in its file "runtime" (versions.py)

OFF = {"SLIPSTREAM_TRANSFER_H2D": "off", "SLIPSTREAM_TRANSFER_D2H": "off", "SLIPSTREAM_ALLOCATOR_MODE": "off"}

# name -> (file, arguments, exit status, environment)
FAULTS = ("numbers", "fields", "timed", "data", "storage", "augmented", "remade", "anomalies")
PROGRAMS = {
    "copies": ("copies.py", [], 0, {}),
    "ordering": ("ordering.py", [], 0, {}),
    "memory": ("memory.py", [], 5, {}),
    "memory_uncaught": ("memory.py", ["--to-the-end"], 1, {}),
    "memory_expandable": ("memory.py", [], 5, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "memory_async": ("memory.py", [], 5, {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "grow": ("grow.py", [], 0, {}),
    "steady": ("steady.py", [], 0, {}),
    "profiled": ("profiled.py", [], 0, {}),
    "loader": ("loader.py", [], 0, {}),
    "exits": ("exits.py", [], 0, {"PYTHONWARNINGS": "ignore"}),
    "blocks": ("blocks.py", [], 0, {"PYTHONWARNINGS": "ignore"}),
    **{f"faulty_{fault}": ("faulty.py", [fault], 0, {"SIMCUDA_MODE": "timed"}) for fault in FAULTS},
    # A warning of every process would mix with another's.
    "workers": ("children.py", ["--workers"], 0, {"PYTHONWARNINGS": "ignore"}),
    "programs": ("children.py", ["--programs"], 0, {"PYTHONWARNINGS": "ignore"}),
}


class Wrong(Exception):
    """What a run should have been and was not."""


@dataclasses.dataclass
class Configuration:
    environment: dict = dataclasses.field(default_factory=dict)
    options: tuple = ()
    checks: tuple = ()
    says_more: bool = False  # a line of slipstream's own about the trace may stand on stderr


@dataclasses.dataclass
class Run:
    status: int
    stdout: str
    stderr: str
    summary: dict
    counts: list  # one for every process that the simulator has counted in
    folder: pathlib.Path
    build: pathlib.Path
    runtime: str

    def decisions(self, beginning):
        """Calls that the decisions of this name, or whose names go on from it, were made about."""
        return sum(
            found["count"]
            for process in self.summary["processes"]
            for name, found in process["decisions"].items()
            if name == beginning or name.startswith(beginning + "."))

    def calls(self):
        found = {}
        for process in self.summary["processes"]:
            for function in process["functions"]:
                found[function["name"]] = found.get(function["name"], 0) + function["calls"]
        return found


def bound(run):
    """slipstream was in front of the runtime that PyTorch uses."""
    if not run.summary["processes"]:
        raise Wrong("the summary has no process")
    for process in run.summary["processes"]:
        paths = [runtime["path"] for runtime in process["runtimes"]]
        if paths != [str(run.build / "sim" / run.runtime)]:
            raise Wrong(f"bound to {paths}")
    if run.calls().get("cudaMemcpyAsync", 0) == 0:
        raise Wrong("no copy was seen")


def some(*names):
    def check(run):
        for name in names:
            if run.decisions(name) == 0:
                raise Wrong(f"nothing was decided by {name}: {[p['decisions'] for p in run.summary['processes']]}")
    return check


def none(*names):
    def check(run):
        for name in names:
            if run.decisions(name) != 0:
                raise Wrong(f"{run.decisions(name)} decisions by {name}")
    return check


def hooked(library):
    """The functions of CUDA that the library exports and counts. It only looks at what start-up code registers, and at who asks
    for a function of the driver."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {name for name in re.findall(r" T (_*cu\w+)", listing)
            if ("Register" not in name or "Host" in name) and not name.startswith("cudaGetDriverEntryPoint")}


def every_call(run):
    """With the engines off, every hooked function was seen as often as the device's library was called."""
    ours = hooked(run.build / "libslipstream.so")
    device = {}
    for counted in run.counts:
        for name, calls in counted.get(run.runtime, {}).items():
            if name in ours:
                device[name] = device.get(name, 0) + calls
    seen = {name: calls for name, calls in run.calls().items() if calls}
    wrong = [f"{name}: {seen.get(name, 0)} seen, {device.get(name, 0)} made" for name in sorted({*seen, *device})
             if seen.get(name, 0) != device.get(name, 0)]
    if wrong or len(seen) < 15:
        raise Wrong("; ".join(wrong) or f"only {sorted(seen)}")


def lines(run):
    """The trace has the line of the program of every copy of a thread that runs Python."""
    (trace,) = glob.glob(str(run.folder / "slipstream-trace-*"))
    database = run.folder / "trace.sqlite"
    subprocess.run([run.build / "slipstream", "export", trace, "--sqlite", database], check=True, capture_output=True)
    query = """SELECT s.file, s.line, count(*) FROM SLIPSTREAM_CALLS c
      JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) JOIN StringIds n ON n.id = r.nameId
      LEFT JOIN SLIPSTREAM_SITES s USING (siteId) WHERE n.value LIKE 'cudaMemcpyAsync%' GROUP BY s.file, s.line"""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(query).fetchall()
        (dropped,) = connection.execute("SELECT sum(dropped) FROM SLIPSTREAM_PROCESSES").fetchone()
    source = (HERE / "copies.py").read_text().splitlines()
    copying = re.compile(r"\.(cuda|cpu|to|copy_|item|load|save|load_state_dict)\(")
    wrong = []
    for file, line, count in rows:
        if file is None or line is None or os.path.realpath(file) != str(HERE / "copies.py"):
            wrong.append(f"{count} at {file}:{line}")
        elif not copying.search(source[line - 1]):
            wrong.append(f"{count} at line {line}, which is {source[line - 1].strip()!r}")
    recorded = sum(count for _, _, count in rows)
    if dropped:
        wrong.append(f"{dropped} records dropped")
    if recorded != run.calls()["cudaMemcpyAsync"]:
        wrong.append(f"{recorded} copies in the trace, {run.calls()['cudaMemcpyAsync']} counted")
    if len(rows) < 30:
        wrong.append(f"only {len(rows)} lines")
    if wrong:
        raise Wrong("; ".join(wrong))


def stacks(run):
    """With whole stacks: the native one of every copy goes through PyTorch to the thread's first function."""
    lines(run)
    calls = """SELECT nativeStackId, stackId IS NOT NULL, count(*) FROM SLIPSTREAM_CALLS c
      JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) JOIN StringIds n ON n.id = r.nameId
      WHERE n.value LIKE 'cudaMemcpyAsync%' GROUP BY 1, 2"""
    frames = """SELECT stackId, parentId, isCut, isFunction, a.name, m.path FROM SLIPSTREAM_STACKS
      JOIN SLIPSTREAM_ADDRESSES a USING (addressId) LEFT JOIN SLIPSTREAM_MODULES m USING (moduleId)"""
    with contextlib.closing(sqlite3.connect(run.folder / "trace.sqlite")) as connection:
        copies = connection.execute(calls).fetchall()
        frame_of = {stack: frame for stack, *frame in connection.execute(frames)}
    wrong = []
    for stack, has_python, count in copies:
        files, functions, cut = [], [], stack is None
        while stack is not None:
            stack, is_cut, is_function, name, path = frame_of[stack]
            cut = cut or bool(is_cut)
            files.append(os.path.basename(path or ""))
            functions.append(name if is_function else None)
        if cut or not has_python or "libtorch_cuda.so" not in files or functions[-1] not in ("_start", "__clone3", "clone3"):
            wrong.append(f"{count} copies with a stack cut: {cut}, Python's: {has_python}, {list(zip(files, functions))}")
    # A function of Python that calls another one is no further native frame, so there are fewer than lines.
    if wrong or len(copies) < 10:
        raise Wrong("; ".join(wrong) or f"only {len(copies)} stacks")


def used_by(processes):
    """So many processes used CUDA with the library, and more than half of them had copies promoted before they ended."""
    def check(run):
        used = run.summary["processes"]
        promoting = [one for one in used if any(name.startswith("transfer.h2d.promoted") for name in one["decisions"])]
        if len(used) != processes or len(promoting) <= processes / 2:
            raise Wrong(f"{len(used)} processes, not {processes}; {len(promoting)} promoted")
    return check


def children(without, processes):
    """Which children had the library: all but those whose names match; and as many processes used CUDA with it."""
    def check(run):
        found = {path.stem: "libslipstream.so" in path.read_text() for path in run.folder.glob("*.maps")}
        wrong = [name for name, has in found.items() if has == bool(re.fullmatch(without, name))]
        if wrong or len(found) < 5:
            raise Wrong(f"with the library or without it, and should not be: {sorted(wrong)} of {sorted(found)}")
        used = len(run.summary["processes"])
        if used != processes:
            raise Wrong(f"{used} processes used CUDA with the library, not {processes}")
    return check


OF_BATCHES = ("loader-in-process", "loader-wait", "batch-on-step-thread", "loader-remade", "stalls", "host-bound", "too-many-workers")


def advised(run):
    """`slipstream advise` finds what is wrong with the program, at the lines that say so."""
    (trace,) = glob.glob(str(run.folder / "slipstream-trace-*"))
    answer = subprocess.run([run.build / "slipstream", "advise", trace, "--json"], check=True, capture_output=True)
    findings = json.loads(answer.stdout)
    fault = run.folder.name.removeprefix("faulty_").partition(".")[0]
    source = (HERE / "faulty.py").read_text().splitlines()
    wanted = {number: match.groups("") for number, line in enumerate(source, 1)
              if (match := re.search(rf"# {fault}: ([a-z-]+)(?: \((.+)\))?$", line))}
    ((rule, words),) = set(wanted.values())
    found = {place["line"] for one in findings["advice"] if one["rule"] == rule and words in one["finding"] for place in one["places"]
             if os.path.realpath(place["file"]) == str(HERE / "faulty.py")}
    # Of rules about who makes the batch, it is the first. About others the simulated device knows too little.
    of_batches = [one["rule"] for one in findings["advice"] if one["rule"] in OF_BATCHES]
    confused = rule in OF_BATCHES and of_batches[0] != rule
    if confused or not set(wanted) <= found or findings["steps"] < 20:
        raise Wrong(f"{rule} {words!r} at {sorted(found)}, not at {sorted(wanted)}, or behind another: {answer.stdout.decode()}")


def mirrored(run):
    """Copies came out of mirrors, where there can be any."""
    doctor = subprocess.run([run.build / "slipstream", "doctor", "--json", "--", "true"], check=False, capture_output=True,
                            env={**os.environ, **MIRRORS})
    if json.loads(doctor.stdout)["mirrors"] == "of sources that do not change":
        some("transfer.h2d.mirrored")(run)


MIRRORS = {"SLIPSTREAM_TRANSFER_MAX_MIRRORED": "1GiB"}
TRANSFER = some("transfer.h2d.promoted", "transfer.d2h.promoted", "transfer.sync.skipped")
CONFIGURATIONS = {
    # Seeds 0, 4, 8... run nothing that nobody asked for; the others let unrelated work overtake.
    **{name: Configuration({"SIMCUDA_SEED": seed}, checks=(TRANSFER, some("allocator")))
       for name, seed in (("default", "1"), ("seed0", "0"), ("seed2", "2"), ("seed3", "3"))},
    # From the first copy on, and with little to put them in.
    **{name: Configuration({"SIMCUDA_SEED": seed, "SLIPSTREAM_TRANSFER_START": "now",
                            "SLIPSTREAM_TRANSFER_MAX_PINNED": "8MiB"}, checks=(TRANSFER,))
       for name, seed in (("tight", "1"), ("tight0", "0"))},
    "memory": Configuration(checks=(some("transfer.h2d.promoted", "transfer.d2h.promoted", "allocator.reused"),)),
    "own_allocator": Configuration(checks=(some("transfer.h2d.promoted", "transfer.d2h.promoted"), none("allocator"))),
    # PyTorch's tensors in pages that are mapped by hand: no synchronization is skipped.
    "expandable": Configuration({"SLIPSTREAM_ALLOCATOR_MODE": "expandable"}, checks=(some("transfer.h2d.promoted"), none("allocator.reused"))),
    # What the pool keeps idle must not be missing where memory comes in another way.
    **{f"grow{more}": Configuration({"SLIPSTREAM_ALLOCATOR_DECAY": "3600", **environment},
                                    checks=(some("allocator.parked", "allocator.reclaimed"), none("allocator.trimmed")))
       for more, environment in (("", {}), ("_expandable", {"SLIPSTREAM_ALLOCATOR_MODE": "expandable"}),
                                 ("_driver", {"SLIPSTREAM_INTERCEPT_LEVEL": "driver"}))},
    "any": Configuration(),
    # Processes that end while their threads are at work, of each of eight kinds four, and one that forks them.
    **{f"ends{more}": Configuration({"SLIPSTREAM_TRANSFER_START": "now", **environment}, options, (used_by(8 * 4 + 1),), says_more)
       for more, environment, options, says_more in (("", {}, (), False), ("_driver", {"SLIPSTREAM_INTERCEPT_LEVEL": "driver"}, (), False),
                                                     ("_record", {"SIMCUDA_EXIT": "20"}, ("--record",), True))},
    # What PyTorch frees it gets again; and copies of what did not change.
    "kept": Configuration(checks=(TRANSFER, some("transfer.host.reused"))),
    "kept_mirrors": Configuration({"SLIPSTREAM_TRANSFER_START": "now", **MIRRORS}, checks=(TRANSFER, some("transfer.host.reused"), mirrored)),
    # Whether the trace has lines is for versions.py to say, and so is what a Python without them prints.
    "record_any": Configuration(options=("--record",), checks=(TRANSFER,), says_more=True),
    "transfer_off": Configuration({name: value for name, value in OFF.items() if "TRANSFER" in name},
                                  checks=(none("transfer"), some("allocator"))),
    "driver": Configuration({"SLIPSTREAM_INTERCEPT_LEVEL": "driver"}, checks=(TRANSFER,)),
    "driver_record": Configuration({"SLIPSTREAM_INTERCEPT_LEVEL": "driver"}, ("--record",), (TRANSFER,)),
    "allocator_off": Configuration({"SLIPSTREAM_ALLOCATOR_MODE": "off"},
                                   checks=(some("transfer.h2d.promoted", "transfer.d2h.promoted"), none("allocator"))),
    "off": Configuration(OFF, checks=(none("transfer", "allocator"), every_call)),
    "verify": Configuration({"SLIPSTREAM_TRANSFER_VERIFY": "true"},
                            checks=(TRANSFER, some("transfer.verified"), none("transfer.verified.wrong"))),
    "record": Configuration(options=("--record",), checks=(TRANSFER, lines)),
    "record_full": Configuration({"SLIPSTREAM_TRACER_STACKS": "full"}, ("--record",), (TRANSFER, stacks)),
    # torch.profiler has CUPTI's only subscriber and its buffers, and slipstream stands back.
    "record_device": Configuration({"SLIPSTREAM_TRACER_DEVICE": "cupti", "SLIPSTREAM_TRANSFER_START": "now"}, ("--record",),
                                   (some("transfer.h2d.promoted"),)),
    "advised": Configuration({"SLIPSTREAM_TRACER_DEVICE": "cupti"}, ("--record",), (advised,)),
    # A forked worker has what its parent had. Three processes of `workers` use the device, eight of `programs`.
    **{f"{program}_{name}": Configuration({"SLIPSTREAM_CHILDREN_PRELOAD": name}, checks=(children(without, processes),))
       for program, name, without, processes in (
           ("workers", "python", "", 3), ("workers", "none", r"(worker|child)-(?!fork$).*", 1),
           ("programs", "all", "", 8), ("programs", "python", "tool.*", 8), ("programs", "none", "(?!program).*", 1))},
    # Behind a device that runs by itself.
    "timed": Configuration({"SIMCUDA_MODE": "timed"}, checks=(TRANSFER,)),
}


def run_program(options, program, configuration, folder):
    """Runs it; without a configuration bare."""
    file, arguments, _, environment = PROGRAMS[program]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python = (options.torch / "python").read_text().strip()
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "PYTORCH_", "CUDA_", "PYTHON")) and name != "LD_PRELOAD"}
    env |= {
        "PYTHONPATH": str(options.torch / "site-packages"),
        "PYTHONNOUSERSITE": "1",
        # The loader finds the simulated libraries here because PyTorch's own places for them are empty.
        "LD_LIBRARY_PATH": f"{options.build / 'sim'}:{options.torch / 'stand-ins'}",
        "OMP_NUM_THREADS": "1",
        "SIMCUDA_KERNELS": "empty",
        "SIMCUDA_COUNTS": str(folder / "counts.%p.json"),
        **environment, **(configuration.environment if configuration else {}),
    }
    command = [python, "-B", HERE / file, *arguments]
    if configuration:
        command = [options.build / "slipstream", "run", "--quiet", "--summary", folder / "summary.json",
                   *configuration.options, "--", *command]
    # In a session of its own, so that all that it started ends with it.
    process = subprocess.Popen(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        raise Wrong(f"not done after {TIMEOUT_S} s; so far {stdout!r} and {stderr!r}") from error
    counts = [json.loads(pathlib.Path(path).read_text()) for path in glob.glob(str(folder / "counts.*.json"))]
    summary = folder / "summary.json"
    runtime = options.torch / "runtime"
    return Run(process.returncode, stdout, stderr, json.loads(summary.read_text()) if summary.exists() else {"processes": []},
               counts, folder, options.build, runtime.read_text().strip() if runtime.exists() else RUNTIME)


def check_bare(run, expected_status):
    if run.status != expected_status:
        raise Wrong(f"exit status {run.status}, not {expected_status}")
    if not any(counted.get(run.runtime, {}).get("cudaMemcpyAsync") for counted in run.counts):
        raise Wrong("no copy reached the simulated device")


# torch.profiler warns of a kernel's name, with the time of day, when the machine is busy: bare too, and not each time.
NOW_AND_THEN = re.compile(r"^\[W\d+ [\d:.]+ collection\.cpp:\d+\] Warning: .*\n?", re.MULTILINE)


# The time of day in front of a message of PyTorch's own log, or of its profiler's (with the process and the thread).
TIME_OF_DAY = re.compile(r"^(?:\[([A-Z])\d{4} [\d:.]+|([A-Z]+):\d{4}-\d\d-\d\d [\d:]+ \d+:\d+) ", re.MULTILINE)
# What is said of a trace, behind what the program says.
ABOUT_THE_TRACE = re.compile(r"^slipstream: trace: .*; (.*)\n", re.MULTILINE)


def check_same(run, bare, says_more=False):
    for what in ("status", "stdout", "stderr"):
        mine, other = getattr(run, what), bare[what]
        if what == "stderr" and says_more:
            mine = ABOUT_THE_TRACE.sub("", mine)
        if what == "stderr":
            mine, other = (TIME_OF_DAY.sub(r"[\1\2 ", NOW_AND_THEN.sub("", text)) for text in (mine, other))
        if mine != other:
            raise Wrong(f"{what} differs from the bare run's, which was\n{other}")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--torch", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("configuration", choices=["bare", *CONFIGURATIONS])
    options = parser.parse_args(arguments)
    options.build, options.torch, options.out = (path.resolve() for path in (options.build, options.torch, options.out))
    if not (options.torch / "python").exists():
        print("there is no PyTorch in build/torch; tools/test --only torch brings it")
        return 77
    configuration = CONFIGURATIONS.get(options.configuration)
    kept = options.out / f"{options.program}.bare.json"
    run = None
    try:
        run = run_program(options, options.program, configuration,
                          options.out / f"{options.program}.{options.configuration}")
        if configuration is None:
            kept.unlink(missing_ok=True)
            check_bare(run, PROGRAMS[options.program][2])
            kept.write_text(json.dumps({"status": run.status, "stdout": run.stdout, "stderr": run.stderr}))
        else:
            if not kept.exists():
                raise Wrong(f"there is no bare run to compare with; run \"{options.program} bare\" first")
            check_same(run, json.loads(kept.read_text()), configuration.says_more)
            for check in (bound, *configuration.checks):
                check(run)
    except Wrong as wrong:
        if run is not None:
            print(f"exit status {run.status}; standard output:\n{run.stdout}\nstandard error:\n{run.stderr}")
        print(f"{options.program} {options.configuration}: {wrong}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
