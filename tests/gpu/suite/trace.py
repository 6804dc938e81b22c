"""What `slipstream run --record` leaves of a real training: every call, with its line, and the same losses."""

import contextlib
import glob
import json
import os
import re
import shutil
import sqlite3

from . import harness
from .harness import GPU_TESTS, Failed
from .identity import differences

GROUP = "trace"
# Of the copies that a plain script's batches are, at least so many must be put down to a line of the script.
LEAST_WITH_LINE = 0.9
LEAST_NATIVE = 0.99
NSYS = (
    "/opt/nvidia/nsight-systems*/*/target-linux-x64/nsys",
    "/opt/nvidia/nsight-compute*/*/host/target-linux-x64/nsys",
    "/usr/local/cuda*/nsight-systems*/target-linux-x64/nsys",
    "/usr/local/cuda*/nsight-compute*/host/target-linux-x64/nsys",
)

CALLS = """
SELECT n.value, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds n ON n.id = r.nameId GROUP BY n.value
"""
# Launches by native stack.
NATIVE = """
SELECT c.nativeStackId, count(*) FROM SLIPSTREAM_CALLS c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId)
JOIN StringIds n ON n.id = r.nameId WHERE n.value LIKE '%cudaLaunchKernel%' GROUP BY 1
"""
FRAMES = """
SELECT s.stackId, s.parentId, s.isCut, a.isFunction, m.path FROM SLIPSTREAM_STACKS s
JOIN SLIPSTREAM_ADDRESSES a USING (addressId) LEFT JOIN SLIPSTREAM_MODULES m USING (moduleId)
"""
# Of threads that run Python: autograd's have no frames, and a line only by inference.
LINES = """
WITH python(processId, thread) AS (
  SELECT DISTINCT processId, thread FROM SLIPSTREAM_CALLS JOIN SLIPSTREAM_SITES USING (siteId)
  WHERE line IS NOT NULL AND NOT siteIsBackward)
SELECT n.value, s.file, s.line, count(*) FROM SLIPSTREAM_CALLS c
JOIN python USING (processId, thread)
JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) JOIN StringIds n ON n.id = r.nameId
LEFT JOIN SLIPSTREAM_SITES s USING (siteId) GROUP BY n.value, c.siteId
"""
# Calls of autograd's threads outside of the program's own code, and those of them that have the line of a backward().
BACKWARD = "SELECT count(*), count(siteId) FROM SLIPSTREAM_CALLS WHERE siteIsBackward"


def programs(suite):
    """name -> (program, arguments); one alone, and one with loader processes."""
    if suite.rehearsal:
        tiny = ["--device", "cpu", "--steps", "4", "--batch", "2"]
        return {"lm": ("train_lm.py", [*tiny, *"--layers 1 --width 32 --heads 2 --length 16".split()])}
    return {
        "lm": ("train_lm.py", ["--steps", "30"]),
        "resnet18": ("train_resnet.py", ["--steps", "20", "--batch", "32"]),
    }


def without_version(name):
    """cudaMemcpyAsync of cudaMemcpyAsync_v3020, and cudaLaunchKernel of __cudaLaunchKernel, as CUPTI has it."""
    return re.sub(r"(_v\d+)+$", "", name.removeprefix("__"))


def by_function(rows):
    """Calls by function, of rows of names as the database or the counters have them."""
    found = {}
    for name, count in rows:
        found[without_version(name)] = found.get(without_version(name), 0) + count
    return found


def same_calls(recorded, counted):
    """None when the trace has each function as often as the counters, else what differs."""
    wrong = [
        f"{name}: {recorded.get(name, 0)} in the trace, {counted.get(name, 0)} counted"
        for name in sorted({*recorded, *counted})
        if recorded.get(name, 0) != counted.get(name, 0)
    ]
    return "; ".join(wrong) or None


def put_down(lines, function, folder):
    """(calls of the function that are put down to a line of a program in the folder, all of them)."""
    of_function = [(file, count) for name, file, _, count in lines if without_version(name) == function]
    there = sum(count for file, count in of_function if file and os.path.dirname(file) == str(folder))
    return there, sum(count for _, count in of_function)


def others(lines, function, folder):
    """The files, at most five, that the rest is put down to."""
    found = {}
    for name, file, _, count in lines:
        if without_version(name) == function and not (file and os.path.dirname(file) == str(folder)):
            found[file or "no line"] = found.get(file or "no line", 0) + count
    most = sorted(found.items(), key=lambda item: -item[1])[:5]
    return ", ".join(f"{os.path.basename(file)} {count}" for file, count in most) or "none"


def nsys():
    found = shutil.which("nsys")
    return found or next((path for pattern in NSYS for path in sorted(glob.glob(pattern), reverse=True)), None)


def reported(suite, database):
    """How many calls NVIDIA's own report finds in the database; None: its tool is not here."""
    tool = nsys()
    if not tool:
        return None
    command = [tool, "stats", "--report", "cuda_api_sum", "--format", "csv", database]
    result = suite.command(GROUP, command, timeout=100).expect_success("nsys stats")
    rows = [line.split(",") for line in result.stdout.decode().splitlines() if ",cuda" in line]
    if not rows:
        raise Failed(f"nsys stats has no calls: {result.stdout[-300:]!r}")
    return sum(int(row[2]) for row in rows)


