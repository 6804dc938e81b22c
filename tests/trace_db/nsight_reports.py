#!/usr/bin/env python3
"""Nsight Systems' own reports and rules on a database of ours: the judge of its layout.

    nsight_reports.py SLIPSTREAM SAMPLE_RUN

They are NVIDIA's, and run where they are installed: as `nsys` on PATH or in SLIPSTREAM_TEST_NSYS, in Nsight Systems' folder, or in
the copy that Nsight Compute brings. Exit status 77 where there is none.
"""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FOLDERS = (
    "/opt/nvidia/nsight-systems*/*/target-linux-x64",
    "/opt/nvidia/nsight-compute*/*/host/target-linux-x64",
    "/usr/local/cuda*/nsight-systems*/target-linux-x64",
    "/usr/local/cuda*/nsight-compute*/host/target-linux-x64",
    "/usr/lib/nsight-systems/target-linux-x64",
)
# What the sample has (sample_run.h).
STEPS = 3
FUNCTIONS = ("cudaMalloc", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaLaunchKernel")


def find_nsys():
    named = os.environ.get("SLIPSTREAM_TEST_NSYS") or shutil.which("nsys")
    if named:
        return named
    for folder in FOLDERS:
        for candidate in sorted(glob.glob(folder + "/nsys"), reverse=True):
            if os.access(candidate, os.X_OK):
                return candidate
    return None


def output_of(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return done.returncode, done.stdout


class Report:
    """One that `nsys` printed, and what is wrong with it."""

    def __init__(self, name, text):
        self.name, self.text, self.problems = name, text, []

    def expect(self, pattern, count):
        found = len(re.findall(pattern, self.text, re.MULTILINE))
        if found != count:
            self.problems.append(f"{self.name}: {found} lines like {pattern!r}, expected {count}")


def judge(nsys, database):
    reports = []
    for name in ("cuda_api_sum", "cuda_api_trace", "nvtx_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum"):
        reports.append(Report(name, output_of(nsys, "stats", "--report", name, database)[1]))
    calls, trace, ranges, kernels, copies = reports
    for function in FUNCTIONS:
        calls.expect(rf"^ +[\d.]+ +[\d,]+ +{STEPS} .* {function} *$", 1)
        trace.expect(rf" {function} +\d+ .* {process_of(database)} ", STEPS)
    ranges.expect(rf" {STEPS} .* StartEnd +:step *$", 1)
    # What was not recorded is said not to be there, and is no error.
    kernels.expect(r"^SKIPPED: .* does not contain CUDA kernel data", 1)
    copies.expect(r"^SKIPPED: .* does not contain GPU memory data", 1)
    rules = Report("analyze", output_of(nsys, "analyze", database)[1])
    rules.expect(r" cudaStreamSynchronize_v\d+ *$", STEPS)
    reports.append(rules)
    for report in reports:
        report.expect(r"Traceback|no such (table|column)|ERROR", 0)
    return reports


def process_of(database):
    import sqlite3

    with sqlite3.connect(database) as connection:
        return f"{connection.execute('SELECT pid FROM PROCESSES').fetchone()[0]:,}"


def main():
    slipstream, sample_run = sys.argv[1:3]
    nsys = find_nsys()
    if nsys is None:
        print("skipped: no nsys here (Nsight Systems, or the copy in Nsight Compute)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        run, database = pathlib.Path(folder, "run"), pathlib.Path(folder, "trace.sqlite")
        subprocess.run([sample_run, run], check=True)
        subprocess.run([slipstream, "export", run, "--sqlite", database], check=True)
        reports = judge(nsys, str(database))
    problems = [problem for report in reports for problem in report.problems]
    for report in reports:
        if report.problems:
            print(f"---- {report.name}\n{report.text}")
    for problem in problems:
        print(problem)
    print(f"{nsys}: {len(reports)} reports, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
