#!/usr/bin/env python3
"""Takes recorded runs out of what `tools/gpu-suite --only advice,rules` wrote, to be kept beside this.

    take.py OUT --slipstream FILE [--folder FOLDER] [--most BYTES]

Of every script of which the suite has findings, each trace is cut behind as few steps as `slipstream advise` still says
of it what the manifest then has (kept.py). A trace of which it does not say that, whole or cut to --most, packed (of two
ranks both together), is left out, with the reason. Traces that are kept already and not in OUT stay.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import cut_spool
import kept

MOST = 600 << 10
# Fewer are no loop: a quarter of them is warm-up.
LEAST_STEPS = 12
# Of so many times as many as before.
MORE_STEPS = 1.5


class LeftOut(Exception):
    """Why a trace is not taken."""


def step_starts(slipstream, spool):
    done = kept.run(slipstream, "report", "--no-cache", spool, "--json")
    if done.returncode != 0:
        raise LeftOut(f"slipstream report: exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    report = json.loads(done.stdout)
    return [step["start_ns"] for step in report["processes"][report["shown_process"]]["steps"]["steps"]]


def entries_of(check):
    """[(name of the trace in OUT, what the manifest is to have of it)] of one check of the suite's results."""
    group, name = check["name"].split(".", 1)
    data = check.get("data", {})
    entry = {"first": None, "line": None, "absent": [], "tuned": False, "gain_ns": None}
    if group == kept.conditions.GROUP:
        return [(name, {**entry, "found": data["said"]["rule"], "line": data["said"]["line"]})] if "said" in data else []
    if name in kept.advice.WELL_TUNED:
        return [(name, {**entry, "tuned": True})] if "findings" in data else []
    if "row" not in data:
        return []
    row = data["row"]
    rules, lines = kept.advice.faults(kept.advice.SCRIPTS / f"{name}.py")
    places = [place["line"] for place in data["findings"]["advice"][0]["places"]] if row["stands_first"] else []
    line = next((line for line in places if line in lines), None)
    gain = round(row["measured_ns"]) if kept.advice.right(row) else None
    faulty = {**entry, "first": row["rule"] if row["stands_first"] else None, "line": line, "gain_ns": gain}
    return [(name, faulty), (f"{name}-fixed", {**entry, "absent": rules})]


def numbers_of_steps(starts):
    """How many steps a cut trace may have, the smallest number first; None: all of it."""
    number = LEAST_STEPS
    # The next step begins where the cut is.
    while number < len(starts):
        yield number
        number = int(number * MORE_STEPS)
    yield None


def taken(slipstream, packed, entry, most, scratch):
    """([packed trace of each rank], its entry, what is found in it) as it is to be kept; LeftOut: why it is not."""
    if not packed:
        raise LeftOut("its trace is not there")
    if not kept.rule_of(entry) and not entry["absent"] and not entry["tuned"]:
        raise LeftOut("its fault did not stand first")
    if entry["first"] and entry["line"] is None:
        raise LeftOut("no line of its fault was named")
    spools = list(map(cut_spool.read, packed))
    starts = []
    for data in spools:
        cut_spool.write(scratch / "whole.spool", data)
        starts.append(step_starts(slipstream, scratch / "whole.spool"))
    fewest = min(starts, key=len)
    second, why = None, None
    for number in numbers_of_steps(fewest):
        made = [cut_spool.cut(data, None if number is None else begins[number]) for data, begins in zip(spools, starts)]
        out = list(map(cut_spool.pack, made))
        if (size := sum(map(len, out))) > most:
            why = why or f"{size} bytes with {number or len(fewest)} steps"
            break
        found = kept.findings(slipstream, made)
        if not (problems := kept.problems_of(entry, found)):
            return out, entry, found
        why = "; ".join(problems)
        # Its cost may be that of all steps alone.
        without_gain = {**entry, "gain_ns": None}
        if second is None and not kept.problems_of(without_gain, found):
            second = out, without_gain, found
    if second is None:
        raise LeftOut(why)
    return second


def assign(manifest, all_findings):
    """The traces of each rule, where it has none: found as its entry says, not found in a repaired or a tuned training."""
    entries = {entry["file"]: entry for entry in manifest["traces"]}
    for rule, traces in manifest["rules"].items():
        for what in ("positive", "negative"):
            if traces.get(what) not in entries:
                traces[what] = None
        # One that was taken again may be cut to other steps.
        negative = all_findings.get(traces["negative"])
        if negative and rule not in negative["nothing_found"]:
            traces["negative"] = None
    for file, entry in entries.items():
        if rule := kept.rule_of(entry):
            traces = manifest["rules"].setdefault(rule, {"positive": None, "negative": None})
            traces["positive"] = traces["positive"] or file
    for file, found in sorted(all_findings.items(), key=lambda item: not entries[item[0]]["tuned"]):
        for rule in found["nothing_found"]:
            traces = manifest["rules"].setdefault(rule, {"positive": None, "negative": None})
            # The repaired training of the same script shows more than another one.
            if traces["negative"] is None or rule in entries[file]["absent"]:
                traces["negative"] = file
    manifest["rules"] = {rule: traces for rule, traces in sorted(manifest["rules"].items()) if any(traces.values())}
    for rule, traces in manifest["rules"].items():
        if all(traces.values()):
            manifest["without_trace"].pop(rule, None)


def take(slipstream, out, folder, most, scratch):
    """Takes all that can be taken. Returns {name: why not} of the others."""
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    manifest = kept.read_manifest(folder)
    (folder / kept.TRACES).mkdir(exist_ok=True)
    left_out, findings = {}, {}
    for check in results["checks"]:
        group = check["name"].split(".")[0]
        if group not in (kept.advice.GROUP, kept.conditions.GROUP):
            continue
        for name, entry in entries_of(check):
            try:
                packed, entry, found = taken(slipstream, kept.recorded_in(out, group, name), entry, most, scratch)
            except (OSError, LeftOut, cut_spool.Unusable) as error:
                left_out[name] = str(error)
                continue
            file = f"{name}.spool.xz" if len(packed) == 1 else f"{name}.*.spool.xz"
            for rank, data in enumerate(packed):
                (folder / kept.TRACES / file.replace("*", str(rank))).write_bytes(data)
            manifest["traces"] = [old for old in manifest["traces"] if old["file"] != file] + [{"file": file, **entry}]
            findings[file] = found
    manifest["traces"].sort(key=lambda entry: entry["file"])
    assign(manifest, findings)
    kept.write_manifest(folder, manifest)
    return left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--slipstream", required=True)
    parser.add_argument("--folder", type=pathlib.Path, default=kept.HERE)
    parser.add_argument("--most", type=int, default=MOST, metavar="BYTES")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        left_out = take(options.slipstream, options.out, options.folder, options.most, pathlib.Path(scratch))
    manifest = kept.read_manifest(options.folder)
    print(f"{len(manifest['traces'])} traces are kept, {len(left_out)} were left out")
    for name, why in left_out.items():
        print(f"  {name}: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
