#!/usr/bin/env python3
"""Replays a recorded allocation trace through every allocator, in turn, and compares them.

    replay.py TRACE --library build/release/libslipstream.so [--turns N] [--check] [--out FILE]

A turn is a process of each: the driver (cudaMalloc, cudaFree), its stream-ordered pool (async: cudaMallocAsync,
cudaFreeAsync), the first pair under slipstream (segments), and RMM's pool where the build has it
(-DSLIPSTREAM_RMM). All do what
replay_allocations.cpp says. The table: ns of an allocation and of a free, the time of a replay over the driver's in
the same turn (median, least to most), and peak live bytes over what the allocator says it reserved, and over what the
driver says is used at that moment more than before; "-" is not known. With --check the bytes of every block are
compared, and the times mean nothing.

`slipstream` and bench/gpu/replay_allocations lie beside the library. LD_LIBRARY_PATH: where a libcudart.so.13 is.
Exit status: 0 all went well, 1 an allocator failed (the others are still shown), 2 wrong usage, a trace that cannot be
read, or no CUDA.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import pairs

DRIVER = "driver"


@dataclasses.dataclass(frozen=True)
class Variant:
    api: str
    # Under slipstream: the allocator's mode, and the decision without which it did nothing.
    mode: str = ""
    acts: str = ""


VARIANTS = {
    DRIVER: Variant("malloc"),
    "async": Variant("async"),
    "segments": Variant("malloc", "segments", "allocator.parked"),
    "rmm": Variant("rmm"),
}
# Where the build has no RMM it is left out, unless it is asked for.
RMM_LIBRARY = "libreplay_rmm.so"


class Unusable(Exception):
    """Nothing can be measured here; the text says why and what to do."""


def clean_environment():
    return {
        name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_") and name != "LD_PRELOAD"
    }


def decided(summary, name):
    """How often slipstream decided so, in the JSON of `slipstream run --summary`."""
    decisions = summary["totals"].get("decisions", {})
    return sum(value["count"] for key, value in decisions.items() if key == name or key.startswith(name + "."))


def run_once(options, name, directory):
    """What replay_allocations prints, or {"status": why not}."""
    variant = VARIANTS[name]
    build = options.library.parent
    argv, environment = [], clean_environment()
    summary = pathlib.Path(directory) / "summary.json"
    if variant.mode:
        argv = [build / "slipstream", "run", "--quiet", "--summary", summary, "--"]
        environment["SLIPSTREAM_ALLOCATOR_MODE"] = variant.mode
    argv += [build / "bench" / "gpu" / "replay_allocations", options.trace, "--api", variant.api]
    argv += ["--turns", options.replays, "--work", options.work]
    argv += ["--threads"] if options.threads else []
    argv += ["--check"] if options.check else []
    argv += ["--device", options.device] if options.device is not None else []
    try:
        done = subprocess.run(
            [str(part) for part in argv],
            env=environment,
            capture_output=True,
            text=True,
            timeout=options.timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"status": "timed_out", "problem": f"took more than {options.timeout:.0f} s; --timeout allows more"}
    if done.returncode == 2:
        raise Unusable(done.stderr.strip())
    try:
        record = json.loads(done.stdout)
    except ValueError:
        return {"status": "failed", "problem": f"exit status {done.returncode}: {done.stderr.strip()[-300:]}"}
    if variant.acts and record["status"] == "ok":
        seen = json.loads(summary.read_text(encoding="utf-8"))
        record["decisions"] = {key: value["count"] for key, value in seen["totals"].get("decisions", {}).items()}
        if not decided(seen, variant.acts):
            record |= {"status": "did_not_act", "problem": f"slipstream decided no {variant.acts}: it served nothing"}
    return record


def summarized(runs):
    """{variant: figures} of {variant: [record of each turn]}; of one that failed, how."""
    found = {}
    for name, records in runs.items():
        failed = [record for record in records if record["status"] != "ok"]
        if failed:
            found[name] = {"status": failed[0]["status"], "problem": problem_of(failed[0])}
            continue
        figures = {"status": "ok"}
        for call in ("allocation_ns", "free_ns"):
            for what in ("p50", "p99", "max"):
                values = [record[call][what] for record in records if record[call]]
                figures[f"{call}_{what}"] = statistics.median(values) if values else None
        figures["turn_seconds"] = statistics.median(statistics.median(record["turn_seconds"]) for record in records)
        for key in ("peak_live_bytes", "reserved_bytes", "driver_used_bytes"):
            values = [record[key] for record in records]
            figures[key] = None if None in values else max(values)
        # Of the turn in which it is worst.
        for key in ("live_of_reserved", "live_of_driver_used"):
            values = [record[key] for record in records]
            figures[key] = None if None in values else min(values)
        driver = runs.get(DRIVER, [])
        if name != DRIVER and len(driver) == len(records) and all(record["status"] == "ok" for record in driver):
            together = [
                (statistics.median(theirs["turn_seconds"]), statistics.median(ours["turn_seconds"]))
                for theirs, ours in zip(driver, records)
            ]
            ratios = [ours / theirs for theirs, ours in together]
            figures["turn_ratio"] = pairs.summarize([together]) | {"least": min(ratios), "most": max(ratios)}
        found[name] = figures
    return found


def problem_of(record):
    return record.get("problem") or (record.get("check") or {}).get("first") or record["status"]


def count(value):
    """A number of ns in at most seven places."""
    if value is None:
        return "-"
    if value < 999_999.5:
        return f"{value:,.0f}"
    return f"{value / 1e6:.1f}M" if value < 999_949_999 else f"{value / 1e9:.1f}G"


def share(value):
    return "-" if value is None else f"{value:.3f}"


def spread_of(ratio):
    digits = 3 if ratio["most"] < 9.9995 else 1 if ratio["most"] < 999.95 else 0
    return f"{ratio['ratio_median']:.{digits}f} ({ratio['least']:.{digits}f}-{ratio['most']:.{digits}f})"


COLUMNS = 79


def table(summary):
    """Lines of at most so many columns, which a terminal of 80 shows."""
    lines = [
        f"{'':14}{'allocation, ns':>15} {'free, ns':>15}  {'replay / driver':<19}{'peak live /':>13}",
        f"{'allocator':14}{'p50':>7} {'p99':>7} {'p50':>7} {'p99':>7}  {'median (range)':<19}{'reserv.':>7}{'used':>6}",
    ]
    for name, figures in summary.items():
        if figures["status"] != "ok":
            lines.append(f"{name:14} {figures['status'].replace('_', ' ')}: {figures['problem']}"[:COLUMNS])
            continue
        calls = " ".join(
            f"{count(figures[f'{call}_ns_{what}']):>7}" for call in ("allocation", "free") for what in ("p50", "p99")
        )
        ratio = figures.get("turn_ratio")
        spread = spread_of(ratio) if ratio else "1" if name == DRIVER else "-"
        live = f"{share(figures['live_of_reserved']):>7}{share(figures['live_of_driver_used']):>6}"
        lines.append(f"{name:14}{calls}  {spread:<19}{live}")
    return "\n".join(lines)


def heading(trace, runs):
    """What was replayed, from the first record that has it."""
    known = [record for records in runs.values() for record in records if "allocations" in record]
    if not known:
        return str(trace)
    first = known[0]
    return (
        f"{trace.name}: {first['allocations']:,} allocations, {first['frees']:,} frees, {first['waits']:,} waits;\n"
        f"{first['recorded_threads']} recorded threads on {first['host_threads']}, {first['streams']} streams, at most "
        f"{first['peak_live_bytes'] / 2**30:.3f} GiB live"
    )


def measure(options):
    """{variant: [record of each turn]}; an allocator that failed is not tried again."""
    runs = {name: [] for name in options.allocators}
    with tempfile.TemporaryDirectory(prefix="slipstream-replay-") as directory:
        start = time.monotonic()
        for turn in range(options.turns):
            if turn and time.monotonic() - start > options.seconds:
                break
            for name, records in runs.items():
                if not records or records[-1]["status"] == "ok":
                    records.append(run_once(options, name, directory))
    return runs


def allocators(text):
    names = text.split(",")
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(VARIANTS)}")
    return names


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of 1 or more")
    return int(text)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path, help="a file of `slipstream export RUN --allocations FILE`")
    parser.add_argument("--library", type=pathlib.Path, required=True, help="libslipstream.so in its build folder")
    parser.add_argument("--turns", type=positive, default=5, help="processes of each allocator (default 5)")
    parser.add_argument("--replays", type=positive, default=3, help="timed replays in a process (default 3)")
    parser.add_argument("--allocators", type=allocators, metavar="NAME,...", help="some only")
    parser.add_argument("--work", choices=("touch", "none"), default="touch", help="on every block (default touch)")
    parser.add_argument("--threads", action="store_true", help="a host thread for each recorded one")
    parser.add_argument("--check", action="store_true", help="compare the bytes of every block")
    parser.add_argument("--device", help="where the trace of one device is played")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="of one process (default 600)")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), metavar="SECONDS", help="after these no further turn begins"
    )
    parser.add_argument("--out", type=pathlib.Path, help="JSON file for every run and the summary")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    options.library = options.library.resolve()
    try:
        for needed in ("libslipstream.so", "slipstream", "bench/gpu/replay_allocations"):
            if not (options.library.parent / needed).exists():
                raise Unusable(f"{options.library.parent} has no {needed}; --library names the one in a build folder")
        if options.allocators is None:
            has_rmm = (options.library.parent / "bench" / "gpu" / RMM_LIBRARY).exists()
            options.allocators = [name for name in VARIANTS if name != "rmm" or has_rmm]
        runs = measure(options)
        digest = hashlib.sha256(options.trace.read_bytes()).hexdigest()
    except (Unusable, OSError) as problem:
        print(f"replay.py: {problem}", file=sys.stderr)
        return 2
    summary = summarized(runs)
    print(heading(options.trace, runs))
    print(table(summary))
    if options.out:
        record = {
            "benchmark": "replay",
            "trace": options.trace.name,
            "sha256": digest,
            "work": "check" if options.check else options.work,
            "turns": max(map(len, runs.values())),
            "runs": runs,
            "summary": summary,
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0 if all(figures["status"] == "ok" for figures in summary.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
