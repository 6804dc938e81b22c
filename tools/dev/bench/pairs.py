#!/usr/bin/env python3
"""Compares two commands by alternating them, so that what drifts on the machine drifts for both.

    pairs.py --pairs 7 --a "CMD" --b "CMD" --metric json:step_seconds --out results.json

Each pair runs both commands once, each in a fresh process; every other pair runs b first. The metric is one number a
run:
  wall           seconds from start to exit
  json:PATH      a number in JSON, PATH like median.seconds or runs.0.time (of a list, the median); read from the file
                 that stands for {out} in the command, else from standard output: all of it, or its last line of JSON
The ratio of a pair is b / a. Reported: the median of the ratios and a bootstrap 95 % interval of that median. Every
pair is kept. Exit status: 0 measured, 1 a command failed or gave no metric, 2 wrong usage.

Other programs import this for its arithmetic.
"""

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

CONFIDENCE = 0.95
RESAMPLES = 4000


class MeasurementError(Exception):
    """A run failed or gave no metric; the text says which and why."""


def bootstrap_interval(groups, statistic=statistics.median, confidence=CONFIDENCE, resamples=RESAMPLES, seed=1):
    """A percentile bootstrap interval of the statistic over all values of all groups.

    Values of one group (one set of processes, say) may share an error. So groups are drawn first, with replacement,
    then values within each drawn group: one group that is off widens the interval instead of being averaged away. With
    one group this is the ordinary bootstrap. Seeded: the same values give the same interval.
    """
    groups = [list(group) for group in groups if group]
    if not groups:
        raise ValueError("no values")
    draw = random.Random(seed)
    results = []
    for _ in range(resamples):
        chosen = groups if len(groups) == 1 else [draw.choice(groups) for _ in groups]
        results.append(statistic([draw.choice(group) for group in chosen for _ in group]))
    results.sort()
    cut = (1 - confidence) / 2
    return results[int(cut * (resamples - 1))], results[int((1 - cut) * (resamples - 1) + 0.5)]


def summarize(groups):
    """groups: lists of pairs (a, b), a list for each set of processes. Medians; the median ratio and its interval."""
    pairs = [pair for group in groups for pair in group]
    ratios = [[b / a for a, b in group] for group in groups]
    low, high = bootstrap_interval(ratios)
    return {
        "pairs": len(pairs),
        "groups": len(groups),
        "a_median": statistics.median(a for a, _ in pairs),
        "b_median": statistics.median(b for _, b in pairs),
        "difference_median": statistics.median(b - a for a, b in pairs),
        "ratio_median": statistics.median(ratio for group in ratios for ratio in group),
        "ratio_low": low,
        "ratio_high": high,
        "confidence": CONFIDENCE,
    }


def run_alternating(pairs, run_a, run_b):
    """Calls run_a and run_b in turn, each giving one number; returns the list of (a, b)."""
    measured = []
    for index in range(pairs):
        if index % 2 == 0:
            a = run_a()
            b = run_b()
        else:
            b = run_b()
            a = run_a()
        measured.append((a, b))
    return measured


def lookup(value, path):
    """The number at a dotted path; the median where the path ends at a list of numbers."""
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise MeasurementError(f'no "{part}" in the JSON on the path "{path}"') from None
    if isinstance(value, list) and value and all(isinstance(item, (int, float)) for item in value):
        value = statistics.median(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MeasurementError(f'"{path}" is no number: {value!r:.80}')
    return value


def json_of(text):
    """The whole text as JSON, else its last line that is JSON."""
    for candidate in [text, *reversed(text.splitlines())]:
        try:
            return json.loads(candidate)
        except ValueError:
            continue
    raise MeasurementError("no JSON in the output")


def measure(command, metric, timeout):
    """Runs the command once; returns its metric."""
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "out.json")
        argv = [part.replace("{out}", out) for part in shlex.split(command)]
        start = time.perf_counter()
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MeasurementError(f"{command}: {error}") from None
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            raise MeasurementError(f"{command}: exit status {done.returncode}\n{done.stderr[-2000:]}")
        if metric == "wall":
            return seconds
        text = done.stdout
        if "{out}" in command:
            try:
                with open(out, encoding="utf-8") as file:
                    text = file.read()
            except OSError as error:
                raise MeasurementError(f"{command}: {error}") from None
        try:
            return lookup(json_of(text), metric.removeprefix("json:"))
        except MeasurementError as error:
            raise MeasurementError(f"{command}: {error}") from None


def table(pairs, summary, label_a, label_b):
    lines = [f"{'pair':>4}  {label_a:>14}  {label_b:>14}  {'ratio':>8}"]
    for index, (a, b) in enumerate(pairs, 1):
        lines.append(f"{index:>4}  {a:>14.6g}  {b:>14.6g}  {b / a:>8.5f}")
    lines.append(
        f"{'med':>4}  {summary['a_median']:>14.6g}  {summary['b_median']:>14.6g}  {summary['ratio_median']:>8.5f}"
        f"  (95 % interval {summary['ratio_low']:.5f} to {summary['ratio_high']:.5f}, {summary['pairs']} pairs)"
    )
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a", required=True, metavar="CMD", help="the reference command")
    parser.add_argument("--b", required=True, metavar="CMD", help="the command compared with it")
    parser.add_argument("--label-a", default="a")
    parser.add_argument("--label-b", default="b")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument(
        "--warm-up", type=int, default=1, help="runs of each command before the first pair, not counted"
    )
    parser.add_argument("--metric", default="wall", help="wall or json:PATH")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run")
    parser.add_argument("--out", help="JSON file for the pairs and the summary")
    args = parser.parse_args(arguments)
    if args.pairs < 1 or args.warm_up < 0:
        parser.error("--pairs must be at least 1, --warm-up at least 0")
    if args.metric != "wall" and not args.metric.startswith("json:"):
        parser.error(f'--metric is "{args.metric}"; expected wall or json:PATH')
    try:
        for _ in range(args.warm_up):
            measure(args.a, args.metric, args.timeout)
            measure(args.b, args.metric, args.timeout)
        pairs = run_alternating(
            args.pairs,
            lambda: measure(args.a, args.metric, args.timeout),
            lambda: measure(args.b, args.metric, args.timeout),
        )
        if any(a <= 0 for a, _ in pairs):
            raise MeasurementError("a metric of zero or less has no ratio")
    except MeasurementError as error:
        print(f"pairs.py: {error}", file=sys.stderr)
        return 1
    summary = summarize([pairs])
    print(table(pairs, summary, args.label_a, args.label_b))
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            record = {"a": args.a, "b": args.b, "metric": args.metric, "values": pairs, "summary": summary}
            json.dump(record, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
