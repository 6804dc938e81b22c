"""Recorded runs, and what `slipstream advise` says of them."""

import glob
import gzip
import json
import shutil

from .harness import Failed

ENVIRONMENT = {"SLIPSTREAM_TRACER_DEVICE": "cupti", "PYTHONWARNINGS": "ignore"}
# What a well-tuned training may be told that it could win, as a part of its step.
LEAST_TO_WIN = 0.03
# A trace is kept where it is no longer than this, compressed.
MOST_KEPT = 8 << 20


def run_in(folder):
    """The one recorded run in the folder in which the program ran."""
    runs = glob.glob(str(folder / "slipstream-trace-*"))
    if len(runs) != 1:
        raise Failed(f"{len(runs)} folders with traces, not one")
    return runs[0]


def keep(suite, run, name):
    """The trace beside the results as NAME.spool.gz, where it is one file and short."""
    packed = suite.out / f"{name}.spool.gz"
    packed.unlink(missing_ok=True)  # of an earlier run of the suite
    spools = glob.glob(f"{run}/*.spool")
    if len(spools) != 1:
        return
    with open(spools[0], "rb") as source, gzip.open(packed, "wb") as target:
        shutil.copyfileobj(source, target)
    if packed.stat().st_size > MOST_KEPT:
        packed.unlink()


def advise(suite, run, log):
    """What is found in a run, as `slipstream advise --json` has it."""
    answer = suite.command(log, [suite.slipstream, "advise", run, "--json"], timeout=60)
    return json.loads(answer.expect_success("slipstream advise").stdout)


def costly(findings, but=()):
    """The rules, but for some, that would win more than a well-tuned training may be told."""
    most = LEAST_TO_WIN * findings["step_time_median_ns"]
    return [one["rule"] for one in findings["advice"] if one["rule"] not in but and (one["cost_per_step_ns"] or 0) > most]


def shown(findings):
    """The findings in a line, the first first."""
    parts = []
    for one in findings["advice"]:
        cost = one["cost_per_step_ns"]
        parts.append(f"{one['rule']} {cost / 1e6:.2f} ms" if cost is not None else f"{one['rule']} (cost not known)")
    step = findings["step_time_median_ns"] / 1e6
    return f"{findings['steps']} steps of {step:.2f} ms: {', '.join(parts) or 'nothing'}"
