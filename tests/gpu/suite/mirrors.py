"""Copies of sources that mostly stay as they are, out of their mirrors (S80): right bytes, whatever writes them meanwhile."""

import json

from . import harness, levels, sanitizer
from .harness import Failed, Skipped
from .summary import decided

COPIES, COPIES_OF_A_REHEARSAL = 20_000, 600
LEVELS = (levels.RUNTIME, levels.DRIVER)
MOST = "SLIPSTREAM_TRANSFER_MAX_MIRRORED"
# What `slipstream doctor --json` says where there can be any.
THERE = "of sources that do not change"


class ChangingSources(sanitizer.Program):
    rehearses = True

    def __init__(self, suite):
        super().__init__(suite, "changing_sources", "mirrors", trial=("1",))
        if suite.rehearsal:
            self.env = {"LD_LIBRARY_PATH": str(suite.build / "sim"), "SIMCUDA_SEED": "0", "SIMCUDA_DEVICES": "1"}

    @property
    def simulated(self):
        return self.suite.build / "tests" / "gpu" / self.name


def said_by_doctor(suite):
    command = [suite.slipstream, "doctor", "--json", "--", "true"]
    doctor = suite.command("mirrors", command, env={MOST: "1GiB"}, timeout=60)
    try:
        return json.loads(doctor.stdout)["mirrors"]
    except (ValueError, KeyError) as error:
        raise Failed(f"slipstream doctor: {error!r}") from None


def expect_right(copies, result):
    result.expect_success("changing_sources")
    if result.stdout != f"changing sources: {copies} copies, 0 wrong\n".encode():
        raise Failed(f"it printed {result.stdout!r:.200}")


def check(suite, program, level):
    copies = COPIES_OF_A_REHEARSAL if suite.rehearsal else COPIES

    def run(data):
        said = said_by_doctor(suite)
        expect_right(100, program.run(arguments=["100"]))
        summary = suite.scratch("mirrors") / f"{level.name}.json"
        prefix = suite.run_prefix("--quiet", "--summary", summary)
        env = {MOST: "1GiB", "SLIPSTREAM_TRANSFER_START": "now"} | level.environment()
        expect_right(copies, program.run(prefix, [str(copies)], timeout=120, env=env))
        if said != THERE:
            raise Skipped(f"all bytes as expected, and mirrors are {said}")
        data["mirrored"] = decided(harness.read_json(summary, "summary"), "transfer.h2d.mirrored")
        if not data["mirrored"]:
            raise Failed("no copy came out of a mirror, so this shows nothing")
        return f"{copies} copies, {data['mirrored']} of them out of mirrors, all bytes as expected"

    return run


def checks(suite):
    program = ChangingSources(suite)
    return [(f"mirrors.{level.name}", check(suite, program, level)) for level in LEVELS]
