"""`slipstream advise` on recorded trainings, each with one thing wrong with it (tests/gpu/faulty), and on two with nothing.

A script names what is wrong in a comment behind the line, `# fault: RULE` (`RULE|RULE` where two rules are names of the
same fault), and trains with it repaired when it is given --fixed. Both are recorded: what is wrong must stand first and
cost what the repair gains, which `slipstream compare` measures. The traces are kept in the results
(`advice-SCRIPT.spool.gz`, `advice-SCRIPT-fixed.spool.gz`), so that what was said can be asked again without a GPU.
"""

import json

from . import recorded
from .harness import GPU_TESTS, Failed, needs_gpu
from .recorded import LEAST_TO_WIN, costly, marks, places, shown

GROUP = "advice"
SCRIPTS = GPU_TESTS / "faulty"
HELPERS = {"loop", "networks"}
WELL_TUNED = {"nothing_wrong", "nothing_wrong_photos"}
# Claimed cost by what the repair gained.
LEAST_RATIO, MOST_RATIO = 0.7, 1.3
# So many scripts must have a cost, and the right one.
LEAST_RIGHT = 8
# slipstream compare's exit status.
TOO_FEW_STEPS = 3
REHEARSED = {
    "activation_by_hand": "--width 16 --layers 1 --batch 2 --patches 4",
    "anomalies_detected": "--width 16 --layers 1 --batch 2 --length 8 --words 64",
    "augmented_in_the_loop": "--size 32 --batch 2 --width 4",
    "cache_emptied": "--size 16 --batch 2 --width 4",
    "copied_in_line": "--columns 10 --width 16 --batch 4",
    "data_on_the_gpu": "--rows 100 --columns 16 --width 16 --layers 1 --batch 4",
    "double_precision": "--rows 64 --columns 16 --width 16 --batch 8",
    "few_workers": "--samples 1600 --batch 2 --width 16",
    "float_images": "--size 32 --batch 2 --width 8",
    "garbage_collected": "--rows 100 --width 16 --layers 1 --batch 4 --every 1",
    "journal_every_step": "--size 32 --batch 2 --photos 10",
    "loader_remade": "--samples 256 --batch 2 --width 8",
    "loader_without_workers": "--batch 2 --size 64",
    "new_tensors_filled": "--width 64 --layers 1 --batch 2 --length 8 --words 64",
    "noise_on_the_host": "--size 16 --batch 2 --width 4",
    "nothing_wrong": "--width 32 --layers 1 --batch 2 --length 8",
    "nothing_wrong_photos": "--size 32 --batch 2",
    "numbers_every_step": "--width 16 --layers 2 --batch 8",
    "optimizer_in_a_loop": "--width 16 --members 3 --batch 8",
    "recomputed": "--width 64 --layers 1 --batch 2 --length 8 --words 64",
    "sample_by_sample": "--fields 3 --samples 2 --width 16 --layers 1",
    "scores_to_the_host": "--size 16 --batch 2 --width 4 --classes 3",
    "single_precision": "--width 32 --layers 1 --batch 2 --length 8",
    "slow_storage": "--batch 2 --width 16 --milliseconds 1",
    "texts_every_step": "--texts 16 --depth 8 --width 16 --layers 1 --batch 4",
    "timed_by_hand": "--size 32 --batch 2",
    "tiny_language_model": "--width 16 --layers 1 --batch 2 --length 8",
}


def scripts(folder=SCRIPTS):
    return sorted(path for path in folder.glob("*.py") if path.stem not in HELPERS)


def faults(script):
    """(the rules that are names of what is wrong, none if nothing is; the lines where it is)."""
    found = marks(script, "fault")
    names = {name for _, name in found}
    if len(names) > 1:
        raise Failed(f"{script.name} has more than one fault: {', '.join(sorted(names))}")
    return (names.pop().split("|") if names else []), [number for number, _ in found]


