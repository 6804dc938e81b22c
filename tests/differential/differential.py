#!/usr/bin/env python3
"""The same CUDA programs bare and under a preloaded library: every status and every byte must be the same.

Runs programs of differential_runner for a range of seeds in two (or more) ways, compares what they observed, and on a
difference, a crash or a hang makes the program small and writes it down. README.md beside this file says more.

Exit status: 0 no difference, 1 a difference (the file that shows it is named), 2 the test itself could not run.
"""

import argparse
import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import shrink
from running import RunnerError, Variant, compare, existing, first_difference

# Orders of the device in which a program of a file runs under the library.
KEPT_ORDERS = 12

# Families take turns in a long run; the second number is how many programs of it run for each thousand of the first.
LONG_RUN_SHARES = {"main": 1000, "free": 100, "managed": 50, "devices": 100}


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runner", required=True, help="differential_runner")
    parser.add_argument("--preload", help="the library; without one the runs differ in the simulator's seed only")
    parser.add_argument("--environment", action="append", default=[], metavar="NAME=VALUE", help="for every run")
    parser.add_argument("--preload-environment", action="append", default=[], metavar="NAME=VALUE",
                        help="for the runs under the library")
    parser.add_argument("--beside", metavar="LIBRARY", help="preloaded in every run, and behind the library that --preload names")
    parser.add_argument("--beside-in-front", action="store_true", help="in front of it")
    parser.add_argument("--sim-seeds", type=int, default=4, metavar="N",
                        help="ways to order the device in which a program must do the same (default 4); with --preload "
                        "they are only tried on what is found")
    parser.add_argument("--family", choices=["main", "free", "managed", "devices"], default="main")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000, help="programs")
    parser.add_argument("--chunk", type=int, default=5000, help="programs in one process")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--program", action="append", default=[], metavar="FILE", help="programs in text form instead")
    parser.add_argument("--hours", type=float, help="fresh seeds for so long; goes on after a difference")
    parser.add_argument("--overnight", action="store_true", help="the same, until stopped")
    parser.add_argument("--counts", metavar="TOOL", help="differential_counts: proves that the library saw the calls")
    parser.add_argument("--require", action="append", default=[], metavar="NAME",
                        help="with --counts: a decision (or the beginning of its name) that must have been taken")
    parser.add_argument("--watchdog", type=float, default=120, help="seconds without a sign of life that are a hang")
    parser.add_argument("--out", default="build/differential-found", help="folder for what is found")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--shrink-seconds", type=float, default=300, help="time for making one program small")
    arguments = parser.parse_args()
    for pair in arguments.environment + arguments.preload_environment:
        if "=" not in pair:
            parser.error(f"not NAME=VALUE: {pair}")
    return arguments


class Counts:
    """What the library counted, over all of its processes."""

    def __init__(self, tool, required):
        self.tool = tool
        self.required = required
        self.sums = {}
        self.lock = threading.Lock()

    def add(self, directory):
        done = subprocess.run([self.tool, directory], capture_output=True, text=True)
        if done.returncode != 0:
            raise RunnerError(f"{self.tool} {directory}: {done.stderr.strip()}")
        with self.lock:
            for line in done.stdout.splitlines():
                name, _, count = line.rpartition(" ")
                self.sums[name] = self.sums.get(name, 0) + int(count)

    def missing(self):
        """What should have happened and did not."""
        wanted = ["call cudaMemcpyAsync", *("decision " + name for name in self.required)]
        return [name for name in wanted if not any(seen.startswith(name) for seen in self.sums)]

    def summary(self):
        decisions = {name.split(" ")[1]: count for name, count in self.sums.items() if name.startswith("decision ")}
        calls = sum(count for name, count in self.sums.items() if name.startswith("call "))
        lines = [f"{calls:,} calls went through the library"]
        lines += [f"  {name} {count:,}" for name, count in sorted(decisions.items())]
        return "\n".join(lines)


