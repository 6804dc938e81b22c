"""`slipstream advise` on recorded trainings, each with one thing wrong with it (tests/gpu/faulty), and on one with nothing.

A script names what is wrong in a comment behind the line, `# fault: RULE`. The recorded run's trace is kept in the results
(`advice-SCRIPT.spool.gz`), so that what was said of it can be asked again without a GPU.
"""

import glob
import gzip
import json
import os
import re
import shutil

from .harness import GPU_TESTS, Failed, needs_gpu

GROUP = "advice"
SCRIPTS = GPU_TESTS / "faulty"
WELL_TUNED = "nothing_wrong"
# What a well-tuned script may be told that it could win, as a part of its step.
LEAST_TO_WIN = 0.03
# A trace is kept where it is no longer than this, compressed.
MOST_KEPT = 4 << 20
FAULT = re.compile(r"# fault: ([a-z-]+)$")
REHEARSED = {
    "loader_without_workers": "--batch 2 --size 64",
    "nothing_wrong": "--width 32 --layers 1 --batch 2 --length 8",
    "numbers_every_step": "--width 16 --layers 2 --batch 8",
    "optimizer_in_a_loop": "--width 16 --layers 2 --batch 8",
    "sample_by_sample": "--fields 3 --samples 2",
    "single_precision": "--width 32 --layers 1 --batch 2 --length 8",
    "timed_by_hand": "--batch 2",
}


def scripts(folder=SCRIPTS):
    return sorted(path for path in folder.glob("*.py") if path.stem != "loop")


def faults(script):
    """(the rule that is to find what is wrong, or None; the lines where it is)."""
    found = [
        (number, match[1])
        for number, line in enumerate(script.read_text(encoding="utf-8").splitlines(), 1)
        if (match := FAULT.search(line))
    ]
    rules = {rule for _, rule in found}
    if len(rules) > 1:
        raise Failed(f"{script.name} has more than one fault: {', '.join(sorted(rules))}")
    return (rules.pop() if rules else None), [number for number, _ in found]


def shown(findings):
    """The findings in a line, the first first."""
    parts = []
    for one in findings["advice"]:
        cost = one["cost_per_step_ns"]
        parts.append(f"{one['rule']} {cost / 1e6:.2f} ms" if cost is not None else f"{one['rule']} (cost not known)")
    step = findings["step_time_median_ns"] / 1e6
    return f"{findings['steps']} steps of {step:.2f} ms: {', '.join(parts) or 'nothing'}"


def wrong(findings, rule, lines, script):
    """What is wrong with the findings; None: nothing."""
    if not findings["steps"]:
        return "no steps were found"
    advice = findings["advice"]
    if rule is None:
        most = LEAST_TO_WIN * findings["step_time_median_ns"]
        costly = [one["rule"] for one in advice if (one["cost_per_step_ns"] or 0) > most]
        return f"told to change {', '.join(costly)}" if costly else None
    if not advice or advice[0]["rule"] != rule:
        return f"{rule} does not stand first"
    places = {(os.path.basename(place["file"]), place["line"]) for place in advice[0]["places"]}
    if not places & {(script.name, line) for line in lines}:
        return f"{rule} without a line of the fault's: {sorted(places, key=str)}"
    return None


def keep(suite, script, spools):
    """The trace beside the results, where it is one file and short."""
    if len(spools) != 1:
        return
    packed = suite.out / f"{GROUP}-{script.stem}.spool.gz"
    with open(spools[0], "rb") as source, gzip.open(packed, "wb") as target:
        shutil.copyfileobj(source, target)
    if packed.stat().st_size > MOST_KEPT:
        packed.unlink()


def check_of(suite, script):
    def check(data):
        rule, lines = faults(script)
        folder = suite.scratch(f"{GROUP}/{script.stem}")
        argv = [suite.python, script]
        if suite.rehearsal:
            argv += ["--device", "cpu", "--steps", "2", *REHEARSED[script.stem].split()]
        env = {"SLIPSTREAM_TRACER_DEVICE": "cupti", "PYTHONWARNINGS": "ignore"}
        command = [*suite.run_prefix("--quiet", "--record"), *argv]
        suite.command(f"{GROUP}.{script.stem}", command, env=env, timeout=120, cwd=folder).expect_success(script.name)
        if suite.rehearsal:
            return "a rehearsal: the script runs, and there is no trace"
        runs = glob.glob(str(folder / "slipstream-trace-*"))
        if len(runs) != 1:
            raise Failed(f"{len(runs)} folders with traces, not one")
        keep(suite, script, glob.glob(f"{runs[0]}/*.spool"))
        argv = [suite.slipstream, "advise", runs[0], "--json"]
        answer = suite.command(f"{GROUP}.{script.stem}", argv, timeout=60).expect_success("slipstream advise")
        data["findings"] = findings = json.loads(answer.stdout)
        if problem := wrong(findings, rule, lines, script):
            raise Failed(f"{problem}; {shown(findings)}")
        return shown(findings)

    return check


def checks(suite):
    return [
        (f"{GROUP}.{script.stem}", check_of(suite, script) if suite.rehearsal else needs_gpu(suite, check_of(suite, script)))
        for script in scripts()
    ]
