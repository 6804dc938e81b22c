"""What a recorded run says that the devices did, beside torch.profiler's account of the same training.

The program trains in three windows with an NVTX range around each (device_windows.py). Bare, torch.profiler has the
second one; recorded, either nobody has it or torch.profiler does, and then slipstream must be out of its way there and
back behind it.
"""

import contextlib
import glob
import json
import sqlite3

from . import harness
from .harness import GPU_TESTS, Failed
from .sanitizer import devices_in_trace, newest_trace
from .trace import nsys

GROUP = "devices"
STEPS = 10
WINDOWS = (0, 1, 2)
PROFILED = 1
# torch.profiler's total kernel time and the trace's, which are of two processes.
MOST_APART = 0.01
LEAST_WITH_LINE = 0.9
# What is trained, and after what its checks are named.
LM = "lm"
TRAININGS = {
    LM: ("train_lm.py",),
    "resnet50": ("train_resnet.py", "--model", "resnet50", "--batch", "16", "--workers", "0", "--in-memory", "4"),
}
TABLES = {"kernel": "KERNEL", "gpu_memcpy": "MEMCPY", "gpu_memset": "MEMSET"}

RANGES = """
SELECT COALESCE(text, (SELECT value FROM StringIds WHERE id = textId)) name, start, end FROM NVTX_EVENTS
WHERE eventType = 59 AND name LIKE 'window %'
"""
KERNELS = """
SELECT s.value, count(*), sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName
WHERE k.start BETWEEN ? AND ? GROUP BY s.value
"""
LINES = """
SELECT count(*), count(c.siteId) FROM CUPTI_ACTIVITY_KIND_KERNEL k
LEFT JOIN SLIPSTREAM_CALLS c ON c.correlationId = k.correlationId WHERE k.start BETWEEN ? AND ?
"""


def work_in(connection, start, end):
    """category -> (count, nanoseconds), and kernel name -> (count, nanoseconds)."""
    names = {name: (count, time) for name, count, time in connection.execute(KERNELS, (start, end))}
    totals = {}
    for category, table in TABLES.items():
        query = f"SELECT count(*), COALESCE(sum(end - start), 0) FROM CUPTI_ACTIVITY_KIND_{table} WHERE start BETWEEN ? AND ?"
        totals[category] = connection.execute(query, (start, end)).fetchone()
    return totals, names


def totals_of(window):
    """category -> (count, nanoseconds) of what torch.profiler saw."""
    return {
        category: (sum(count for count, _ in names.values()), sum(time for _, time in names.values()))
        for category, names in window.items()
    }


def other_counts(ours, theirs):
    """None when both have every kernel as often, else the first few that differ. Both: name -> (count, ...)."""
    wrong = [
        f"{name[:60]}: {ours.get(name, (0,))[0]} in the trace, {theirs.get(name, (0,))[0]} by torch.profiler"
        for name in sorted({*ours, *theirs})
        if ours.get(name, (0,))[0] != theirs.get(name, (0,))[0]
    ]
    return "; ".join(wrong[:3]) or None


def apart(ours, theirs):
    return abs(ours - theirs) / theirs if theirs else float(ours != 0)


def calls_missing(connection):
    """How many pieces of device work have no call in the trace, by the tables and by the trace's own count."""
    query = (
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_{} w WHERE NOT EXISTS "
        "(SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = w.correlationId)"
    )
    missing = sum(connection.execute(query.format(table)).fetchone()[0] for table in TABLES.values())
    return missing, connection.execute("SELECT COALESCE(sum(unattributed), 0) FROM SLIPSTREAM_DEVICE_WORK").fetchone()[0]