class Session:
    def __init__(self, arguments):
        self.arguments = arguments
        self.out = pathlib.Path(arguments.out)
        pairs = [pair.split("=", 1) for pair in arguments.environment]
        preload_pairs = [pair.split("=", 1) for pair in arguments.preload_environment]
        beside = (existing(arguments.beside), arguments.beside_in_front) if arguments.beside else None
        bare = Variant("bare", arguments.runner, dict(pairs), arguments.watchdog, beside=beside)
        orders = [bare.with_sim_seed(offset) for offset in range(1, arguments.sim_seeds)]
        if arguments.preload:
            self.variants = [bare, bare.with_preload(arguments.preload, dict(preload_pairs))]
            self.orders = orders
        else:
            self.variants = [bare, *orders]
            self.orders = []
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-differential-"))
        self.counts = Counts(arguments.counts, arguments.require) if arguments.counts else None
        self.programs = 0
        self.found = []
        self.begun = time.monotonic()
        self.lock = threading.Lock()

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    # ---- one piece of work: some programs of one process, every way
    def run_all(self, source, variants):
        """The outcomes of one source in the variants, in order."""
        outcomes = []
        for variant in variants:
            if variant.preload and self.counts:
                directory = tempfile.mkdtemp(dir=self.scratch)
                outcomes.append(variant.run(source, {"SLIPSTREAM_RUN_DIRECTORY": directory}))
                # A process that crashed may have left half a file.
                if outcomes[-1].kind == "finished":
                    self.counts.add(directory)
                shutil.rmtree(directory, ignore_errors=True)
            else:
                outcomes.append(variant.run(source))
        return outcomes

    def chunk(self, family, seed, count):
        """Runs the programs; whether they were all the same."""
        source = ["--family", family, "--seed", str(seed), "--count", str(count)]
        outcomes = self.run_all(source, self.variants)
        if outcomes[0].kind != "finished":
            self.report(family, seed, 0, outcomes, self.variants[1])
            return False
        with self.lock:
            self.programs += count
        for variant, outcome in zip(self.variants[1:], outcomes[1:]):
            index = first_difference(outcomes[0], outcome)
            if index is not None:
                self.report(family, seed, index, [outcomes[0], outcome], variant)
                return False
        return True

    def kept(self, path):
        """Runs the programs of a file twice in one process: an engine may only begin with what it sees first."""
        try:
            text = pathlib.Path(path).read_text()
        except OSError as error:
            raise RunnerError(f"{path}: {error.strerror}") from error
        twice = self.scratch / pathlib.Path(path).name
        twice.write_text(text + "\n" + text)
        # Many a difference shows in some orders of the device only; generated programs have each their own.
        other_orders = [self.variants[-1].with_sim_seed(offset) for offset in range(1, KEPT_ORDERS)]
        variants = [*self.variants, *(other_orders if self.arguments.preload else [])]
        outcomes = self.run_all(["--program", twice], variants)
        if outcomes[0].kind != "finished":
            raise RunnerError(f"{path}: {outcomes[0].describe()}")
        with self.lock:
            self.programs += len(outcomes[0].lines)
        for variant, outcome in zip(variants[1:], outcomes[1:]):
            if first_difference(outcomes[0], outcome) is not None:
                self.finish(pathlib.Path(path).stem, twice.read_text(), variant)
                return False
        return True

    # ---- a difference
    def report(self, family, seed, index, outcomes, variant):
        if outcomes[0].kind != "finished":
            raise RunnerError(f"the programs {family} {seed}... do not run bare: {outcomes[0].describe()}")
        failing = seed + index
        print(f"program {failing} ({family}): {outcomes[1].describe(index)} under '{variant.name}'", flush=True)
        name = f"{family}-{failing}"
        text = self.reproduce(family, seed, failing, variant)
        if text is None:
            path = self.write(name, "", [
                f"# Not reproduced: programs {seed} to {failing} of the family {family} in one process,",
                f"# {outcomes[1].describe(index)} under '{variant.name}'.", *outcomes[1].tail()])
            print(f"it did not happen again: {path}", flush=True)
            self.found.append(path)
            return
        self.finish(name, text, variant)

    def reproduce(self, family, first, failing, variant):
        """The least number of programs up to the failing one that show it, as text; None if none do."""
        for _ in range(3):
            before = 0
            while True:
                seed = max(first, failing - before)
                text = self.variants[0].print_programs(family, seed, failing - seed + 1)
                if compare(self.variants[0], variant, text, self.scratch).kind != "same":
                    return text
                if seed == first:
                    break
                before = before * 4 + 1
        return None

    def finish(self, name, text, variant):
        if not self.arguments.no_shrink:
            text = shrink.shrink(text, self.variants[0], variant, self.orders, self.scratch,
                                 self.arguments.shrink_seconds)
        result = compare(self.variants[0], variant, text, self.scratch, trace=True)
        lines = [
            f"# Found by the differential test under '{variant.name}': {result.kind}. What it says is a comment, so this file",
            "# can be run: differential.py --program FILE, or differential_runner --trace --program FILE.",
            "#",
            "# First difference:",
            *(f"#   {line}" for line in result.first_lines()),
            "#",
            f"# Bare:\n{result.commented(0)}",
            f"# Under '{variant.name}':\n{result.commented(1)}",
        ]
        path = self.write(name, text, lines)
        operations = sum(1 for line in text.splitlines() if line.startswith("t"))
        print(f"\n{text}\n" + "\n".join(result.first_lines()))
        print(f"\n{operations} operations: {path}", flush=True)
        with self.lock:
            self.found.append(path)

    def write(self, name, text, lines):
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{name}.txt"
        path.write_text("\n".join(lines) + "\n" + text)
        return path

    # ---- all of it
    def over(self, pieces, go_on):
        """Runs (family, seed, count) pieces in parallel until one shows a difference (or, `go_on`, until they end)."""
        pieces = iter(pieces)
        next_line = time.monotonic() + 10
        with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
            running = set()
            stopped = False
            while True:
                while not stopped and len(running) < self.arguments.jobs:
                    piece = next(pieces, None)
                    if piece is None:
                        stopped = True
                    else:
                        running.add(pool.submit(self.chunk, *piece))
                if not running:
                    return
                done, running = concurrent.futures.wait(running, timeout=5,
                                                        return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    stopped = (not future.result() and not go_on) or stopped
                if time.monotonic() >= next_line:
                    next_line = time.monotonic() + 10
                    self.say()

    def say(self):
        seconds = time.monotonic() - self.begun
        print(f"{self.programs:,} programs in {seconds:.0f} s, {self.programs / seconds:.0f} a second, "
              f"{len(self.found)} differences", flush=True)

    def pieces(self):
        arguments = self.arguments
        last = arguments.seed + arguments.count
        for seed in range(arguments.seed, last, arguments.chunk):
            yield arguments.family, seed, min(arguments.chunk, last - seed)

    def endless_pieces(self):
        # Seeds that no other night has had.
        seed = int(time.time()) * 100000 if self.arguments.seed == 1 else self.arguments.seed
        end = None if self.arguments.overnight else self.begun + self.arguments.hours * 3600
        print(f"seeds from {seed}; ctrl-c ends it", flush=True)
        while end is None or time.monotonic() < end:
            for family, share in LONG_RUN_SHARES.items():
                yield family, seed, max(1, self.arguments.chunk * share // 1000)
            seed += self.arguments.chunk

    def run(self):
        endless = self.arguments.overnight or self.arguments.hours is not None
        try:
            if self.arguments.program:
                for path in self.arguments.program:
                    self.kept(path)
            elif endless:
                self.over(self.endless_pieces(), True)
            else:
                self.over(self.pieces(), False)
        except KeyboardInterrupt:
            print("stopped")
        self.say()
        if self.found:
            return 1
        if self.counts and self.programs > 0:
            print(self.counts.summary())
            for name in self.counts.missing():
                print(f"the library's counters do not show: {name}")
            if self.counts.missing():
                return 2
        return 0


def main():
    sys.stdout.reconfigure(line_buffering=True)
    session = None
    try:
        session = Session(read_arguments())
        return session.run()
    except RunnerError as error:
        print(f"differential.py: {error}", file=sys.stderr)
        return 2
    finally:
        if session:
            session.close()


if __name__ == "__main__":
    sys.exit(main())
