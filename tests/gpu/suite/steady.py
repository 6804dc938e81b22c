"""Is any program slower under slipstream? For those that have little to gain, and whose steps differ by a percent from
process to process, so that one process of each kind cannot tell.

Several sets of two processes, bare and under slipstream, are started side by side and take turns: in every round each
set's two blocks stand next to each other, in an order that changes. A pair is the two blocks of a set in a round; the
interval is a bootstrap over sets and over pairs in them, so a process that is off widens it. The control costs nothing:
the bare process of each set against that of the next one, in the same rounds.
"""

import dataclasses
import os
import shutil
import time

import pairs

from . import speed, workloads
from .harness import Failed, Skipped
from .paced import Paced, end_all
from .speed import BARE, SLIPSTREAM

GROUP = "steady"
SETS, ROUNDS = 4, 6
BLOCK_SECONDS = 0.3
# No workload may be slower than bare by more than 1 %.
MOST = 1.01
# For one program, the start of its processes included.
PROGRAM_SECONDS = 110
PATTERNS = ("prefetch_stream", "two_streams", "lm_pinned")
CORES_OF_ONE = 2


def examples(suite):
    """name -> Example: what slipstream has little to do for, and what has two cores only."""
    others = speed.other_examples(suite)
    found = {name: others[name] for name in (PATTERNS if not suite.rehearsal else ("prefetch_thread",))}
    moving = {name: example for wave in workloads.waves(suite) for name, example in wave.items()}
    names = ("on_device", "checkpoint", *workloads.TWO_CORES) if not suite.rehearsal else ("on_device",)
    for name in names:
        found[name] = dataclasses.replace(moving[name], hand_tuned=False)
    return found


def prefix_of(name, example, place):
    """What stands in front of a process: two cores are its own, or nobody's steps would be its own."""
    if name not in workloads.TWO_CORES:
        return tuple(example.prefix)
    cores = sorted(os.sched_getaffinity(0))
    first = place * CORES_OF_ONE % (len(cores) - CORES_OF_ONE + 1)
    return ("taskset", "-c", ",".join(map(str, cores[first : first + CORES_OF_ONE])))


class Sets:
    """The processes of one program. sides: variants, and what stands in front of the command of each; a pair is a block
    of one and a block of another. rounds: a list of {(set, variant): seconds}."""

    def __init__(self, suite, name, example, sets, sides=None, group=GROUP):
        self.suite = suite
        self.name = name
        self.example = example
        self.sets = sets
        self.sides = sides or {BARE: [], SLIPSTREAM: suite.run_prefix("--quiet")}
        self.group = group
        self.processes = {}
        self.steps = 0
        self.rounds = []

    def start(self, deadline):
        for number in range(self.sets):
            for variant, under in self.sides.items():
                prefix = [*prefix_of(self.name, self.example, len(self.processes)), *under]
                caches = self.suite.scratch(f"{self.group}/{self.name}/{number}.{variant}")
                env = {
                    "TORCHINDUCTOR_CACHE_DIR": caches / "inductor",
                    "TRITON_CACHE_DIR": caches / "triton",
                    **self.example.env,
                }
                specification = {self.name: self.example.specification(variant)}
                log = f"{self.group}.{self.name}.{number}.{variant}"
                self.processes[number, variant] = Paced(self.suite, log, prefix, specification, env)
        for process in self.processes.values():
            process.read(deadline - time.monotonic())

    def block(self, number, variant, steps):
        return self.processes[number, variant].block(self.name, self.example.lead, steps, timeout=30)

    def measure(self, rounds, deadline):
        multiple = self.example.multiple
        probe = 2 * multiple if multiple > 1 else 6
        sides = list(self.sides)
        seconds = max(BLOCK_SECONDS, self.example.block_seconds)
        self.steps = speed.steps_of_block(seconds, self.block(0, sides[0], probe) / probe, multiple)
        for number, variant in self.processes:
            self.block(number, variant, self.steps)  # the first turn does not count
        for index in range(rounds):
            if time.monotonic() > deadline:
                raise Failed(f"its time was over after {index} of {rounds} rounds")
            found = {}
            for number in range(self.sets):
                shift = (index + number) % len(sides)
                for variant in sides[shift:] + sides[:shift]:
                    found[number, variant] = self.block(number, variant, self.steps)
            self.rounds.append(found)

    def run(self, rounds, deadline):
        try:
            self.start(deadline)
            self.measure(rounds, deadline)
        finally:
            end_all(process for process in self.processes.values() if not process.ended)

    def pairs_of(self, a, b):
        """Seconds a step by set: a(number) and b(number) say whose blocks stand against each other."""
        return [
            [(found[a(number)] / self.steps, found[b(number)] / self.steps) for found in self.rounds]
            for number in range(self.sets)
        ]


def summaries(sets):
    """(second side / first, first / first)."""
    first, second = list(sets.sides)[:2]
    measured = sets.pairs_of(lambda number: (number, first), lambda number: (number, second))
    control = sets.pairs_of(lambda number: (number, first), lambda number: ((number + 1) % sets.sets, first))
    return measured, control


def recorded(suite, sets, most, data):
    """Benchmarks of the second side against the first, held to `most`, and of the first against itself, in the results
    and in `data`; what they say in words."""
    first, second = list(sets.sides)[:2]
    measured, control = summaries(sets)
    for variant, values, limits in ((second, measured, (None, most)), ("control", control, None)):
        found = speed.benchmark(sets.name, f"{sets.group}.{variant}", "s", sets.steps, values[0], limits)
        found.update(groups=values, summary=pairs.summarize(values))
        suite.add_benchmark(found)
        data[variant] = found["summary"]
    return (
        f"{data[second]['a_median'] * 1e3:.3f} ms a step {first}, {second}/{first} {speed.spread(data[second])}; "
        f"{first}/{first} {speed.spread(data['control'])}; {sets.sets} sets, {data[second]['pairs']} pairs of "
        f"{sets.steps} steps"
    )


def verdict(summary, most=MOST):
    """None when the program is slower by no more than that, else what is wrong, or not shown."""
    if summary["ratio_median"] > most:
        shown = "shown" if summary["ratio_low"] > most else "within the noise"
        return f"slower by more than {most - 1:.0%}, {shown}".replace("%", " %")
    return None


def check_of(suite, name, example):
    def check(data):
        if example.prefix and not shutil.which("taskset"):
            raise Skipped("there is no taskset")
        sets = Sets(suite, name, example, 2 if suite.rehearsal else SETS)
        sets.run(2 if suite.rehearsal else ROUNDS, time.monotonic() + min(PROGRAM_SECONDS, suite.remaining()))
        text = recorded(suite, sets, MOST, data)
        if suite.rehearsal:
            return text + "; a rehearsal: not asserted"
        if problem := verdict(data["slipstream"]):
            raise Failed(f"{problem}; {text}")
        return text

    return check


def checks(suite):
    return [(f"{GROUP}.{name}", check_of(suite, name, example)) for name, example in examples(suite).items()]
