"""Runs the C++ benchmarks of the build (Google Benchmark programs in bench/) and keeps what they print.

Programs that need a device lie a folder deeper, in bench/gpu/.
"""

import json
import os

from .harness import Failed, Skipped

# Writes a trace for tools/dev/bench/trace_build.py, and measures nothing itself.
NO_BENCHMARKS = {"trace_spool"}


def run(suite, path):
    def check(data):
        result = suite.command(f"bench.{path.name}", [path, "--benchmark_format=json"], timeout=60).expect_success(
            path.name
        )
        try:
            report = json.loads(result.stdout)
        except ValueError as error:
            raise Failed(f"printed no JSON: {error}") from None
        data["benchmarks"] = report.get("benchmarks", [])
        if not data["benchmarks"]:
            raise Failed("ran no benchmark")
        failed = [b["name"] for b in data["benchmarks"] if b.get("error_occurred")]
        if failed:
            raise Failed(f"errors in {', '.join(failed)}")
        return "; ".join(f"{b['name']} {b['real_time']:.4g} {b['time_unit']}" for b in data["benchmarks"][:4])

    return check


def none(_data):
    raise Skipped("no programs in the build folder's bench/")


def checks(suite):
    folder = suite.build / "bench"
    programs = sorted(
        path
        for path in folder.glob("*")
        if path.is_file() and os.access(path, os.X_OK) and ".so" not in path.name and path.name not in NO_BENCHMARKS
    )
    return [(f"bench.{path.name}", run(suite, path)) for path in programs] or [("bench", none)]
