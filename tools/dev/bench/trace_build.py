#!/usr/bin/env python3
"""How fast a recorded run becomes a database and a report, and how much memory that takes, for a spool of any size.

    trace_build.py [--build DIR] [--gib N] [--place DIR] [--out FILE]
    trace_build.py --hour [--build DIR] [--place DIR] [--out FILE]

Makes a spool (trace_spool: a training loop of four threads with kernels, copies, decisions, allocations, ranges and steps) in
a directory of its own under --place, which goes away again, and then runs, each once and in a process of its own:

  export --sqlite   the database, made and put onto the disk
  report            of the run, for the first time: makes the database, which stays with the run, and reads it
  report, again     uses that database
  report, no cache  makes its own, in TMPDIR (--place), and leaves none

Prints seconds, records and spool bytes a second, the largest resident memory of each process (a Python that starts a process
counts for it until then, some 20 MiB), and the ratio of the database to its spool, which build_place.h takes for granted. The spool was just
written, so it is read from memory as far as that goes: give --gib more than there is memory to measure the disk too. What is needed is
about six times the spool.

--hour: what the library keeps of an hour of that loop with its defaults (tracer.max_file), once of its beginning (tracer.keep = "first") and
once of its end ("newest"): 720 million calls and 568 million kernels and copies go through the library's own writer, which makes room. Says
what the files take and how long a report of each takes, and fails where that is more than is promised: the file at most
its limit, and a report less than a minute and 1 GiB. The writer takes a minute.

Exit status: 0, or 1 where something failed.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
GIB = 1 << 30
DATABASE_A_SPOOL = 2.6  # of build_place.h
MAX_FILE = 256 * MIB  # tracer.max_file
HOUR_S = 3600
MOST_REPORT_S, MOST_REPORT_BYTES, MOST_WRITER_BYTES = 60, GIB, 64 * MIB


class Failed(Exception):
    """A command failed; the text says which and why."""


def timed(command, variables):
    """Seconds, peak resident bytes, standard output and standard error of a command that must succeed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], env=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        if process.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))}: exit status {process.returncode}\n{texts[1][-2000:]}")
        return {"seconds": seconds, "peak_rss_bytes": usage.ru_maxrss * 1024}, texts[0], texts[1]


def expect(condition, what):
    if not condition:
        raise Failed(what)


def measure(build, run, gib, variables):
    slipstream = build / "slipstream"
    done = subprocess.run([build / "bench" / "trace_spool", run, str(round(gib * GIB))], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"trace_spool: {done.stderr}")
    spool = json.loads(done.stdout)
    steps = {}

    database = run.parent / "trace.sqlite"
    steps["export --sqlite"], out, _ = timed([slipstream, "export", run, "--sqlite", database, "--json"], variables)
    exported = json.loads(out)
    expect(exported["calls"] == spool["calls"], f"the database has {exported['calls']} calls of {spool['calls']}")
    expect(exported["processes"][0]["records"] == spool["records"], f"{exported['processes'][0]['records']} records of {spool['records']}")
    database.unlink()

    figures, reports = {}, {}
    for name, options, said in (("report", [], "the database stays in "), ("report, again", [], "the database is used again: "),
                                ("report, no cache", ["--no-cache"], "the database is made in ")):
        figures, reports[name], err = timed([slipstream, "report", run, "--json", "--verbose", *options], variables)
        expect(said in err, f"{name}: {err or 'says nothing of its database'}")
        steps[name] = figures
    expect(len(set(reports.values())) == 1, "the reports differ")
    expect(json.loads(reports["report"])["calls"] == spool["calls"], "the report lacks calls")
    for figures in steps.values():
        figures["records_per_second"] = spool["records"] / figures["seconds"]
        figures["spool_bytes_per_second"] = spool["bytes"] / figures["seconds"]
    return {"benchmark": "trace_build", "spool": spool, "database_bytes": exported["bytes"],
            "database_per_spool": exported["bytes"] / spool["bytes"], "steps": steps}


