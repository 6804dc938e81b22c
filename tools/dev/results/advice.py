"""Tables of `slipstream advise`: costs that were claimed beside what a repair gained, and the ladder of the tuning guides."""

from .markdown import table, titled

RUNGS = {
    "baseline": "as beginners write it",
    "mixed": "mixed precision",
    "batch": "batches four times as large",
    "uint8": "images as bytes",
    "workers": "a worker a processor",
    "pinned": "pinned, copied without waiting",
}


def data_of(results, name):
    return next((check.get("data", {}) for check in results["checks"] if check["name"] == name), {})


def in_ms(ns):
    return "-" if ns is None else f"{ns / 1e6:.2f}"


def faults(results):
    rows = []
    for row in data_of(results, "advice.table").get("rows", ()):
        measured = in_ms(row["measured_ns"])
        if row["low_ns"] is not None:
            measured += f" ({in_ms(row['low_ns'])} to {in_ms(row['high_ns'])})"
        rule = f"`{row['rule']}`" if row["stands_first"] else f"`{row['rule']}` does not stand first"
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        rows.append((row["script"].replace("_", " "), rule, in_ms(row["step_ns"]), in_ms(row["claimed_ns"]), measured, ratio))
    return titled(
        "Trainings with one thing wrong (`tests/gpu/faulty`): what `slipstream advise` says it costs a step, and by how much a step is shorter "
        "where it is repaired, with its interval (`slipstream compare` of the two recorded runs)",
        ("training", "rule", "step, ms", "claimed, ms", "measured, ms", "claimed / measured"),
        rows,
    )


def told(findings):
    """The first of what was found, with its share of a step."""
    if not findings["advice"]:
        return "nothing"
    first = findings["advice"][0]
    step = findings.get("step_time_mean_ns", findings["step_time_median_ns"])  # results of before have the median alone
    if first["cost_per_step_ns"] is None or not step:
        return f"`{first['rule']}`"
    return f"`{first['rule']}`, {first['cost_per_step_ns'] / step:.1%} of a step"


def ladder(results):
    speeds = data_of(results, "ladder.speeds").get("speeds", {})
    rows = []
    for rung, what in RUNGS.items():
        findings = data_of(results, f"ladder.{rung}").get("findings")
        if rung not in speeds and findings is None:
            continue
        pairs = speeds.get(rung) or []
        middle = [sorted(side)[len(side) // 2] for side in zip(*pairs)] or [None, None]
        rows.append((what, *("-" if speed is None else f"{speed:.0f}" for speed in middle), told(findings) if findings else "-"))
    if not rows:
        return None
    text = "The ladder of the tuning guides, each rung with all above it: samples a second, and what `slipstream advise` says first"
    return f"{text}:\n\n" + table(("rung", "bare", "under slipstream", "told first"), rows)


def climb(results):
    data = data_of(results, "ladder.climb")
    if "climb" not in data:
        return None
    rows = [(RUNGS[step["rung"]], f"{step['bare']:.0f}", told(step["findings"])) for step in data["climb"]]
    rows.append(("that, under slipstream", f"{data['end']:.0f}", "-"))
    rows.append(("the last rung of the guides, bare", f"{data['last_rung']:.0f}", "-"))
    text = "A climb: each next rung is the first that `slipstream advise` names and that is left; samples a second, and what it says first"
    return f"{text}:\n\n" + table(("rung", "bare", "told first"), rows)


TABLES = ((faults, ()), (ladder, ()), (climb, ()))