class Runs:
    """The runs of a training, each made once."""

    def __init__(self, suite, training):
        self.suite = suite
        self.training = training
        self.folder = suite.scratch(f"{GROUP}/{training}")

    def train(self, name, watched, recorded):
        out = self.folder / f"{name}.json"
        place = self.suite.scratch(f"{GROUP}/{self.training}/{name}")
        script, *arguments = TRAININGS[self.training]
        program = [self.suite.python, GPU_TESTS / "device_windows.py", GPU_TESTS / script, out, STEPS, watched, *arguments]
        prefix = self.suite.run_prefix("--quiet", "--record") if recorded else []
        # Copies of pageable memory become others in slipstream's hands.
        env = {"PYTHONWARNINGS": "ignore", "SLIPSTREAM_TRANSFER_H2D": "off", "SLIPSTREAM_TRANSFER_D2H": "off"}
        self.suite.command(GROUP, [*prefix, *program, "--deterministic"], env=env, timeout=100, cwd=place).expect_success(
            name
        )
        if not recorded:
            return harness.read_json(out, name), None
        traces = glob.glob(str(place / "slipstream-trace-*"))
        if len(traces) != 1:
            raise Failed(f"{len(traces)} folders with traces, not one")
        database = place / "trace.sqlite"
        export = [self.suite.slipstream, "export", traces[0], "--sqlite", database]
        self.suite.command(GROUP, export, timeout=100).expect_success("slipstream export")
        return harness.read_json(out, name), database


def windows_of(connection):
    found = {int(name.split()[1]): (start, end) for name, start, end in connection.execute(RANGES)}
    if sorted(found) != list(WINDOWS):
        raise Failed(f"the trace has the NVTX ranges of windows {sorted(found)}")
    return found


def checks_of(suite, training):
    """name -> check; they run in this order."""
    runs = Runs(suite, training)
    kept = {}

    def bare(data):
        kept["bare"] = runs.train("bare", PROFILED, False)[0]
        data["totals"] = totals = totals_of(kept["bare"]["windows"][str(PROFILED)])
        if not totals["kernel"][0]:
            raise Failed("torch.profiler saw no kernel")
        return ", ".join(f"{count} of {category}" for category, (count, _) in totals.items())

    def needs_bare():
        if "bare" not in kept:
            raise Failed(f"{GROUP}.bare failed, or --only left it out")
        return kept["bare"]

    def same_losses(run):
        if run["losses"] != needs_bare()["losses"]:
            raise Failed("other losses than bare")

    def recorded(data):
        theirs = needs_bare()["windows"][str(PROFILED)]
        run, database = runs.train("recorded", "none", True)
        same_losses(run)
        kept["database"] = database
        with contextlib.closing(sqlite3.connect(database)) as connection:
            window = windows_of(connection)[PROFILED]
            totals, names = work_in(connection, *window)
            kernels, with_line = connection.execute(LINES, window).fetchone()
            missing, unattributed = calls_missing(connection)
        data["totals"], data["torch"] = totals, totals_of(theirs)
        if wrong := other_counts(names, theirs["kernel"]):
            raise Failed(wrong)
        for category, (count, _) in data["torch"].items():
            if totals[category][0] != count:
                raise Failed(f"{totals[category][0]} of {category} in the trace, {count} by torch.profiler")
        distance = apart(totals["kernel"][1], data["torch"]["kernel"][1])
        text = (
            f"the same losses; {kernels} kernels of {len(names)} names, {totals['gpu_memcpy'][0]} copies, "
            f"{totals['gpu_memset'][0]} sets, as by torch.profiler; kernel time {distance:.2%} from its; {with_line} have "
            f"the program's line; {unattributed} without a call"
        )
        if missing != unattributed:
            raise Failed(f"{missing} pieces of work have no call, and the trace says {unattributed}; {text}")
        if distance > MOST_APART:
            raise Failed(f"more than {MOST_APART:.0%} apart; {text}")
        if with_line < LEAST_WITH_LINE * kernels:
            raise Failed(f"too few with a line; {text}")
        return text

    def profiled(data):
        theirs = needs_bare()["windows"][str(PROFILED)]
        run, database = runs.train("profiled", PROFILED, True)
        same_losses(run)
        seen = run["windows"][str(PROFILED)]
        if wrong := other_counts(seen["kernel"], theirs["kernel"]):
            raise Failed(f"torch.profiler under slipstream (called the trace here) and bare: {wrong}")
        with contextlib.closing(sqlite3.connect(database)) as connection:
            windows = windows_of(connection)
            counts = [work_in(connection, *windows[number])[0]["kernel"][0] for number in WINDOWS]
            periods = connection.execute("SELECT count(*) FROM SLIPSTREAM_DEVICE_PERIODS").fetchone()[0]
        whole = totals_of(theirs)["kernel"][0]
        data["kernels"], data["periods"] = counts, periods
        report = suite.command(GROUP, [suite.slipstream, "report", database, "--json"], timeout=60)
        steps = json.loads(report.expect_success("slipstream report").stdout)["processes"][0]["steps"]
        text = f"kernels of the windows in the trace: {counts}; torch.profiler saw {whole} in its own, as bare; {periods} periods"
        if counts[0] != whole or counts[1] != 0:
            raise Failed(text)
        # It comes back within a quarter of a second, which may be in the last window.
        if not counts[2] or periods < 2:
            raise Failed(f"slipstream did not come back; {text}")
        if not steps["with_devices_not_recorded"]:
            raise Failed(f"the report leaves out no step; {text}")
        return f"the same losses; {text}; the report leaves {steps['with_devices_not_recorded']} steps out"

    def nsight(data):
        tool = nsys()
        if tool is None:
            raise harness.Skipped("no nsys here")
        if "database" not in kept:
            raise Failed(f"{GROUP}.recorded failed, or --only left it out")
        command = [tool, "stats", "--report", "cuda_gpu_kern_sum", "--format", "csv", kept["database"]]
        result = suite.command(GROUP, command, timeout=100).expect_success("nsys stats")
        lines = result.stdout.decode().splitlines()
        head = next((line.split(",") for line in lines if "Instances" in line), None)
        if head is None:
            raise Failed(f"nsys stats has no kernels: {result.stdout[-300:]!r}")
        rows = [line.split(",") for line in lines[lines.index(",".join(head)) + 1 :] if line]
        instances = sum(int(row[head.index("Instances")]) for row in rows)
        time = sum(int(row[head.index("Total Time (ns)")]) for row in rows)
        with contextlib.closing(sqlite3.connect(kept["database"])) as connection:
            query = "SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL"
            ours = connection.execute(query).fetchone()
        data["nsys"], data["ours"] = (instances, time), ours
        if (instances, time) != ours:
            raise Failed(f"nsys stats: {instances} kernels, {time} ns; in the database {ours}")
        rules = suite.command(GROUP, [tool, "analyze", "--rule", "gpu_gaps,gpu_time_util", kept["database"]], timeout=100)
        data["rules"] = rules.status
        said = "its rules run on it" if rules.status == 0 else f"its rules: exit status {rules.status}"
        return f"nsys stats counts the same {instances} kernels and {time} ns; {said}"

    return {"bare": bare, "recorded": recorded, "profiled": profiled, "nsight": nsight}


