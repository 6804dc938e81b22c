#!/usr/bin/env python3
"""What starting a command costs: bare, with the library preloaded, and under `slipstream run`; one after the other, and many at once.

    start_up.py --build DIR [--before DIR] [--rounds N] [--at-once N] [--json] [-- COMMAND...]

Each round starts the command (default: true) once each way, in an order that changes from round to round, so that whatever the
machine does beside hits all alike; the difference to the bare start of the same round is shown, its median and the middle half.
--before names the build of another version, which takes part as well. --at-once starts so many together, each way in
turn, and shows how long until the last has ended. Milliseconds. Exit status: 0, or 1 where a command failed.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time


def ways(build, label):
    """Name -> (what stands in front of the command, variables)."""
    slipstream, library = build / "slipstream", build / "libslipstream.so"
    return {
        f"preload{label}": ([], {"LD_PRELOAD": str(library)}),
        f"run --quiet{label}": ([slipstream, "run", "--quiet", "--"], {}),
        f"run{label}": ([slipstream, "run", "--"], {}),
        f"run --record{label}": ([slipstream, "run", "--record", "--"], {}),
    }


class Starter:
    def __init__(self, command, place):
        self.command = command
        self.place = place
        self.failed = False
        self.base = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "LD_PRELOAD"))}
        self.base |= {"XDG_STATE_HOME": str(place / "state"), "XDG_CONFIG_HOME": "/nonexistent", "SLIPSTREAM_SYSTEM_DIRECTORY": "/nonexistent"}

    def start(self, way):
        prefix, variables = way
        return subprocess.Popen([*map(str, prefix), *self.command], env={**self.base, **variables}, cwd=self.place, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def milliseconds(self, way, at_once=1):
        """From the first start until the last has ended."""
        begin = time.perf_counter()
        processes = [self.start(way) for _ in range(at_once)]
        for process in processes:
            self.failed |= process.wait() != 0
        return (time.perf_counter() - begin) * 1e3


def summary(values):
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return {"median": statistics.median(ordered), "from": ordered[quarter], "to": ordered[len(ordered) - 1 - quarter]}


def measure(starter, all_ways, rounds, at_once, order):
    """Name -> times; whoever is second in one round is first in another."""
    times = {name: [] for name in all_ways}
    for _ in range(rounds):
        names = list(all_ways)
        order.shuffle(names)
        for name in names:
            times[name].append(starter.milliseconds(all_ways[name], at_once))
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("command", nargs="*", default=["true"])
    options = parser.parse_args()
    all_ways = {"bare": ([], {}), **ways(options.build.resolve(), "")}
    if options.before:
        all_ways |= ways(options.before.resolve(), ", before")
    order = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="slipstream-start-") as place:
        starter = Starter(options.command, pathlib.Path(place))
        measure(starter, all_ways, 3, 1, order)  # into the page cache
        one = measure(starter, all_ways, options.rounds, 1, order)
        many = measure(starter, all_ways, max(3, options.rounds // 20), options.at_once, order) if options.at_once > 1 else {}
    result = {"bare": summary(one["bare"]), "more than bare": {}, "at once": {}}
    for name in all_ways:
        if name != "bare":
            result["more than bare"][name] = summary([mine - bare for mine, bare in zip(one[name], one["bare"])])
        if many:
            result["at once"][name] = summary(many[name])
    if options.json:
        print(json.dumps({"schema": "slipstream-start-up-1", "rounds": options.rounds, "processes_at_once": options.at_once, **result}))
    else:
        line = "  {:24} {:>8.2f}   {:.2f} to {:.2f}"
        print(f"ms, median and middle half of {options.rounds} rounds")
        print(line.format("bare", *result["bare"].values()))
        for name, values in result["more than bare"].items():
            print(line.format("+ " + name, *values.values()))
        for name, values in result["at once"].items():
            print(line.format(f"{options.at_once} x {name}", *values.values()))
    return 1 if starter.failed else 0


if __name__ == "__main__":
    sys.exit(main())
