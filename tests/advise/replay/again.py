#!/usr/bin/env python3
"""Asks again about recorded runs that `tools/gpu-suite --only advice,rules` left, with the `slipstream advise` there is now.

    again.py OUT... --slipstream FILE --to FOLDER

FOLDER gets the traces of all OUTs (of a script that several have, the last one's), and a results.json in which each script has
the findings, the comparison of its two runs (group advice) and the row that the suite would have made of them; take.py takes
from it.
Printed: the table, and what is wrong with each. The scripts must be those that were recorded: a fault's line is looked for
where it is now.
"""

import argparse
import gzip
import json
import pathlib
import shutil
import sys
import tempfile

import kept

advice, conditions = kept.advice, kept.conditions


def asked(slipstream, folder, trace):
    """(findings of the packed trace, where it lies unpacked)"""
    spool = folder / trace.name.removesuffix(".gz")
    data = gzip.decompress(trace.read_bytes())
    spool.write_bytes(data)
    return kept.findings(slipstream, [data]), spool


def check_of(slipstream, folder, script, traces):
    """What the suite's results have of the script's check, and what is wrong."""
    faulty, place = asked(slipstream, folder, traces[0])
    data = {"findings": faulty}
    if script.stem in advice.WELL_TUNED:
        return data, advice.well_tuned_is_wrong(faulty)
    fixed, fixed_place = asked(slipstream, folder, traces[1])
    done = kept.run(slipstream, "compare", place, fixed_place, "--json")
    data |= {"fixed_findings": fixed, "comparison": json.loads(done.stdout) if done.returncode in (0, advice.TOO_FEW_STEPS) else None}
    rules, lines = advice.faults(script)
    data["row"] = row = advice.row_of(script, rules, faulty, data["comparison"])
    problems = [advice.first_is_wrong(faulty, rules, lines, script), *advice.problems_of(row, rules, faulty, fixed)]
    return data, "; ".join(filter(None, problems)) or None


def again(slipstream, script, traces):
    """The same of a script of the group rules."""
    found = kept.findings(slipstream, [gzip.decompress(trace.read_bytes()) for trace in traces])
    said, problem = conditions.judged(found, script)
    return {"findings": found, "said": said}, problem


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="+", type=pathlib.Path)
    parser.add_argument("--slipstream", required=True)
    parser.add_argument("--to", required=True, type=pathlib.Path)
    args = parser.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    for out in args.out:
        for group in (advice.GROUP, conditions.GROUP):
            for trace in out.glob(f"{group}-*.spool.gz"):
                shutil.copyfile(trace, args.to / trace.name)
    checks, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        for script in advice.scripts():
            names = [script.stem] if script.stem in advice.WELL_TUNED else [script.stem, f"{script.stem}-fixed"]
            traces = [args.to / f"{advice.GROUP}-{name}.spool.gz" for name in names]
            if not all(trace.is_file() for trace in traces):
                print(f"{script.stem}: not recorded")
                continue
            data, problem = check_of(args.slipstream, pathlib.Path(folder), script, traces)
            checks.append({"name": f"{advice.GROUP}.{script.stem}", "data": data})
            rows += [data["row"]] if "row" in data else []
            print(f"{script.stem}: {problem or 'as it should be'}; {advice.shown(data['findings'])}")
    for script in conditions.scripts():
        if not (traces := kept.recorded_in(args.to, conditions.GROUP, script.stem)):
            print(f"{script.stem}: not recorded")
            continue
        data, problem = again(args.slipstream, script, traces)
        checks.append({"name": f"{conditions.GROUP}.{script.stem}", "data": data})
        print(f"{script.stem}: {problem or 'as it should be'}; {advice.shown(data['findings'])}")
    (args.to / "results.json").write_text(json.dumps({"checks": checks}), encoding="utf-8")
    print(advice.table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