def first_is_wrong(findings, rules, lines, script):
    """What is wrong with what is found first; None: nothing."""
    if not findings["steps"]:
        return "no steps were found"
    advice = findings["advice"]
    if not advice or advice[0]["rule"] not in rules:
        return f"{' or '.join(rules)} does not stand first"
    if not places(advice[0]) & {(script.name, line) for line in lines}:
        return f"{advice[0]['rule']} without a line of the fault's: {sorted(places(advice[0]), key=str)}"
    return None


def well_tuned_is_wrong(findings):
    if not findings["steps"]:
        return "no steps were found"
    return f"told to change {', '.join(rules)}" if (rules := costly(findings)) else None


def gain_of(comparison):
    """(ns by which a step of the first run is longer, the least and the most of it; None where it is not known)."""
    step = comparison["step_time"]
    if step["first_ns"] is None or step["second_ns"] is None:
        return None, None, None
    bounds = [None, None] if step["low_ns"] is None else [-step["high_ns"], -step["low_ns"]]
    return step["first_ns"] - step["second_ns"], *bounds


def row_of(script, rules, faulty, comparison):
    """What is claimed and what was measured of one script; `comparison`: None, there is none."""
    first = faulty["advice"][0] if faulty["advice"] else {"rule": None, "cost_per_step_ns": None}
    claimed = first["cost_per_step_ns"] if first["rule"] in rules else None
    gain, low, high = gain_of(comparison) if comparison else (None, None, None)
    return {
        "script": script.stem,
        "rule": first["rule"] if first["rule"] in rules else rules[0],
        "stands_first": first["rule"] in rules,
        "step_ns": comparison["step_time"]["first_ns"] if comparison else faulty["step_time_median_ns"],
        "claimed_ns": claimed,
        "measured_ns": gain,
        "low_ns": low,
        "high_ns": high,
        "ratio": claimed / gain if claimed is not None and gain is not None and gain > 0 else None,
    }


def right(row):
    return row["ratio"] is not None and LEAST_RATIO <= row["ratio"] <= MOST_RATIO


def weight(one):
    """Of a step, in ns: what a finding costs, or what it is about."""
    return one["at_stake_per_step_ns"] if one["cost_per_step_ns"] is None else one["cost_per_step_ns"]


def found_again(rules, faulty, fixed):
    """Of the rules, those that find as good as the same in the repaired training: more than what a well-tuned one may be told,
    and more than a third of what they found before. A repair does not make what is left perfect."""
    before = max((weight(one) for one in faulty["advice"] if one["rule"] in rules), default=0)
    floor = max(LEAST_TO_WIN * fixed["step_time_median_ns"], before / 3)
    return [one["rule"] for one in fixed["advice"] if one["rule"] in rules and weight(one) > floor]


def problems_of(row, rules, faulty, fixed):
    """What is wrong with claims and measurements, in words."""
    found = []
    if row["measured_ns"] is None:
        found.append("what the repair gains is not known")
    elif (row["measured_ns"] if row["low_ns"] is None else row["low_ns"]) <= 0:
        found.append("the repair gains nothing")
    elif row["claimed_ns"] is not None and not right(row):
        found.append(f"the claimed cost is {row['ratio']:.2f} of the gain")
    if not fixed["steps"]:
        found.append("no steps were found in the repaired training")
    if again := found_again(rules, faulty, fixed):
        found.append(f"{', '.join(again)} is found in the repaired training too")
    total = sum(one["cost_per_step_ns"] or 0 for one in faulty["advice"])
    if total > row["step_ns"]:
        found.append(f"all costs are {total / 1e6:.2f} ms, more than a step")
    return found


def milliseconds(ns):
    return "-" if ns is None else f"{ns / 1e6:.2f}"


def cells(row):
    interval = "" if row["low_ns"] is None else f" ({milliseconds(row['low_ns'])} to {milliseconds(row['high_ns'])})"
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
    name = row["rule"] if row["stands_first"] else f"{row['rule']} (not first)"
    return row["script"], name, milliseconds(row["step_ns"]), milliseconds(row["claimed_ns"]), milliseconds(row["measured_ns"]) + interval, ratio


