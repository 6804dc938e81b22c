#!/usr/bin/env python3
"""Made-up runs through the whole of slipstream: every row of the database and every figure of the report and of the exports is
recomputed here, and must be the same to the nanosecond.

    check_traces.py SLIPSTREAM [RUNS [FIRST_SEED]]

traces.py makes the runs, spools.py their files; expected_database.py, expected_report.py, expected_exports.py and
expected_check.py compute. None of it is slipstream's code. What this does not know of a report it does not look at, but says so; of what it knows nothing may be missing.

Afterwards rows are changed, table by table, and the judges must see it: first one row, then all for the report.
"""

import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

import expected_check
import expected_database
import expected_exports
import expected_losses
import expected_report
from judge import MOST_SHOWN, Judge
from traces import Run

RUNS = 24
EXPORTED = 6  # of these runs; the C++ tests of the exports have more
# What no figure is, and is not recomputed.
TEXTS = {
    "report.database_by",
    "report.partial",
    "report.verdict.sentence",
    "report.processes[].decisions[].meaning",
    "report.processes[].gains.why_no_bound",
    "report.processes[].gains.rows[].not_known",
}
# Each is changed by one; whether the report has a figure of it.
CHANGES = (
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "end", True),
    ("CUPTI_ACTIVITY_KIND_KERNEL", "end", True),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", "bytes", True),
    ("CUPTI_ACTIVITY_KIND_MEMSET", "bytes", True),
    ("NVTX_EVENTS", "end", True),
    ("SLIPSTREAM_PROCESSES", "dropped", True),
    ("SLIPSTREAM_HOSTS", "wallMinusMonotonicNs", False),
    ("SLIPSTREAM_CALLS", "bytes", True),
    ("SLIPSTREAM_CALLS", "stream", False),
    ("SLIPSTREAM_DECISIONS", "savedNs", False),
    ("SLIPSTREAM_DECISION_EVENTS", "bytes", True),
    ("SLIPSTREAM_THREADS", "records", False),
    ("SLIPSTREAM_MEMORY", "liveBytes", True),
    ("SLIPSTREAM_ALLOCATIONS", "address", False),
    ("SLIPSTREAM_DROPS", "count", True),
    ("SLIPSTREAM_STEPS", "end", True),
    ("SLIPSTREAM_MARKS", "value", False),
    ("SLIPSTREAM_CLOCKS", "realtimeNs", False),
    ("SLIPSTREAM_DEVICE_WORK", "kernels", True),
    ("SLIPSTREAM_DEVICE_CLOCKS", "deviceNs", False),
    ("SLIPSTREAM_DEVICE_PERIODS", "end", False),
    ("SLIPSTREAM_TASKS", "count", False),
    ("SLIPSTREAM_COUNTERS", "bytes", False),
)


class Checker:
    def __init__(self, slipstream, folder):
        self.slipstream, self.folder = slipstream, folder
        self.judge = Judge()
        self.not_recomputed = set()
        self.changes_seen = set()

    def run(self, *words):
        return subprocess.run([self.slipstream, *map(str, words)], capture_output=True, text=True, timeout=300)

    def report(self, place):
        done = self.run("report", place, "--json")
        if done.returncode not in (0, 3):
            raise SystemExit(f"no report of {place}: {done.stderr}")
        report = json.loads(done.stdout)
        for process in report["processes"]:
            process["not_seen"]["failed_calls"].sort(key=expected_losses.failure_order)
        return done.returncode, report

    def check(self, seed, with_exports):
        before = len(self.judge.problems)
        run, place, database = Run(seed), self.folder / f"run-{seed}", self.folder / f"{seed}.sqlite"
        run.write(place)
        exported = self.run("export", place, "--sqlite", database)
        harmed = any(process.ending == "cut" or process.damaged_thread for process in run.processes)
        self.judge.expect(f"seed {seed}: exit status of the export", exported.returncode, 3 if harmed else 0)
        connection = sqlite3.connect(database)
        expected_database.hold_against(self.judge, run, connection)
        status, report = self.report(database)
        expected = expected_report.report(connection)
        self.judge.tree("report", report, expected)
        self.look_for_more("report", report, expected)
        status, of_run = self.report(place)
        self.judge.expect("exit status of a report of the files", status, 3 if harmed else 0)
        self.judge.expect("partial", of_run["partial"], harmed)
        self.judge.tree("report of the files", of_run, expected)
        if with_exports:
            for name, hold in (("chrome", expected_exports.hold_chrome), ("perfetto", expected_exports.hold_perfetto)):
                file = self.folder / f"{seed}.{name}"
                done = self.run("export", database, f"--{name}", file)
                self.judge.expect(f"exit status of --{name}", done.returncode, 0)
                hold(self.judge, connection, file)
        checked = self.run("export", place, "--check", "--json")
        if checked.returncode not in (0, 1):
            raise SystemExit(f"no check of {place}: {checked.stderr}")
        expected_check.hold_against(self.judge, run, checked.returncode, json.loads(checked.stdout))
        self.change(run, connection, report)
        self.judge.problems[before:] = [f"seed {seed}: {problem}" for problem in self.judge.problems[before:]]

    def look_for_more(self, what, actual, expected):
        if isinstance(actual, dict):
            for key, value in actual.items():
                if isinstance(expected, dict) and key in expected:
                    self.look_for_more(f"{what}.{key}", value, expected[key])
                else:
                    self.not_recomputed.add(f"{what}.{key}")
        elif isinstance(actual, list) and isinstance(expected, list):
            for one, other in zip(actual, expected):
                self.look_for_more(f"{what}[]", one, other)

    def change(self, run, connection, report):
        """Each table once, in the first run that has rows of it. The rows of this database are gone afterwards."""
        for table, column, shown in CHANGES:
            known = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
            row = known and connection.execute(f"SELECT max(rowid) FROM {table} WHERE {column} IS NOT NULL").fetchone()[0]
            if not row or (table, column) in self.changes_seen:
                continue
            self.changes_seen.add((table, column))
            connection.execute(f'UPDATE {table} SET "{column}" = "{column}" + 1 WHERE rowid = ?', (row,))
            by_rows, by_figures = Judge(), Judge()
            expected_database.hold_against(by_rows, run, connection)
            if not by_rows.problems:
                self.judge.say(f"nobody sees a change of {table}.{column} in the database")
            if shown:
                # The last one may be of no step that is measured.
                connection.execute(f'UPDATE {table} SET "{column}" = "{column}" + 1')
                by_figures.tree("report", report, expected_report.report(connection))
                if not by_figures.problems:
                    self.judge.say(f"nobody sees a change of {table}.{column} in the report")
            connection.rollback()


def main():
    slipstream = sys.argv[1]
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else RUNS
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory() as name:
        checker = Checker(slipstream, pathlib.Path(name))
        for number in range(runs):
            checker.check(first + number, with_exports=number < EXPORTED)
    judge = checker.judge
    if runs >= RUNS:
        for table, column, _ in CHANGES:
            if (table, column) not in checker.changes_seen:
                judge.say(f"no run has rows in {table}.{column}")
    more = sorted(checker.not_recomputed - TEXTS)
    if more:
        print("not recomputed: " + ", ".join(more))
    for problem in judge.problems[:MOST_SHOWN]:
        print(problem[:400])
    print(f"{runs} runs, {judge.compared} comparisons, {len(judge.problems)} problems")
    return 1 if judge.problems else 0


if __name__ == "__main__":
    sys.exit(main())
