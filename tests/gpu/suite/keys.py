"""What does a key of the policy cost, or bring, in the trainings that it was made for?

Sets of a process with the default policy and one with each setting take turns as in steady, the hand-tuned program beside
them. A turn lasts half a second and comes again some seconds later, so what slipstream gives back when nobody has wanted it
for a while is gone by then: a program with rare checkpoints. What the program does all the time stands behind the first
steps of a turn, which are not timed.
"""

import time

import pairs

from . import speed, steady, workloads
from .older import HAND_TUNED

GROUP = "keys"
DEFAULT = "default"
SETS = 4
PROGRAM_SECONDS = 150
# Program -> what the side is called -> variables of its process.
SETTINGS = {
    "checkpoint": {
        "small pages": {"SLIPSTREAM_HOST_HUGE_PAGES": "off"},
        "nothing kept": {"SLIPSTREAM_HOST_MAX_KEPT": "0"},
        "neither": {"SLIPSTREAM_HOST_HUGE_PAGES": "off", "SLIPSTREAM_HOST_MAX_KEPT": "0"},
    },
    "offload": {
        "mirrors": {"SLIPSTREAM_TRANSFER_MAX_MIRRORED": "4GiB"},
        "small pages": {"SLIPSTREAM_HOST_HUGE_PAGES": "off"},
    },
}
REHEARSED = {"small_tensors": {"nothing kept": {"SLIPSTREAM_HOST_MAX_KEPT": "0"}}}


def sides(suite, settings):
    """What stands in front of a command for each side, the hand-tuned one included."""
    under = suite.run_prefix("--quiet")
    found = {DEFAULT: under}
    for name, variables in settings.items():
        found[name] = ["env", *(f"{variable}={value}" for variable, value in variables.items()), *under]
    found[HAND_TUNED] = []
    return found


def check_of(suite, name, example, settings):
    def check(data):
        sets = steady.Sets(suite, name, example, 2 if suite.rehearsal else SETS, sides(suite, settings), GROUP)
        sets.run(2 if suite.rehearsal else steady.ROUNDS, time.monotonic() + min(PROGRAM_SECONDS, suite.remaining()))
        parts = []
        for side in sets.sides:
            # The control: each default process against the next one.
            other = (lambda number: ((number + 1) % sets.sets, DEFAULT)) if side == DEFAULT else (lambda number: (number, side))
            values = sets.pairs_of(lambda number: (number, DEFAULT), other)
            found = speed.benchmark(name, f"{GROUP}.{side}", "s", sets.steps, values[0], None)
            found.update(groups=values, summary=pairs.summarize(values))
            suite.add_benchmark(found)
            data[side] = found["summary"]
            parts.append(f"{side} {speed.spread(found['summary'])}")
        step = data[DEFAULT]["a_median"] * 1e3
        return f"{step:.3f} ms a step by default; of it: {', '.join(parts)}; {sets.sets} sets of {sets.steps} steps; reported, not asserted"

    return check


def checks(suite):
    moving = {name: example for wave in workloads.waves(suite) for name, example in wave.items()}
    settings = REHEARSED if suite.rehearsal else SETTINGS
    return [(f"{GROUP}.{name}", check_of(suite, name, moving[name], of)) for name, of in settings.items()]
