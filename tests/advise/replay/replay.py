#!/usr/bin/env python3
"""Asks `slipstream advise` of every kept trace, and holds what it says against the manifest (kept.py).

    replay.py SLIPSTREAM [FOLDER]
"""

import pathlib
import sys

import cut_spool
import kept


def check(slipstream, folder):
    """What is wrong, in words."""
    manifest = kept.read_manifest(folder)
    traces = folder / kept.TRACES
    problems, findings, named = [], {}, set()
    for entry in manifest["traces"]:
        try:
            files = kept.files(traces, entry["file"])
            named.update(path.name for path in files)
            found = kept.findings(slipstream, list(map(cut_spool.read, files)))
        except (OSError, EOFError, cut_spool.lzma.LZMAError, cut_spool.Unusable) as error:
            problems.append(f"{entry['file']}: {error}")
            continue
        findings[entry["file"]] = found
        problems += [f"{entry['file']}: {problem}" for problem in kept.problems_of(entry, found)]
    problems += [f"{path.name} is not in the manifest" for path in sorted(traces.glob("*.spool.*")) if path.name not in named]
    rules = kept.rules(slipstream)
    if not rules:
        problems.append("slipstream has no rules")
    problems += kept.problems_of_rules(manifest, rules, findings)
    print(f"{len(findings)} traces, {len(rules)} rules, {len(manifest['rules'])} of them with traces, {len(problems)} problems")
    return problems


def main():
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else kept.HERE
    problems = check(sys.argv[1], folder)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
