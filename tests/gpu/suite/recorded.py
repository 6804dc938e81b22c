"""Recorded runs, and what `slipstream advise` says of them."""

import glob
import gzip
import json
import os
import re
import shutil

from .harness import Failed, Skipped, last_line

ENVIRONMENT = {"SLIPSTREAM_TRACER_DEVICE": "cupti", "PYTHONWARNINGS": "ignore"}
# What a well-tuned training may be told that it could win, as a part of its step.
LEAST_TO_WIN = 0.03
# A trace is kept where it is no longer than this, compressed.
MOST_KEPT = 8 << 20
SETTING = re.compile(r"^environment: (\w+)=(\S+)$", re.MULTILINE)
# The exit status of a script that cannot run on this machine; it has said why.
NOT_HERE = 77


def settings(script):
    """What the script's first words want in its environment."""
    return dict(SETTING.findall(script.read_text(encoding="utf-8")))


def marks(script, word):
    """[(number of a line, what it says behind `# WORD: `)]"""
    pattern = re.compile(rf"# {word}: ([a-z|-]+)$")
    lines = enumerate(script.read_text(encoding="utf-8").splitlines(), 1)
    return [(number, match[1]) for number, line in lines if (match := pattern.search(line))]


def run_in(folder):
    """The one recorded run in the folder in which the program ran."""
    runs = glob.glob(str(folder / "slipstream-trace-*"))
    if len(runs) != 1:
        raise Failed(f"{len(runs)} folders with traces, not one")
    return runs[0]


def keep(suite, run, name):
    """The trace beside the results as NAME.spool.gz, or NAME.0.spool.gz and NAME.1.spool.gz of two ranks, where it is short."""
    packed = suite.out / f"{name}.spool.gz"
    of_ranks = [suite.out / f"{name}.{rank}.spool.gz" for rank in (0, 1)]
    for old in (packed, *of_ranks):
        old.unlink(missing_ok=True)  # of an earlier run of the suite
    spools = sorted(glob.glob(f"{run}/*.spool"))
    places = {1: [packed], 2: of_ranks}.get(len(spools), [])
    for spool, place in zip(spools, places):
        with open(spool, "rb") as source, gzip.open(place, "wb") as target:
            shutil.copyfileobj(source, target)
    # A part of a run is none.
    if any(place.stat().st_size > MOST_KEPT for place in places):
        for place in places:
            place.unlink()


def record(suite, log, script, options=(), launcher=(), timeout=120, environment=None):
    """The recorded run of a script, which is kept; None in a rehearsal, where `options` has its tiny sizes. `log`: GROUP.NAME.
    `launcher`: what Python runs it by. `environment`: beside the usual one."""
    folder = suite.scratch(log.replace(".", "/", 1))
    argv = [*suite.run_prefix("--quiet", "--record"), suite.python, *launcher, script, *options]
    result = suite.command(log, argv, env=ENVIRONMENT | settings(script) | (environment or {}), timeout=timeout, cwd=folder)
    if result.status == NOT_HERE:
        raise Skipped(last_line(result.stderr))
    result.expect_success(log)
    if suite.rehearsal:
        return None
    run = run_in(folder)
    keep(suite, run, log.replace(".", "-", 1))
    return run


def advise(suite, run, log):
    """What is found in a run, as `slipstream advise --json` has it."""
    answer = suite.command(log, [suite.slipstream, "advise", run, "--json"], timeout=60)
    return json.loads(answer.expect_success("slipstream advise").stdout)


def places(finding):
    """{(file without its folder, line)} that it names."""
    return {(os.path.basename(place["file"] or ""), place["line"]) for place in finding["places"]}


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
