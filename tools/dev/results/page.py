"""Writes docs/results/README.md and docs/results/speedup.svg from the results files beside them.

    tools/results-page [--folder docs/results] [--check]

SECTIONS below has one section for each results file; NAME.part-*.json are parts of NAME.json: one commit, one machine, no check
twice. In the page a section stands between the lines <!-- NAME:begin --> and <!-- NAME:end -->, and <!-- files:begin -->,
<!-- files:end --> hold the list of all, <!-- targets:begin -->, <!-- targets:end --> where the targets of docs/targets.md stand. No figure between such lines is typed by hand. What stands outside of them is written
by hand and left alone.

With --check nothing is written: exit status 1 says that the page or the chart does not show these files. Exit status 2: a file
has no section or a section no file, a file holds what no table shows, or the page lacks markers.
"""

import argparse
import dataclasses
import difflib
import json
import pathlib
import re
import sys

from . import advice, chart, checks, copies, pool, targets, training
from .markdown import Unusable, table

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
SCHEMA = "slipstream-gpu-results-1"
PAGE, CHART = "README.md", "speedup.svg"
FILES = "files"
TARGETS = "targets"
# In their order on the page: what writes a table, and the variants of benchmarks that it shows.
TABLES = (*pool.TABLES, *training.THROUGHPUT_TABLES, *copies.TABLES, *training.STEP_TABLES, *advice.TABLES, *checks.TABLES)


@dataclasses.dataclass(frozen=True)
class Section:
    name: str  # of its file, without .json; of its markers
    title: str
    what: str  # was measured, in a sentence


SECTIONS = (
    Section(
        "h200",
        "Training, single copies, and what the preload costs",
        "Whole trainings, single copies and the start of a program, bare and under slipstream (the groups of the "
        "[GPU suite](../gpu-suite.md) that the last table of this section lists).",
    ),
    Section(
        "h200-workloads",
        "Plain scripts beside scripts tuned by hand",
        "Programs in which data crosses the bus at every step (the group `workloads` of the [GPU suite](../gpu-suite.md)).",
    ),
    Section(
        "h200-pool",
        "The pool of device memory",
        "The pool underneath `cudaMalloc`, and the conformance tests of device allocators, with two GPUs (the groups `allocator` "
        "and `conformance` of the [GPU suite](../gpu-suite.md)).",
    ),
    Section(
        "h200-pool-4d5c2d0",
        "The pool of device memory on another machine",
        "The group `allocator` of the [GPU suite](../gpu-suite.md) at an earlier commit, on another machine.",
    ),
    Section(
        "h200-steady-eb05385",
        "Programs with little to gain",
        "Whether any of them is slower, by several processes each (the group `steady` of the [GPU suite](../gpu-suite.md)).",
    ),
    Section(
        "h200-copies",
        "Single copies, and host memory",
        "Single copies with the driver calls that they consist of, five of the programs above with the host memory that they take, and "
        "the conformance tests with one GPU (the groups `transfer`, `workloads` and `conformance` of the [GPU suite](../gpu-suite.md)).",
    ),
    Section(
        "h200-profilers",
        "What recording costs a step",
        "`slipstream run --record` beside torch.profiler, on a program that waits for the host (the group `profilers` of the "
        "[GPU suite](../gpu-suite.md)).",
    ),
)
# The one result that tools/gpu-suite does not make. Its text is what the benchmark printed.
HOOK_COST = Section(
    "h200-hook-cost",
    "What a hook adds to a call",
    "Nanoseconds that slipstream adds to a call, by policy and number of threads: median, with the smallest and the largest of the "
    "rounds (`tools/dev/bench/hook_cost.py`; its output says neither machine, commit nor date).",
)
CHARTED = "h200"


def link(path, text=None):
    return f"[{text or path}]({path})"


def anchor(title):
    """The fragment that GitHub and GitLab give a heading."""
    return "#" + re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def gpus_of(results):
    gpus = [gpu["name"] for gpu in results["machine"]["gpus"]]
    names = (f"{gpus.count(name)} x {name}" if gpus.count(name) > 1 else name for name in dict.fromkeys(gpus))
    return ", ".join(names) or "no GPU"


def machine_line(results):
    machine, versions = results["machine"], results["versions"]
    parts = [
        gpus_of(results),
        f"driver {machine['driver']}",
        f"CUDA {versions['cuda']}",
        f"PyTorch {versions['torch']}",
        f"Python {versions['python']}",
        f"{machine['cores']} cores of {machine['cpu']}",
    ]
    return f"Measured {results['date'][:10]} at commit `{results['commit']}` on {', '.join(parts)}."


def joined(parts):
    """One results file's content, of several: the first one's date."""
    whole = parts[0]
    for part in parts[1:]:
        for key in ("schema", "rehearsal", "commit", "machine", "versions"):
            if part[key] != whole[key]:
                raise Unusable(f"these are not parts of one run: their {key} differs")
        twice = {check["name"] for check in whole["checks"]} & {check["name"] for check in part["checks"]}
        if twice:
            raise Unusable(f"{min(twice)} is in two of the files")
        whole = {
            **whole,
            "complete": whole["complete"] and part["complete"],
            "checks": whole["checks"] + part["checks"],
            "benchmarks": whole["benchmarks"] + part["benchmarks"],
        }
    return whole


