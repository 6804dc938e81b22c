"""Recorded runs that are kept (traces/, manifest.json), and what `slipstream advise` must say of them.

An entry of "traces" has
  file    in traces/; of ranks NAME.*.spool.xz, which are all of their files
  first   the rule that must stand first, with `line` among its places; null: none must
  found   instead of that, the rule that must be found wherever it stands, with `line`; null: it names no line
  absent  rules that must not be found
  tuned   true: nothing that costs more than a well-tuned training may be told
  gain_ns what the repair gained of a step, if the claimed cost must be near it; else null
"rules" has the traces of each rule: `positive`, in which it is found, and `negative`, in which it is looked for in vain.
"without_trace" has the rules without one of the two, and why.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "gpu")]

from suite import advice, recorded  # noqa: E402  (the folder is known only now)
from suite import rules as conditions  # noqa: E402

import cut_spool  # noqa: E402

MANIFEST, TRACES = "manifest.json", "traces"
EMPTY = {"traces": [], "rules": {}, "without_trace": {}}


def read_manifest(folder):
    path = folder / MANIFEST
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else json.loads(json.dumps(EMPTY))


def write_manifest(folder, manifest):
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def run(slipstream, *words):
    return subprocess.run([slipstream, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


def rules(slipstream):
    """All rules that there are."""
    return [one["rule"] for one in json.loads(run(slipstream, "advise", "--list", "--json").stdout)["rules"]]


def recorded_in(out, group, name):
    """The traces of a run that the suite has left, one for each rank; empty: there are none."""
    return sorted(out.glob(f"{group}-{name}.spool.gz")) or sorted(out.glob(f"{group}-{name}.[01].spool.gz"))


def files(traces, file):
    """Those that an entry's `file` stands for."""
    if not (found := sorted(traces.glob(file))):
        raise cut_spool.Unusable("it is not there")
    return found


def rule_of(entry):
    """The rule that must be found in the trace; None: none."""
    return entry["first"] or entry.get("found")


def findings(slipstream, spools):
    """What `slipstream advise` finds in the bytes of a run's spool files."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder, f"{number}.spool") for number in range(len(spools))]
        for path, data in zip(paths, spools):
            path.write_bytes(data)
        done = run(slipstream, "advise", "--no-cache", *paths, "--json")
    if done.returncode != 0:
        raise cut_spool.Unusable(f"slipstream advise: exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    return json.loads(done.stdout)


def problems_of(entry, found):
    """What an entry of the manifest says and the findings do not."""
    problems = []
    names = [one["rule"] for one in found["advice"]]
    if not found["steps"]:
        problems.append("no steps were found")
    if rule := rule_of(entry):
        looked_at = found["advice"][:1] if entry["first"] else found["advice"]
        one = next((one for one in looked_at if one["rule"] == rule), None)
        if one is None:
            what = "does not stand first" if entry["first"] else "is not found"
            problems.append(f"{rule} {what}: {', '.join(names) or 'nothing is found'}")
        elif entry["line"] is not None and entry["line"] not in [place["line"] for place in one["places"]]:
            problems.append(f"{rule} without line {entry['line']}")
        elif entry["gain_ns"] and not near(one["cost_per_step_ns"], entry["gain_ns"]):
            problems.append(f"{rule} costs {one['cost_per_step_ns']} ns, and the repair gained {entry['gain_ns']}")
    problems += [f"{rule} is found" for rule in entry["absent"] if rule in names]
    if entry["tuned"] and (costly := recorded.costly(found)):
        problems.append(f"told to change {', '.join(costly)}")
    return problems


def near(cost, gain):
    return cost is not None and advice.LEAST_RATIO <= cost / gain <= advice.MOST_RATIO


def problems_of_rules(manifest, all_rules, all_findings):
    """Rules without traces, and traces that are not what is said of them. `all_findings`: by the trace's file."""
    problems = []
    known, without = manifest["rules"], manifest["without_trace"]
    problems += [f"there is no rule {rule}" for rule in sorted(set(known) - set(all_rules))]
    for rule in all_rules:
        traces = known.get(rule, {})
        positive, negative = traces.get("positive"), traces.get("negative")
        missing = [what for what, file in (("positive", positive), ("negative", negative)) if file is None]
        if missing and rule not in without:
            problems.append(f"{rule} has no {' and no '.join(missing)} trace, and is not in without_trace")
        if not missing and rule in without:
            problems.append(f"{rule} has its traces, and is in without_trace")
        for file in filter(None, (positive, negative)):
            if file not in all_findings:
                problems.append(f"{rule}: {file} is no trace of the manifest")
        if positive in all_findings and rule not in [one["rule"] for one in all_findings[positive]["advice"]]:
            problems.append(f"{rule} is not found in {positive}")
        if negative in all_findings and rule not in all_findings[negative]["nothing_found"]:
            problems.append(f"{rule} is found, or cannot be told, in {negative}")
    return problems
