"""The ladder of the tuning guides (tests/gpu/train_ladder.py): every rung bare and under slipstream, what
`slipstream advise` says on it, and a climb in which each next rung is the one that advice names.

Which rung helps next depends on the machine: the guides' order is that of a slow GPU. So on a rung the first thing to
change must be one that has not been changed yet, and what shows that it was worth it is the climb: its every rung must
be faster than the one before. The last rung of the guides is what slipstream does by itself.
"""

import re

from . import recorded
from .harness import GPU_TESTS, Failed, needs_gpu

GROUP = "ladder"
PROGRAM = GPU_TESTS / "train_ladder.py"
RUNGS = ("baseline", "mixed", "batch", "uint8", "workers", "pinned")
# The rules that name a rung.
NAMES = {
    "mixed": {"no-tensor-cores"},
    "batch": {"idle-sms", "host-bound", "launch-bound"},
    "uint8": {"float-images"},
    "workers": {"loader-wait", "loader-in-process"},
}
# Rules about what slipstream does by itself.
DONE_BY_SLIPSTREAM = {"pageable-copies", "blocking-copies"}
SPEED = re.compile(r"([0-9.]+) samples/s$", re.MULTILINE)
TURNS = 2
# Of the speed at the guides' last rung, bare: what the end of the climb has under slipstream, at least.
LEAST_AT_THE_END = 0.95
REHEARSED = "--device cpu --samples 8 --small-batch 4 --large-batch 8 --few-workers 1 --size 32"


def speed_of(output):
    found = SPEED.findall(output)
    if len(found) != 1:
        raise Failed(f"{len(found)} speeds in {output[-200:]!r}")
    return float(found[0])


def median(values):
    return sorted(values)[len(values) // 2]


def up_to(rung):
    return RUNGS[1 : RUNGS.index(rung) + 1]


def rung_of(rule):
    return next((rung for rung, rules in NAMES.items() if rule in rules), None)


def next_rung(findings, taken):
    """The rung that the first finding names which costs much and names one that is left; None: there is no such finding."""
    named = (rung_of(rule) for rule in recorded.costly(findings, DONE_BY_SLIPSTREAM))
    return next((rung for rung in named if rung and rung not in taken), None)


def wrong_on(findings, taken):
    """What is wrong with what was said where these rungs were taken; None: nothing."""
    if not findings["steps"]:
        return "no steps were found"
    if "pageable-copies" in recorded.costly(findings):
        return "pageable copies are left, which slipstream takes care of"
    costly = recorded.costly(findings, DONE_BY_SLIPSTREAM)
    # With as many workers as there are processors for, the loader may still be what everything waits for.
    if costly and rung_of(costly[0]) in (None, *(set(taken) - {"workers"})):
        return f"{costly[0]} stands first, which names no rung that is left"
    return None


def shown(speeds):
    """`speeds`: rung -> [(bare, under slipstream), one a turn]."""
    parts = []
    for rung, pairs in speeds.items():
        ratios = sorted(ours / bare for bare, ours in pairs)
        middle = median([bare for bare, _ in pairs])
        parts.append(f"{rung} {middle:.0f} samples/s bare, {median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    return "; ".join(parts)


def run(suite, taken, prefix, log, *options, env=None):
    argv = [*prefix, suite.python, PROGRAM, "--only", ",".join(taken), *options]
    if suite.rehearsal:
        argv += REHEARSED.split()
    folder = suite.scratch(f"{GROUP}/{log}")
    env = {"PYTHONWARNINGS": "ignore", **(env or {})}
    return folder, suite.command(log, argv, env=env, timeout=150, cwd=folder).expect_success(log)


def speed(suite, taken, prefix=()):
    name = "slipstream" if prefix else "bare"
    return speed_of(run(suite, taken, prefix, f"{GROUP}.{name}", "--samples", "8192")[1].stdout.decode())


def turns(suite):
    """True, False, ...: whether a turn goes the other way round."""
    return [turn % 2 == 1 for turn in range(1 if suite.quick or suite.rehearsal else TURNS)]


def speeds(suite):
    def check(data):
        data["speeds"] = found = {rung: [] for rung in RUNGS}
        for backwards in turns(suite):
            for rung in RUNGS:
                sides = {"bare": (), "slipstream": suite.run_prefix("--quiet")}
                names = list(sides)[::-1] if backwards else list(sides)
                got = {name: speed(suite, up_to(rung), sides[name]) for name in names}
                found[rung].append((got["bare"], got["slipstream"]))
        return f"{shown(found)}; reported, not asserted"

    return check


def advised(suite, taken, log):
    """What is found in a recorded run with these rungs; None in a rehearsal."""
    prefix = suite.run_prefix("--quiet", "--record")
    folder, _ = run(suite, taken, prefix, log, "--samples", "2048", env=recorded.ENVIRONMENT)
    if suite.rehearsal:
        return None
    trace = recorded.run_in(folder)
    recorded.keep(suite, trace, log.replace(".", "-"))
    return recorded.advise(suite, trace, log)


def advice(suite, rung):
    def check(data):
        data["findings"] = findings = advised(suite, up_to(rung), f"{GROUP}.{rung}")
        if findings is None:
            return "a rehearsal: it trains, and there is no trace"
        if problem := wrong_on(findings, up_to(rung)):
            raise Failed(f"{problem}; {recorded.shown(findings)}")
        return recorded.shown(findings)

    return check


def climb_is_wrong(steps, last_rung, end):
    """`steps`: (rung taken, bare speed with it and all before it); the first is the baseline."""
    if len(steps) == 1:
        return "advice names no rung on the baseline"
    for (_, before), (rung, after) in zip(steps, steps[1:]):
        if after <= before:
            return f"{rung} was advised, and is no faster"
    if end < LEAST_AT_THE_END * last_rung:
        return f"the end is at {end / last_rung:.2f} of the speed of the guides' last rung"
    return None


def climb(suite):
    def check(data):
        taken, said = [], []
        while True:
            findings = advised(suite, taken, f"{GROUP}.climb{len(taken)}")
            if findings is None:
                return "a rehearsal: it trains, and there is no trace"
            said.append(findings)
            rung = next_rung(findings, taken)
            if rung is None:
                break
            taken.append(rung)
        states = [taken[:count] for count in range(len(taken) + 1)]
        bare, last, ours = [[] for _ in states], [], []
        for backwards in turns(suite):
            for number in sorted(range(len(states)), reverse=backwards):
                bare[number].append(speed(suite, states[number]))
            last.append(speed(suite, up_to(RUNGS[-1])))
            ours.append(speed(suite, taken, suite.run_prefix("--quiet")))
        steps = list(zip([RUNGS[0], *taken], map(median, bare)))
        data["climb"] = [
            {"rung": rung, "bare": at, "findings": findings} for (rung, at), findings in zip(steps, said)
        ]
        data["last_rung"], data["end"] = median(last), median(ours)
        text = "; ".join(f"{rung} {at:.0f} samples/s, told {recorded.shown(findings)}" for (rung, at), findings in zip(steps, said))
        text += f"; at the end {data['end']:.0f} under slipstream, {data['last_rung']:.0f} at the guides' last rung"
        if problem := climb_is_wrong(steps, data["last_rung"], data["end"]):
            raise Failed(f"{problem}; {text}")
        return text

    return check


def checks(suite):
    found = [(f"{GROUP}.speeds", speeds(suite)), *((f"{GROUP}.{rung}", advice(suite, rung)) for rung in RUNGS), (f"{GROUP}.climb", climb(suite))]
    return [(name, check if suite.rehearsal else needs_gpu(suite, check)) for name, check in found]