def usable(results):
    if results.get("schema") != SCHEMA:
        raise Unusable(f"schema is {results.get('schema')!r}, expected {SCHEMA!r}")
    if results.get("rehearsal"):
        raise Unusable("these results are a rehearsal without a GPU; they show nothing about slipstream")
    if not results.get("complete"):
        raise Unusable("the suite did not run to its end")
    shown = {variant for _, variants in TABLES for variant in variants}
    unknown = {benchmark["variant"] for benchmark in results["benchmarks"]} - shown
    if unknown:
        raise Unusable(f"no table of tools/dev/results shows the benchmarks of {min(unknown)}")
    return results


def render(section, results, sources):
    parts = [
        f"## {section.title}",
        section.what,
        machine_line(results),
        *(render_table(results) for render_table, _ in TABLES),
        f"Every pair and every check: {', '.join(link(source) for source in sources)}. Made by `tools/gpu-suite`, written here by "
        "`tools/results-page`.",
    ]
    return "\n\n".join(part for part in parts if part)


def render_text(section, text, sources):
    indented = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
    every = f"As printed, and every round: {', '.join(link(source) for source in sources)}. Written here by `tools/results-page`."
    return "\n\n".join([f"## {section.title}", section.what, indented, every])


class Results:
    """The files of a folder, by the section that shows them."""

    def __init__(self, folder, sections=SECTIONS, hook_cost=HOOK_COST):
        self.sections = sections
        self.sources = {}  # by name of the section: its files
        self.measured = {}
        self.texts = {}
        for section in sections:
            paths = [folder / f"{section.name}.json", *sorted(folder.glob(f"{section.name}.part-*.json"))]
            try:
                whole = joined([json.loads(path.read_text(encoding="utf-8")) for path in paths])
                self.measured[section.name] = usable(whole)
                self.texts[section.name] = render(section, whole, [path.name for path in paths])
            except (OSError, ValueError, KeyError, TypeError, StopIteration, Unusable) as error:
                raise Unusable(f"{section.name}: {type(error).__name__}: {error}") from error
            self.sources[section.name] = paths
        if hook_cost:
            self.sections = (*sections, hook_cost)
            paths = [folder / f"{hook_cost.name}.{suffix}" for suffix in ("txt", "json")]
            self.texts[hook_cost.name] = render_text(
                hook_cost, paths[0].read_text(encoding="utf-8"), [path.name for path in paths]
            )
            self.sources[hook_cost.name] = paths
        shown = {path.name for paths in self.sources.values() for path in paths}
        left = {path.name for path in folder.iterdir() if not path.name.startswith(".")} - shown - {PAGE, CHART}
        if left:
            raise Unusable(f"{min(left)} is in no section of tools/dev/results/page.py")
        self.texts[FILES] = self.list_of_files()
        document = folder.parent / "targets.md"
        if document.exists():
            titles = {section.name: section.title for section in self.sections}
            self.texts[TARGETS] = targets.render(
                document.read_text(encoding="utf-8"), self.measured, titles, lambda title: link(anchor(title), title)
            )

    def list_of_files(self):
        rows = []
        for section in self.sections:
            results = self.measured.get(section.name)
            # Only figures of one file; what a section is about stands under its heading.
            facts = (results["date"][:10], f"`{results['commit']}`", gpus_of(results), *checks.outcomes(results)) if results else 6 * ("-",)
            files = ", ".join(link(path.name) for path in self.sources[section.name])
            rows.append((link(anchor(section.title), section.title), *facts, files))
        header = ("section", "measured", "commit", "GPU", *(f"checks {word}" for word in checks.OUTCOMES.values()), "files")
        return table(header, rows)

    def page(self, old):
        for name, text in self.texts.items():
            old = replaced(old, text, f"<!-- {name}:begin -->", f"<!-- {name}:end -->")
        return old


def replaced(page, block, begin, end):
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise Unusable(f"the page needs one line {begin} and after it one line {end}")
    return page[: page.index(begin) + len(begin)] + "\n" + block + "\n" + page[page.index(end) :]


def main(arguments=None, sections=SECTIONS, hook_cost=HOOK_COST, charted=CHARTED):
    parser = argparse.ArgumentParser(
        prog="tools/results-page", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=pathlib.Path, default=REPOSITORY / "docs" / "results")
    parser.add_argument("--check", action="store_true", help="write nothing; say whether page and chart show the files")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    try:
        results = Results(folder, sections, hook_cost)
        page = (folder / PAGE).read_text(encoding="utf-8")
        old_chart = (folder / CHART).read_text(encoding="utf-8") if (folder / CHART).exists() else ""
        files = (
            (PAGE, page, results.page(page)),
            (CHART, old_chart, chart.draw(results.measured[charted])),
        )
    except (OSError, ValueError, KeyError, TypeError, StopIteration, Unusable) as error:
        print(f"results-page: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    status = 0
    for name, old, new in files:
        if old == new:
            continue
        if not options.check:
            (folder / name).write_text(new, encoding="utf-8")
            continue
        status = 1
        print("\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), name, "as measured", lineterm="", n=1)))
        print(f"results-page: {folder / name} does not show the results files; run tools/results-page", file=sys.stderr)
    return status
