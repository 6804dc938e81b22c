"""The ladder of the tuning guides (tests/gpu/train_ladder.py): every rung bare and under slipstream, and what
`slipstream advise` says on it, which must name the next one first.

Speeds are of runs in turn, and are reported. The last rung is what slipstream does by itself, so there is nothing to name
on the one below, and nothing on the last.
"""

import re

from . import recorded
from .harness import GPU_TESTS, Failed, needs_gpu

GROUP = "ladder"
PROGRAM = GPU_TESTS / "train_ladder.py"
# Rules of which one names the rung that comes next.
NEXT = {
    "baseline": ("mixed", {"no-tensor-cores"}),
    "mixed": ("batch", {"idle-sms", "host-bound", "launch-bound"}),
    "batch": ("uint8", {"float-images"}),
    "uint8": ("workers", {"loader-wait"}),
    "workers": (None, set()),
    "pinned": (None, set()),
}
RUNGS = tuple(NEXT)
# Rules about what slipstream does by itself.
DONE_BY_SLIPSTREAM = {"pageable-copies", "blocking-copies"}
SPEED = re.compile(r"([0-9.]+) samples/s$", re.MULTILINE)
TURNS = 2
REHEARSED = "--device cpu --samples 8 --small-batch 4 --large-batch 8 --few-workers 1 --size 32"


def speed_of(output):
    found = SPEED.findall(output)
    if len(found) != 1:
        raise Failed(f"{len(found)} speeds in {output[-200:]!r}")
    return float(found[0])


def named(findings, rung):
    """What is wrong with what was said on a rung; None: nothing."""
    if not findings["steps"]:
        return "no steps were found"
    rules = [one["rule"] for one in findings["advice"]]
    following, wanted = NEXT[rung]
    if following:
        if not rules or rules[0] not in wanted:
            return f"none of {', '.join(sorted(wanted))}, which would name {following}, stands first"
    elif costly := recorded.costly(findings, DONE_BY_SLIPSTREAM):
        return f"told to change {', '.join(costly)}"
    if "pageable-copies" in rules:
        return "pageable copies are left, which slipstream takes care of"
    return None


def shown(speeds):
    """`speeds`: rung -> [(bare, under slipstream), one a turn]."""
    parts = []
    for rung, pairs in speeds.items():
        ratios = sorted(ours / bare for bare, ours in pairs)
        middle = sorted(bare for bare, _ in pairs)[len(pairs) // 2]
        parts.append(f"{rung} {middle:.0f} samples/s bare, {ratios[len(ratios) // 2]:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    return "; ".join(parts)


def run(suite, rung, prefix, log, *options, env=None):
    argv = [*prefix, suite.python, PROGRAM, "--rung", rung, *options]
    if suite.rehearsal:
        argv += REHEARSED.split()
    folder = suite.scratch(f"{GROUP}/{rung}")
    env = {"PYTHONWARNINGS": "ignore", **(env or {})}
    return folder, suite.command(log, argv, env=env, timeout=150, cwd=folder).expect_success(f"{rung} {log}")


def speeds(suite):
    def check(data):
        data["speeds"] = found = {rung: [] for rung in RUNGS}
        # The other way round in every second turn.
        for turn in range(1 if suite.quick or suite.rehearsal else TURNS):
            for rung in RUNGS:
                sides = {"bare": (), "slipstream": suite.run_prefix("--quiet")}
                names = list(sides) if turn % 2 == 0 else list(sides)[::-1]
                got = {
                    name: speed_of(run(suite, rung, sides[name], f"{GROUP}.{name}", "--samples", "8192")[1].stdout.decode())
                    for name in names
                }
                found[rung].append((got["bare"], got["slipstream"]))
        return f"{shown(found)}; reported, not asserted"

    return check


def advice(suite, rung):
    def check(data):
        prefix = suite.run_prefix("--quiet", "--record")
        log = f"{GROUP}.{rung}"
        folder, _ = run(suite, rung, prefix, log, "--samples", "2048", env=recorded.ENVIRONMENT)
        if suite.rehearsal:
            return "a rehearsal: it trains, and there is no trace"
        trace = recorded.run_in(folder)
        recorded.keep(suite, trace, f"{GROUP}-{rung}")
        data["findings"] = findings = recorded.advise(suite, trace, log)
        if problem := named(findings, rung):
            raise Failed(f"{problem}; {recorded.shown(findings)}")
        return recorded.shown(findings)

    return check


def checks(suite):
    found = [(f"{GROUP}.speeds", speeds(suite))] + [(f"{GROUP}.{rung}", advice(suite, rung)) for rung in RUNGS]
    return [(name, check if suite.rehearsal else needs_gpu(suite, check)) for name, check in found]