def measure_hour(build, place, variables):
    result = {"benchmark": "trace_hour", "max_file": MAX_FILE, "keeps": {}}
    for keep in ("first", "newest"):
        run = place / keep
        run.mkdir(mode=0o700)
        writer, out, _ = timed([build / "bench" / "trace_spool", run, HOUR_S, keep, MAX_FILE], variables)
        spool = json.loads(out)
        expect(spool["disk_bytes"] <= MAX_FILE, f"{keep}: the file takes {spool['disk_bytes']} bytes")
        expect(writer["peak_rss_bytes"] < MOST_WRITER_BYTES, f"{keep}: the writer took {writer['peak_rss_bytes']} bytes of memory")
        steps = {"writer": writer}
        for name, said in (("report", "the database stays in "), ("report, again", "the database is used again: ")):
            steps[name], out, err = timed([build / "slipstream", "report", run, "--json", "--verbose"], variables)
            expect(said in err, f"{keep}, {name}: {err or 'says nothing of its database'}")
            expect(steps[name]["seconds"] < MOST_REPORT_S, f"{keep}, {name}: {steps[name]['seconds']:.0f} s")
            expect(steps[name]["peak_rss_bytes"] < MOST_REPORT_BYTES, f"{keep}, {name}: {steps[name]['peak_rss_bytes']} bytes of memory")
        result["keeps"][keep] = {"spool": spool, "reported_calls": json.loads(out)["calls"], "steps": steps}
    return result


def table_of_hour(result):
    lines = [f"{'':24}{'seconds':>10}{'peak MiB':>10}"]
    for keep, figures in result["keeps"].items():
        spool = figures["spool"]
        lines.append(f"{keep}: {spool['disk_bytes'] / MIB:,.1f} MiB on the disk, length {spool['bytes'] / MIB:,.1f} MiB; "
                     f"{spool['calls']:,} calls written, {figures['reported_calls']:,} reported")
        lines += [f"    {name:20}{each['seconds']:10.2f}{each['peak_rss_bytes'] / MIB:10.1f}" for name, each in figures["steps"].items()]
    return "\n".join(lines)


def table(result):
    spool = result["spool"]
    lines = [f"spool     {spool['bytes'] / MIB:12,.1f} MiB  {spool['records']:,} records: {spool['calls']:,} calls, "
             f"{spool['activities']:,} of devices, {spool['steps']:,} steps",
             f"database  {result['database_bytes'] / MIB:12,.1f} MiB  {result['database_per_spool']:.2f} times the spool", "",
             f"{'':18}{'seconds':>10}{'records/s':>14}{'MB/s':>10}{'peak MiB':>10}"]
    for name, figures in result["steps"].items():
        lines.append(f"{name:18}{figures['seconds']:10.2f}{figures['records_per_second']:14,.0f}"
                     f"{figures['spool_bytes_per_second'] / 1e6:10.1f}{figures['peak_rss_bytes'] / MIB:10.1f}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    parser.add_argument("--gib", default=0.0625, type=float, help="size of the spool (0.0625)")
    parser.add_argument("--place", default=tempfile.gettempdir(), type=pathlib.Path, help="where the files go (TMPDIR)")
    parser.add_argument("--hour", action="store_true", help="what is kept of an hour")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file for the figures")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-trace-build-", dir=options.place.resolve()))
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SQLITE_"))}
    variables["TMPDIR"] = str(folder)
    try:
        if options.hour:
            result = measure_hour(options.build.resolve(), folder, variables)
            print(table_of_hour(result))
            return finish(options, result)
        (folder / "run").mkdir(mode=0o700)
        result = measure(options.build.resolve(), folder / "run", options.gib, variables)
    except Failed as error:
        print(f"trace_build.py: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    print(table(result))
    if result["database_per_spool"] > DATABASE_A_SPOOL and result["spool"]["bytes"] > 16 * MIB:
        print(f"trace_build.py: the database is more than {DATABASE_A_SPOOL} times its spool: see build_place.h", file=sys.stderr)
        return 1
    return finish(options, result)


def finish(options, result):
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
