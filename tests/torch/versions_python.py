"""One interpreter: whether a recorded trace has its lines, and what it says where it has not. PyTorch is not needed."""

import contextlib
import glob
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess

from versions_package import of_build, python_facts

HERE = pathlib.Path(__file__).resolve().parent
RUNTIME = "libcudart.so.13"
READ = "read: "
TIMEOUT_S = 120
_CALLS = """SELECT n.value, s.file, s.line, s.function FROM SLIPSTREAM_CALLS c
  JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) JOIN StringIds n ON n.id = r.nameId
  LEFT JOIN SLIPSTREAM_SITES s USING (siteId) ORDER BY r.start"""


@contextlib.contextmanager
def exported(build, folder):
    """The database of the one trace in the folder; None where there is not one."""
    traces = glob.glob(str(folder / "slipstream-trace-*"))
    if len(traces) != 1:
        yield None
        return
    database = folder / "versions.sqlite"
    if not database.exists():
        subprocess.run([build / "slipstream", "export", traces[0], "--sqlite", database], check=True, capture_output=True)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        yield connection


def recorded_fact(build, folder, name):
    """What a recorded run says of itself under a name; None without a trace or a fact."""
    with exported(build, folder) as connection:
        if connection is None:
            return None
        # The process, the name, the text.
        found = [row[2] for row in connection.execute("SELECT * FROM SLIPSTREAM_FACTS") if row[1] == name]
    return found[-1] if found else None


def said_places(stdout):
    """[(function, file, line, name)] of what python_lines.py printed."""
    places = []
    for line in stdout.splitlines():
        function, where, name = line.split(" ")
        file, _, number = where.rpartition(":")
        places.append((function, file, int(number), name))
    return places


def recorded_places(rows):
    """The same of rows of a trace. "cudaMalloc_v3020" is cudaMalloc; from 3.11 on a trace has qualified names."""
    return [(function.rpartition("_v")[0] or function, file, line, name.rpartition(".")[2] if name else name)
            for function, file, line, name in rows]


def compared(said, recorded, has_lines):
    """What is wrong, as a sentence, or None."""
    expected = said if has_lines else [(function, None, None, None) for function, *_ in said]
    if not said:
        return "the program did not say where it called"
    return None if recorded == expected else f"the trace has {recorded}, the program said {expected}"


def row(options, python):
    facts = python_facts(python)
    folder = options.work / "python"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program = [python, "-B", HERE / "python_lines.py", options.build / "sim" / RUNTIME]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "PYTHON"))}
    env["LD_LIBRARY_PATH"] = str(options.build / "sim")

    def run(command):
        return subprocess.run([str(word) for word in command], env=env, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)

    bare = run(program)
    under = run([options.build / "slipstream", "run", "--record", "--summary", folder / "summary.json", "--", *program])
    lines = recorded_fact(options.build, folder, "python_lines")
    has_lines = bool(lines) and lines.startswith(READ)
    with exported(options.build, folder) as connection:
        recorded = recorded_places(connection.execute(_CALLS).fetchall()) if connection else []
    summary = json.loads((folder / "summary.json").read_text())
    where = f"{facts['implementation']} {facts['version']}"
    problem = compared(said_places(bare.stdout), recorded, has_lines)
    wrong = [f"{where}: {problem}"] if problem else []
    if (bare.returncode, bare.stdout) != (0, under.stdout) or under.returncode != 0:
        wrong.append(f"{where}: bare {bare.returncode} {bare.stdout!r} {bare.stderr!r}, under slipstream {under.returncode} "
                     f"{under.stdout!r} {under.stderr!r}")
    if not lines:
        wrong.append(f"{where}: the trace does not say whether it has lines")
    print(f"{where}: {lines}; {wrong or 'as it should be'}", flush=True)
    return {"python": facts["version"], "implementation": facts["implementation"], "free_threaded": facts["free_threaded"],
            "debug": facts["debug"], "lines": lines, "served": bool(summary["processes"]), "wrong": wrong, **of_build(options.build)}