def columns(lines):
    """Lines of cells, as a text."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines)


def table(rows):
    """Of all scripts, in columns."""
    return columns([("script", "rule", "step ms", "claimed ms", "measured ms", "ratio"), *map(cells, rows)])


def record(suite, script, fixed):
    """The recorded run; None in a rehearsal."""
    options = ["--device", "cpu", "--steps", "2", *REHEARSED[script.stem].split()] if suite.rehearsal else []
    name = f"{script.stem}-fixed" if fixed else script.stem
    return recorded.record(suite, f"{GROUP}.{name}", script, options + ["--fixed"] * fixed)


def compared(suite, script, runs, data):
    """(how the two runs differ, None) or (None, why that is not known)."""
    answer = suite.command(f"{GROUP}.{script.stem}", [suite.slipstream, "compare", *runs, "--json"], timeout=60)
    try:
        # Of steps that are too few for an interval it says by how much they differ all the same.
        if answer.timed_out or answer.status != TOO_FEW_STEPS:
            answer.expect_success("slipstream compare")
        data["comparison"] = comparison = json.loads(answer.stdout)
    except (Failed, ValueError) as error:
        return None, str(error)
    return comparison, None


def tuned_check(suite, script):
    def check(data):
        run = record(suite, script, False)
        if suite.rehearsal:
            return "a rehearsal: the script runs, and there is no trace"
        data["findings"] = findings = recorded.advise(suite, run, f"{GROUP}.{script.stem}")
        if problem := well_tuned_is_wrong(findings):
            raise Failed(f"{problem}; {shown(findings)}")
        return shown(findings)

    return check


def faulty_check(suite, script, rows):
    rules, lines = faults(script)

    def check(data):
        runs = [record(suite, script, fixed) for fixed in (False, True)]
        if suite.rehearsal:
            return "a rehearsal: the script runs with its fault and without, and there are no traces"
        data["findings"] = faulty = recorded.advise(suite, runs[0], f"{GROUP}.{script.stem}")
        data["fixed_findings"] = fixed = recorded.advise(suite, runs[1], f"{GROUP}.{script.stem}")
        comparison, problem = compared(suite, script, runs, data)
        data["row"] = row = row_of(script, rules, faulty, comparison)
        rows.append(row)
        problems = [first_is_wrong(faulty, rules, lines, script), problem, *problems_of(row, rules, faulty, fixed)]
        _, _, step, claimed, measured, ratio = cells(row)
        text = f"step {step} ms, claimed {claimed}, measured {measured}, ratio {ratio}; {shown(faulty)}; repaired: {shown(fixed)}"
        if problems := [problem for problem in problems if problem]:
            raise Failed(f"{'; '.join(problems)}; {text}")
        return text

    return check


def table_check(suite, rows):
    def check(data):
        if suite.rehearsal:
            return "a rehearsal: there are no traces"
        data["rows"], data["table"] = rows, table(rows)
        (suite.out / f"{GROUP}.txt").write_text(f"{data['table']}\n", encoding="utf-8")
        good = sum(map(right, rows))
        first = sum(row["stands_first"] for row in rows)
        text = (
            f"{first} of {len(rows)} faults stand first, {good} cost what their repair gains within "
            f"{LEAST_RATIO:g} to {MOST_RATIO:g}\n{data['table']}"
        )
        if good < LEAST_RIGHT:
            raise Failed(text)
        return text

    return check


def checks(suite):
    rows = []
    found = [
        (
            f"{GROUP}.{script.stem}",
            tuned_check(suite, script) if script.stem in WELL_TUNED else faulty_check(suite, script, rows),
        )
        for script in scripts()
    ]
    found.append((f"{GROUP}.table", table_check(suite, rows)))
    return [(name, check if suite.rehearsal else needs_gpu(suite, check)) for name, check in found]