def recorded_run(suite, name, program, arguments, variables=None):
    """Trains bare and recorded; the two records of it, the summary, the export's answer and its database.

    variables: slipstream's, of the recorded run.
    """
    folder = suite.scratch(f"{GROUP}/{name}")
    summary, database = folder / "summary.json", folder / "trace.sqlite"
    argv = [suite.python, GPU_TESTS / program, *arguments, "--deterministic"]
    # With devices there are the driver's functions too, which nothing counts.
    env = {"PYTHONWARNINGS": "ignore", "SLIPSTREAM_TRACER_DEVICE": "off"}

    def run(which, prefix=()):
        out = folder / f"{which}.json"
        more = env | (variables or {}) if prefix else env
        suite.command(
            f"{GROUP}.{name}", [*prefix, *argv, "--out", out], env=more, timeout=200, cwd=folder
        ).expect_success(which)
        return harness.read_json(out, which)

    bare = run("bare")
    recorded = run("recorded", suite.run_prefix("--quiet", "--record", "--summary", summary))
    runs = glob.glob(str(folder / "slipstream-trace-*"))
    if len(runs) != 1:
        raise Failed(f"{len(runs)} folders with traces, not one")
    export = [suite.slipstream, "export", runs[0], "--sqlite", database, "--json"]
    answer = suite.command(f"{GROUP}.{name}", export, timeout=100).expect_success("slipstream export")
    return bare, recorded, harness.read_json(summary, "summary"), json.loads(answer.stdout), database


def check_of(suite, name, program, arguments):
    def check(data):
        bare, recorded, summary, data["export"], database = recorded_run(suite, name, program, arguments)
        if wrong := differences(bare, recorded):
            raise Failed("bare and recorded differ: " + "; ".join(wrong))
        if suite.rehearsal:
            return "the same losses; a rehearsal: no calls"
        with contextlib.closing(sqlite3.connect(database)) as connection:
            calls = by_function(connection.execute(CALLS))
            lines = connection.execute(LINES).fetchall()
            autograds, with_line = connection.execute(BACKWARD).fetchone()
            (dropped,) = connection.execute("SELECT sum(dropped) FROM SLIPSTREAM_PROCESSES").fetchone()
            (whole,) = connection.execute("SELECT min(complete) FROM SLIPSTREAM_PROCESSES").fetchone()
        data["calls"] = calls
        if dropped or not whole:
            raise Failed(f"{dropped} records dropped, complete: {whole}")
        counted = by_function((f["name"], f["calls"]) for f in summary["totals"]["functions"] if f["calls"])
        if wrong := same_calls(calls, counted):
            raise Failed(wrong)
        copies, all_copies = put_down(lines, "cudaMemcpyAsync", GPU_TESTS)
        launches, all_launches = put_down(lines, "cudaLaunchKernel", GPU_TESTS)
        data["lines"] = {
            "cudaMemcpyAsync": [copies, all_copies],
            "cudaLaunchKernel": [launches, all_launches],
            "backward": [with_line, autograds],
        }
        text = (
            f"the same losses; {sum(calls.values())} calls of {len(calls)} functions, as counted; put down to the program: "
            f"{copies} of {all_copies} copies (others: {others(lines, 'cudaMemcpyAsync', GPU_TESTS)}), {launches} of "
            f"{all_launches} launches (others: {others(lines, 'cudaLaunchKernel', GPU_TESTS)}); of {autograds} calls of "
            f"autograd's threads {with_line} have the line of a backward()"
        )
        if not all_copies or copies < LEAST_WITH_LINE * all_copies:
            raise Failed(f"too few copies with a line; {text}")
        by_nsys = reported(suite, database)
        if by_nsys is None:
            return text + "; no nsys here"
        if by_nsys != sum(calls.values()):
            raise Failed(f"nsys stats counts {by_nsys} calls; {text}")
        return text + "; nsys stats counts as many"

    return check


def native_launches(launches, frames):
    """Of launches by native stack, how many: in all, with a stack, with one that is whole, that goes through PyTorch, whose
    innermost frame is a function with a name. frames: rows of FRAMES."""
    rows = {stack: rest for stack, *rest in frames}
    found = dict.fromkeys(("all", "stack", "whole", "torch", "named"), 0)
    for stack, count in launches:
        found["all"] += count
        if stack is None:
            continue
        found["stack"] += count
        found["named"] += count * bool(rows[stack][2])
        paths, cut = [], False
        while stack is not None:
            stack, is_cut, _, path = rows[stack]
            paths.append(path or "")
            cut = cut or bool(is_cut)
        found["whole"] += count * (not cut)
        found["torch"] += count * any("libtorch" in os.path.basename(path) for path in paths)
    return found


def full(suite, name, program, arguments):
    """The same with tracer.stacks = "full"."""

    def check(data):
        variables = {"SLIPSTREAM_TRACER_STACKS": "full"}
        bare, recorded, _, data["export"], database = recorded_run(suite, f"full.{name}", program, arguments, variables)
        if wrong := differences(bare, recorded):
            raise Failed("bare and recorded differ: " + "; ".join(wrong))
        if suite.rehearsal:
            return "the same losses; a rehearsal: no calls"
        with contextlib.closing(sqlite3.connect(database)) as connection:
            data["launches"] = found = native_launches(connection.execute(NATIVE).fetchall(), connection.execute(FRAMES))
        text = (
            f"the same losses; of {found['all']} launches {found['stack']} have a native stack, {found['whole']} out to the "
            f"thread's first function, {found['torch']} through PyTorch, {found['named']} with a name in front"
        )
        if not found["all"] or min(found["whole"], found["torch"], found["named"]) < LEAST_NATIVE * found["all"]:
            raise Failed(f"too few; {text}")
        return text

    return check


def checks(suite):
    trained = programs(suite)
    return [
        *((f"{GROUP}.{name}", check_of(suite, name, *rest)) for name, rest in trained.items()),
        (f"{GROUP}.full", full(suite, "lm", *trained["lm"])),
    ]