def jax_profiled(suite):
    """JAX's profiler finds CUPTI by dlsym: it sees what it sees bare, and the trace has the work around its profile."""

    def run(name, prefix):
        place = suite.scratch(f"{GROUP}/jax.{name}")
        out = place / "seen.json"
        program = [suite.python, GPU_TESTS / "programs" / "jax_profile.py", out]
        # Its runtime is a static one: without hooks of the driver's functions there would be no trace.
        env = {"SLIPSTREAM_INTERCEPT_LEVEL": "driver"}
        result = suite.command(GROUP, [*prefix, *program], env=env, timeout=120, cwd=place)
        if result.status == 1 and not out.exists():
            raise harness.Skipped(f"no JAX here: {harness.last_line(result.stderr)}")
        result.expect_success(name)
        return harness.read_json(out, name), place

    def check(data):
        bare, _ = run("bare", [])
        recorded, place = run("recorded", suite.run_prefix("--quiet", "--record"))
        data["kernels"] = bare["kernels"], recorded["kernels"]
        if not bare["kernels"]:
            raise Failed("JAX's profiler saw nothing, bare")
        if bare != recorded:
            raise Failed(f"under slipstream JAX's profiler saw {recorded}, bare {bare}"[:600])
        said = devices_in_trace(suite, newest_trace(place))
        if said.startswith("no kernels"):
            raise Failed(f"the trace has {said}")
        return f"JAX's profiler saw the same {bare['kernels']} kernels and copies as bare; in the trace {said}"

    return check


def checks(suite):
    found = [(f"{GROUP}.{name}", check) for name, check in checks_of(suite, LM).items()]
    others = {training: checks_of(suite, training) for training in TRAININGS if training != LM}
    found += [(f"{GROUP}.{training}_{name}", made[name]) for training, made in others.items() for name in ("bare", "recorded")]
    found.append((f"{GROUP}.jax_profiled", jax_profiled(suite)))
    return [(name, harness.needs_gpu(suite, check)) for name, check in found]
