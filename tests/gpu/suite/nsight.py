"""NVIDIA's own tools on a program under slipstream: that they attach, and find its NVTX ranges.

compute: Nsight Compute profiles the kernels inside the ranges of slipstream's domain that `--nvtx-include` names: as many
as slipstream counted launches, none in a range that nobody opens, and none without slipstream. systems: an Nsight Systems
profile has a range for each call that slipstream counted.
"""

import contextlib
import re
import sqlite3

from . import harness
from .harness import Failed, Skipped, needs_gpu
from .levels import RUNTIME
from .sanitizer import Program, devices_in_trace, find_tool, newest_trace, result_line
from .trace import nsys

GROUP = "nsight"
DOMAIN = "slipstream"
LAUNCHES = ("__cudaLaunchKernel", "cudaLaunchKernel")
ARGUMENTS = ("--few",)
PROFILED = re.compile(rb'==PROF== Profiling "')
NOT_ALLOWED = b"ERR_NVGPUCTRPERM"
# NVTX_EVENTS.eventType of Nsight Systems' export.
PUSH_POP, DOMAIN_CREATED = 59, 75
RANGES = """
SELECT coalesce(e.text, s.value), count(*) FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId
WHERE e.eventType = :push AND e.domainId IN (
  SELECT d.domainId FROM NVTX_EVENTS d LEFT JOIN StringIds t ON t.id = d.textId
  WHERE d.eventType = :created AND coalesce(d.text, t.value) = :domain)
GROUP BY 1
"""


def counted(summary):
    """Calls by function, of all processes of a summary."""
    return {function["name"]: function["calls"] for function in summary["totals"]["functions"]}


def launch_of(calls):
    """(the name of the launch that the program uses, how often)."""
    used = [(name, calls[name]) for name in LAUNCHES if calls.get(name)]
    if len(used) != 1:
        raise Failed(f"slipstream counted launches of {len(used)} names, not of one: {calls}")
    return used[0]


def different(ranges, calls):
    """None when there are as many ranges of each function as calls, else what differs."""
    wrong = [
        f"{name}: {ranges.get(name, 0)} ranges, {calls.get(name, 0)} calls"
        for name in sorted({*ranges, *calls})
        if ranges.get(name, 0) != calls.get(name, 0)
    ]
    return "; ".join(wrong) or None


def compute(suite, program, level=RUNTIME, options=()):
    """options: of slipstream run."""
    env = level.environment()

    def profiled(tool, prefix, name):
        """How many kernels Nsight Compute profiles inside ranges of that name."""
        command = [tool, "--target-processes", "all", "--section", "LaunchStats", "--nvtx"]
        argv = [*command, "--nvtx-include", f"{DOMAIN}@{name}/", *prefix]
        result = program.run(argv, ARGUMENTS, timeout=120, env=env)
        output = result.stdout + result.stderr
        if NOT_ALLOWED in output:
            raise Skipped("Nsight Compute may not read the device's counters here")
        result.expect_success(f"ncu, {name}")
        if result_line(result.stdout) != program.bare_line(ARGUMENTS):
            raise Failed(f"under ncu the program printed {result_line(result.stdout)}")
        return len(PROFILED.findall(output))

    def check(data):
        tool = find_tool(suite, "ncu")
        if not tool:
            raise Skipped("no ncu here")
        summary = suite.scratch(GROUP) / f"compute.{level.name}.json"
        prefix = suite.run_prefix("--quiet", "--summary", summary, *options)
        program.run(prefix, ARGUMENTS, env=env).expect_success("slipstream")
        name, launches = launch_of(counted(harness.read_json(summary, "summary")))
        data["kernels"] = kernels = profiled(tool, prefix, name)
        if kernels != launches:
            raise Failed(f"ncu profiled {kernels} kernels in ranges {DOMAIN}@{name}, slipstream counted {launches}")
        for what, arguments in (("no such range", (prefix, "nobody")), ("bare", ((), name))):
            if others := profiled(tool, *arguments):
                raise Failed(f"{what}: ncu profiled {others} kernels, and should none")
        return f"ncu profiled the {kernels} kernels inside {DOMAIN}@{name}, and none where there is no such range"

    return check


def compute_recorded(suite):
    """ncu has the devices: it profiles all that it profiles else, and the trace says that it stood back."""
    program = Program(suite, log=f"{GROUP}/recorded", trial=ARGUMENTS)

    def check(data):
        text = compute(suite, program, options=("--record",))(data)
        said = devices_in_trace(suite, newest_trace(suite.scratch(f"{GROUP}/recorded")))
        if "a profiler is attached" not in said:
            raise Failed(f"beside ncu the trace has {said}")
        return f"{text}; recorded, with {said}"

    return check


def systems(suite, program):
    def check(data):
        tool = nsys()
        if not tool:
            raise Skipped("no nsys here")
        folder = suite.scratch(f"{GROUP}/systems")
        report, database, summary = folder / "report.nsys-rep", folder / "report.sqlite", folder / "summary.json"
        profile = [tool, "profile", "--trace", "cuda,nvtx", "--output", report, "--force-overwrite", "true"]
        result = program.run([*profile, *suite.run_prefix("--quiet", "--summary", summary)], ARGUMENTS, timeout=120)
        if not report.exists():
            raise Skipped(f"this nsys does not profile: {harness.last_line(result.stderr or result.stdout)}")
        if result_line(result.stdout) != program.bare_line(ARGUMENTS):
            raise Failed(f"under nsys the program printed {result_line(result.stdout)}")
        export = [tool, "export", "--type", "sqlite", "--output", database, "--force-overwrite", "true", report]
        suite.command(GROUP, export, timeout=100).expect_success("nsys export")
        with contextlib.closing(sqlite3.connect(database)) as connection:
            wanted = {"push": PUSH_POP, "created": DOMAIN_CREATED, "domain": DOMAIN}
            data["ranges"] = ranges = dict(connection.execute(RANGES, wanted).fetchall())
        calls = counted(harness.read_json(summary, "summary"))
        if wrong := different(ranges, calls):
            raise Failed(f"ranges in the profile, and calls counted: {wrong}")
        return f"nsys has {sum(ranges.values())} ranges of {len(ranges)} functions, as slipstream counted"

    return check


def checks(suite):
    program = Program(suite, log=GROUP, trial=ARGUMENTS)
    found = {
        "compute": compute(suite, program),
        "compute_recorded": compute_recorded(suite),
        "systems": systems(suite, program),
    }
    return [(f"{GROUP}.{name}", needs_gpu(suite, check)) for name, check in found.items()]
