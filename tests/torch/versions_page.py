"""Writes the tables of docs/versions.md from the rows that versions.py keeps, and from the results of GPUs in docs/results."""

import difflib
import json
import re

SCHEMA = "slipstream-versions-1"
# What names a row of each kind; a later row about the same takes its place.
KEYS = {
    "pytorch": ("pytorch", "python", "free_threaded"),
    "python": ("implementation", "python", "free_threaded", "debug"),
    "cuda": ("release",),
    "refused": ("what",),
    "wheels": ("python",),
}
FIRST_PYTORCH = (2, 4)
RUN, GPU, EXPECTED, NONE, WRONG = "run", "**run, GPU**", "expected", "-", "**not the same**"


class Unusable(Exception):
    """The file or the page cannot be used; the text says why."""


def merged(kept, rows, keys):
    """The rows, and those kept about other versions, in the order of their versions."""
    def name(row):
        return tuple(row[key] for key in keys)
    names = {name(row) for row in rows}
    return sorted([row for row in kept if name(row) not in names] + rows,
                  key=lambda row: tuple(natural(str(part)) for part in name(row)))


def as_text(results):
    """The file: one line for each row, so that a row that changes is one line that changes."""
    parts = [f' "schema": {json.dumps(results["schema"])}']
    for kind in sorted(KEYS):
        rows = ",\n".join("  " + json.dumps(row, sort_keys=True) for row in results.get(kind, []))
        parts.append(f' "{kind}": [\n{rows}\n ]' if rows else f' "{kind}": []')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def natural(text):
    """Orders "2.9" before "2.10"."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.findall(r"\d+|\D+", text)]


def minor(version):
    """"2.4" of "2.4.1"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def line(*cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def table(header, rows):
    return "\n".join([line(*header), line(*("---" for _ in header)), *(line(*row) for row in rows)])


def measured_on(row):
    return f"{row['date']}, `{row['commit']}`"


def outcome_of(runs):
    """"29 of 29 the same", and what could not be compared. Bare runs are those compared with, and not counted."""
    compared = [run for run in runs if run["configuration"] != "bare" and run["outcome"] != "not comparable"]
    same = sum(run["outcome"] == "same" for run in compared)
    text = f"{same} of {len(compared)} the same"
    left_out = sorted({run["program"] for run in runs if run["outcome"] == "not comparable"})
    return text + (f"; not comparable: {', '.join(left_out)}" if left_out else "")


def lines_text(fact):
    """What a trace says of Python's lines, as the table shows it."""
    kind, _, text = (fact or "none: not recorded").partition(": ")
    return "read" if kind == "read" else text


def lookups(found):
    """How many functions, and how many are known."""
    if not found:
        return "not counted"
    known = "all known" if not found["unknown"] else f"unknown: {', '.join(found['unknown'])}"
    return f"{found['functions']}, {found['hooked']} hooked, {known}"


def pytorch_table(results, _):
    return table(
        ("PyTorch", "CUDA", "Python", "functions of CUDA's runtime that it looks up", "runs under slipstream beside bare ones",
         "copies promoted", "synchronizations skipped", "blocks reused", "Python lines in a trace", "date, commit"),
        [(row["pytorch"], row["cuda"], row["python"] + ("t" if row["free_threaded"] else ""), lookups(row.get("looks_up")),
          outcome_of(row["runs"]), row["promoted"], row["skipped"], row["reused"], lines_text(row["lines"]), measured_on(row))
         for row in results.get("pytorch", [])])


def matrix(results, gpu):
    """PyTorch by Python: what was run here, on a GPU, what is expected, and where there is no wheel."""
    pythons = [row["python"] for row in results.get("wheels", [])]
    published = {(pytorch, row["python"]) for row in results.get("wheels", []) for pytorch in row["pytorch"]}
    rows = results.get("pytorch", [])
    bad = {(minor(row["pytorch"]), minor(row["python"])) for row in rows if row["wrong"]}
    good = {(minor(row["pytorch"]), minor(row["python"])) for row in rows} - bad
    wheels = {minor(row["pytorch"]): (row["cuda"], row.get("glibc") or "not noted")
              for row in sorted(rows, key=lambda row: bool(row.get("glibc")))}
    releases = sorted({pytorch for pytorch, _ in published}, key=natural)

    def cell(pair):
        if pair in bad:
            return WRONG
        if pair in gpu:
            return GPU
        return RUN if pair in good else EXPECTED if pair in published else NONE

    return table(("PyTorch", "CUDA of the wheel", "its glibc", *(f"Python {python}" for python in pythons)),
                 [(release, *wheels.get(release, 2 * ("not brought",)), *(cell((release, python)) for python in pythons))
                  for release in releases])


def python_table(results, _):
    def name(row):
        return row["implementation"] + (", debug build" if row["debug"] else "") + (", free-threaded" if row["free_threaded"] else "")
    return table(("interpreter", "version", "Python lines in a trace", "date, commit"),
                 [(name(row), row["python"], "wrong" if row["wrong"] else lines_text(row["lines"]), measured_on(row))
                  for row in results.get("python", [])])


def cuda_table(results, _):
    return table(
        ("CUDA", "library", "functions", "of them hooked", "hooked, and not in this release", "unknown",
         "calls without a driver", "their answers", "date, commit"),
        [(row["release"], f"`{row['runtime']}`", row["exported"], row["hooked"], len(row["absent"]), len(row["unknown"]), row["calls"],
          f"the same: `{row['first_error']}`" if row["same"] else "not the same", measured_on(row)) for row in results.get("cuda", [])])


def absent_list(results, _):
    """Which functions an earlier release does not have yet, and the release before which that is so."""
    first = {}
    for row in results.get("cuda", []):
        for function in row["absent"]:
            first.setdefault((row["runtime"], function), []).append(minor(row["release"]))
    groups = {}
    for (runtime, function), releases in first.items():
        groups.setdefault((runtime, releases[-1]), []).append(function)
    return table(("not yet in", "functions"),
                 [(f"`{runtime}` of {last}" + ("" if last.endswith(".0") else " and earlier"),
                   ", ".join(f"`{name}`" for name in sorted(functions)))
                  for (runtime, last), functions in sorted(groups.items(), key=lambda item: natural(item[0][1]))])


def refused_table(results, _):
    return table(("what", "where it says so", "what it says"),
                 [(row["what"], row["who"], row["says"] or "nothing") for row in results.get("refused", [])])


SECTIONS = {"matrix": matrix, "pytorch": pytorch_table, "python": python_table, "cuda": cuda_table, "absent": absent_list,
            "refused": refused_table}


def on_gpus(folder):
    """{(PyTorch, Python)} of the results of GPUs in the folder."""
    found = set()
    for path in sorted(folder.glob("*.json")):
        versions = json.loads(path.read_text(encoding="utf-8")).get("versions")
        if isinstance(versions, dict) and "torch" in versions:
            found.add((minor(versions["torch"]), minor(versions["python"])))
    return found


def page(text, results, gpu):
    """The page with its sections written anew; what stands outside of them is left alone."""
    for name, write_section in SECTIONS.items():
        begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
            raise Unusable(f"the page lacks {begin.strip()} and {end} behind it, once each")
        text = text[:text.index(begin) + len(begin)] + write_section(results, gpu) + "\n" + text[text.index(end):]
    return text


def write(results_path, page_path, check):
    """0; 1: with `check` the page does not show the file; 2: one of the two cannot be used."""
    try:
        results = json.loads(results_path.read_text(encoding="utf-8"))
        if results.get("schema") != SCHEMA:
            raise Unusable(f"{results_path} has the schema {results.get('schema')!r}, not {SCHEMA!r}")
        before = page_path.read_text(encoding="utf-8")
        after = page(before, results, on_gpus(results_path.parent / "results"))
    except (OSError, json.JSONDecodeError, Unusable) as error:
        print(error)
        return 2
    if not check:
        page_path.write_text(after, encoding="utf-8")
        return 0
    print("".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), str(page_path), "as it should be")), end="")
    return 1 if before != after else 0
