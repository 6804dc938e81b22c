"""The page of results and its chart: the generator on canned results files, and what is kept in docs/results."""

import collections
import contextlib
import io
import itertools
import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import support

sys.path.insert(0, str(support.REPOSITORY / "tools" / "dev"))

from results import chart, page, targets  # noqa: E402  (the folder is known only now)

SUMMARY = {
    "pairs": 30,
    "groups": 5,
    "a_median": 0.0251,
    "b_median": 0.0252,
    "difference_median": 0.00003,
    "ratio_median": 1.0004,
    "ratio_low": 0.9995,
    "ratio_high": 1.0011,
    "confidence": 0.95,
}
RESULTS = {
    "schema": "slipstream-gpu-results-1",
    "rehearsal": False,
    "complete": True,
    "commit": "abc123",
    "date": "2026-01-02T03:04:05Z",
    "machine": {"gpus": [{"name": "NVIDIA H200"}], "driver": "580.1", "cpu": "Some CPU", "cores": 16},
    "versions": {"cuda": "13.0", "torch": "2.11.0", "python": "3.12.3"},
    "benchmarks": [
        {"name": "lm", "variant": "off", "asserted": True, "groups": [], "summary": SUMMARY},
        {
            "name": "start",
            "variant": "preload",
            "groups": [],
            "summary": SUMMARY,
            "difference_low": 0.00002,
            "difference_high": 0.00004,
        },
    ],
    "checks": [
        {"name": "identity.lm", "outcome": "PASS", "detail": "equal", "seconds": 1},
        {
            "name": "counts.lm.process",
            "outcome": "PASS",
            "detail": "",
            "seconds": 1,
            "data": {
                "functions": {
                    "cudaMalloc": {"slipstream": 41, "cupti": 41},
                    "cudaGetDevice": {"slipstream": 9, "cupti": 9},
                }
            },
        },
        {"name": "outcomes.cupy", "outcome": "SKIP", "detail": "CuPy is not installed", "seconds": 0},
        {"name": "outcomes.sigkill", "outcome": "FAIL", "detail": "left | running", "seconds": 0},
    ],
}
SPEED = [
    {
        "name": "resnet50",
        "variant": f"throughput.{variant}",
        "asserted": asserted,
        "groups": [],
        "summary": {**SUMMARY, "a_median": a, "b_median": b, "ratio_median": b / a},
    }
    for variant, asserted, a, b in (
        ("slipstream", True, 2000.0, 3000.0),
        ("hand_tuned", False, 2000.0, 2990.0),
        ("slipstream_to_hand_tuned", False, 2990.0, 3000.0),
    )
] + [
    {"name": "item", "variant": "step.slipstream", "asserted": True, "groups": [], "summary": SUMMARY},
    {
        "name": "blocking 64KiB",
        "variant": "copy.blocking",
        "bytes": 65536,
        "target": 1e-5,
        "summary": {
            name: {"repetitions": 16, "median": median, "p90": 2 * median}
            for name, median in (("bare", 0.064), ("slipstream", 9e-6), ("pinned", 25e-6))
        },
    },
    {
        "name": "complete 16MiB",
        "variant": "copy.complete",
        "bytes": 16_000_000,
        "target": None,
        "summary": {
            name: {"repetitions": 9, "median": median, "p90": median}
            for name, median in (("bare", 1e-3), ("slipstream", 4e-4), ("pinned", 3.2e-4), ("host", 2.5e-4))
        },
    },
    {
        "name": "fetch 32MiB",
        "variant": "copy.fetch",
        "bytes": 32_000_000,
        "target": None,
        "summary": {
            name: {"repetitions": 9, "median": median, "p90": median}
            for name, median in (("bare", 2e-2), ("slipstream", 2e-3), ("pinned", 1e-3))
        },
    },
]
POOL = {
    **RESULTS,
    "checks": [{"name": "allocator.race", "outcome": "PASS", "detail": "", "seconds": 1}],
    "benchmarks": [
        {
            "name": f"{'async' if variant == 'async' else 'malloc'}/{name}",
            "variant": f"pair.{variant}",
            "target": 400 if variant == "pooled" else None,
            "summary": {"p50": p50, "p99": 2 * p50},
        }
        for name in ("idle/20MiB/1", "idle/20MiB/16", "behind/1GiB/1")
        for variant, p50 in (("bare", 47_000.0), ("off", 48_000.0), ("pooled", 380.0), ("async", 470.0))
    ]
    + [{"name": "ask/passed", "variant": "driver", "unit": "ns", "ns": 1265.4}]
    + [{"name": "empty_cache", "variant": "step.pooled_every_to_never", "groups": [], "summary": SUMMARY}],
}
WORKLOADS = {
    **RESULTS,
    "checks": [
        {"name": "workloads.nested.gain", "outcome": "PASS", "detail": "", "seconds": 1, "data": {}},
        {
            "name": "workloads.nested.accounts",
            "outcome": "PASS",
            "detail": "",
            "seconds": 1,
            "data": {
                "milliseconds_a_step": {
                    "bare": "Failed: no trace",
                    "hand_tuned": {
                        **{"step": 9.0, "kernels": 5.25, "copies_alone": 0.5, "idle": 3.25},
                        **{"host_moving": 1.75, "host_waiting": 0.125, "launches": 7},
                    },
                }
            },
        },
        {
            "name": "workloads.geometric_mean",
            "outcome": "PASS",
            "detail": "",
            "seconds": 1,
            "data": {"ratios": {"nested": 1.2}, "geometric_mean": 1.2},
        },
    ],
    "benchmarks": [
        {"name": name, "variant": f"workload.{variant}", "groups": [], "summary": {**SUMMARY, **figures}}
        for name, variants in (
            ("nested", ("slipstream", "hand_tuned", "slipstream_to_hand_tuned")),
            ("two_cores_vision", ("slipstream",)),
        )
        for variant, figures in (
            ("slipstream", {"a_median": 1000.0, "b_median": 1500.0, "ratio_median": 1.5}),
            ("hand_tuned", {"a_median": 1000.0, "b_median": 1250.0, "ratio_median": 1.25}),
            ("slipstream_to_hand_tuned", {"a_median": 1250.0, "b_median": 1500.0, "ratio_median": 1.2}),
        )
        if variant in variants
    ],
}
STEADY = {
    **RESULTS,
    "checks": [{"name": "steady.lm", "outcome": "PASS", "detail": "", "seconds": 1}],
    "benchmarks": [
        {"name": "lm", "variant": f"steady.{variant}", "asserted": False, "groups": [], "summary": SUMMARY}
        for variant in ("slipstream", "control")
    ],
}
FILES = {
    "h200.json": {**RESULTS, "benchmarks": RESULTS["benchmarks"] + SPEED},
    "h200-pool.json": POOL,
    "h200-workloads.json": WORKLOADS,
    "h200-steady.json": STEADY,
}
SECTIONS = tuple(page.Section(name[:-5], f"About {name[:-5]}", "What it is.") for name in FILES)
HOOK_COST = page.Section("hook-cost", "About hooks", "What they cost.")
EMPTY = "# title\n" + "between\n".join(
    f"<!-- {name}:begin -->\nold\n<!-- {name}:end -->\n"
    for name in (page.FILES, *(section.name for section in SECTIONS), HOOK_COST.name)
)


def run(folder, *arguments, **what):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = page.main(["--folder", str(folder), *arguments], **what)
    return status, out.getvalue() + err.getvalue()


def block_of(text, name):
    return text.split(f"<!-- {name}:begin -->\n")[1].split(f"<!-- {name}:end -->")[0]


class Generator(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        for name, results in FILES.items():
            self.write(results, name)
        (self.folder / "hook-cost.txt").write_text("ns a call  bare\nEventQuery  2.13\n")
        (self.folder / "hook-cost.json").write_text("{}")
        self.page.write_text(EMPTY)

    @property
    def page(self):
        return self.folder / page.PAGE

    @property
    def chart(self):
        return self.folder / page.CHART

    def write(self, results, name="h200.json"):
        (self.folder / name).write_text(json.dumps(results))

    def run_main(self, *arguments):
        return run(self.folder, *arguments, sections=SECTIONS, hook_cost=HOOK_COST)

    def test_writes_what_is_between_the_markers_and_nothing_else(self):
        self.assertEqual((1, EMPTY, False), (self.run_main("--check")[0], self.page.read_text(), self.chart.exists()))
        self.assertEqual((0, ""), self.run_main())
        text = self.page.read_text()
        self.assertNotIn("old", text)
        outside = re.sub(r"(:begin -->\n).*?(<!-- \S+:end)", r"\1old\n\2", text, flags=re.DOTALL)
        self.assertEqual(EMPTY, outside)
        self.assertEqual(0, self.run_main("--check")[0])
        self.run_main()
        self.assertEqual(text, self.page.read_text())

    def assert_shown(self, name, *expected):
        self.assertEqual((0, ""), self.run_main())
        block = block_of(self.page.read_text(), name)
        for line in expected:
            self.assertIn(line, block)

    def test_the_first_section(self):
        self.assert_shown(
            "h200",
            "## About h200\n\nWhat it is.\n",
            "Measured 2026-01-02 at commit `abc123` on NVIDIA H200, driver 580.1, CUDA 13.0, PyTorch 2.11.0",
            "| lm | every engine and counter off | 25.100 | 1.0004 | 0.9995 to 1.0011 | 30 |",
            "| `cudaMalloc` | 41 | 41 |",
            "2 of 2 hooked functions equal",
            "adds 0.030 ms",
            "- FAIL `outcomes.sigkill`: left | running",
            "- SKIP `outcomes.cupy`: CuPy is not installed",
            "[h200.json](h200.json)",
            "| resnet50 | 2000 | 3000 | 2990 | **1.500** (1.000 to 1.001) | 1.003 (1.000 to 1.001) | 30 |",
            "| item | 25.100 | 1.000 | 1.000 to 1.001 | 30 |",
            "| 64KiB | 64.00 ms (128.00 ms) | 9.0 us (18.0 us) | 25.0 us (50.0 us) | 10.0 us |",
            "| 16MiB | 16.0 | 40.0 | 50.0 | 0.80 | 64.0 |",
            "| 32MiB | 1.6 | 16.0 | 32.0 | 10.0 | - |",
        )

    def test_the_pool(self):
        self.assert_shown(
            "h200-pool",
            "| nothing | 20MiB | 1 | 47.0 us (94.0 us) | 48.0 us (96.0 us) | 380 ns (760 ns) | 470 ns (940 ns) |",
            "| nothing | 20MiB | 16 | 47.0 us (94.0 us) | 48.0 us (96.0 us) | 380 ns (760 ns) | 470 ns (940 ns) |",
            "| a copy of 2 GiB | 1GiB | 1 | 47.0 us (94.0 us) | 48.0 us (96.0 us) | 380 ns (760 ns) | 470 ns (940 ns) |",
            "by one thread or by several at once (`tools/dev/bench/pool_calls.cpp`)",
            "| the same behind work that has run | 1265 ns |",
            "| `empty_cache()` at every step of ResNet-50 / never, with the pool | 25.100 | 1.000 | 1.000 to 1.001 | 30 |",
        )

    def test_workloads(self):
        self.assert_shown(
            "h200-workloads",
            "| nested | 1000 | 1500 | 1250 | 1.500 (1.000 to 1.001) | 1.200 (1.000 to 1.001) | 30 |",
            "| two_cores_vision | 1000 | 1500 | - | 1.500 (1.000 to 1.001) | - | 30 |",
            "over 1 workloads, geometric mean: 1.200.",
            "| nested | hand tuned | 9.00 | 5.25 | 0.50 | 3.25 | 1.75 | 0.12 |",
            "| workloads | plain scripts against bare and tuned by hand: same results, throughput | 3 | 0 | 0 |",
        )

    def test_steady_programs(self):
        self.assert_shown(
            "h200-steady",
            "| lm | slipstream / bare | 25.100 | 1.0004 | 0.9995 to 1.0011 | 30 |",
            "| lm | bare against bare (what the method can tell apart) | 25.100 | 1.0004 | 0.9995 to 1.0011 | 30 |",
        )

    def test_a_benchmark_that_printed_its_table(self):
        self.assert_shown("hook-cost", "    EventQuery  2.13\n", "[hook-cost.json](hook-cost.json)")

    def test_the_list_of_files(self):
        self.assert_shown(
            page.FILES,
            "| [About h200](#about-h200) | 2026-01-02 | `abc123` | NVIDIA H200 | 2 | 1 | 1 | [h200.json](h200.json) |",
            "[hook-cost.txt](hook-cost.txt)",
        )

    def test_parts_of_one_run(self):
        part = self.folder / "h200.part-ratio.json"
        whole = FILES["h200.json"]
        self.write({**whole, "benchmarks": SPEED, "checks": whole["checks"][:1]})
        rest = {**whole, "benchmarks": whole["benchmarks"][:2], "checks": whole["checks"][1:]}
        part.write_text(json.dumps({**rest, "date": "later"}))
        self.assert_shown(
            "h200",
            "Measured 2026-01-02 at commit `abc123`",
            "| `cudaMalloc` | 41 | 41 |",
            "[h200.json](h200.json), [h200.part-ratio.json](h200.part-ratio.json)",
        )
        text = self.page.read_text()
        for changes in ({"commit": "def456"}, {"machine": {}}, {"checks": whole["checks"]}, {"complete": False}):
            part.write_text(json.dumps({**rest, **changes}))
            status, message = self.run_main()
            self.assertEqual(2, status, changes)
            self.assertIn("Unusable: h200: ", message)
        self.assertEqual(text, self.page.read_text())

    def test_check_sees_a_changed_figure_on_either_side(self):
        self.run_main()
        self.page.write_text(self.page.read_text().replace("1.0004", "0.9004"))
        self.assertEqual(1, self.run_main("--check")[0])
        self.run_main()
        changed = json.loads(json.dumps(FILES["h200.json"]))
        changed["benchmarks"][0]["summary"]["ratio_median"] = 1.01
        self.write(changed)
        self.assertEqual(1, self.run_main("--check")[0])

    def test_refuses_what_shows_nothing(self):
        for change in ({"rehearsal": True}, {"complete": False}, {"schema": "other"}):
            self.write({**FILES["h200.json"], **change})
            status, message = self.run_main()
            self.assertEqual(2, status, change)
            self.assertIn("Unusable", message)
        self.assertEqual(EMPTY, self.page.read_text())

    def test_refuses_what_no_table_shows(self):
        whole = FILES["h200.json"]
        other = {"name": "lm", "variant": "other", "asserted": True, "groups": [], "summary": SUMMARY}
        driver = {"name": "other", "variant": "driver", "unit": "ns", "ns": 1.0}
        check = {"name": "other.lm", "outcome": "PASS", "detail": "", "seconds": 1}
        for changes in (
            {"benchmarks": [*whole["benchmarks"], other]},
            {"benchmarks": [*whole["benchmarks"], driver]},
            {"checks": [*whole["checks"], check]},
            {"checks": [*whole["checks"], {**check, "name": "identity.x", "outcome": "LOST"}]},
        ):
            self.write({**whole, **changes})
            status, message = self.run_main()
            self.assertEqual(2, status, changes)
            self.assertIn("Unusable", message)

    def test_a_file_without_a_section_and_a_section_without_a_file(self):
        self.write(STEADY, "h200-new.json")
        self.assertIn("h200-new.json is in no section", self.run_main("--check")[1])
        (self.folder / "h200-new.json").unlink()
        (self.folder / "h200-steady.json").unlink()
        status, message = self.run_main()
        self.assertEqual((2, True), (status, "h200-steady" in message))
        self.assertEqual(EMPTY, self.page.read_text())

    def test_a_page_without_the_markers(self):
        for text in ("# title\n", EMPTY.replace(":begin", ":x").replace(":end", ":begin").replace(":x", ":end"), 2 * EMPTY):
            self.page.write_text(text)
            self.assertEqual(2, self.run_main()[0])
            self.assertEqual(text, self.page.read_text())

    def test_names_are_text_in_the_chart(self):
        whole = json.loads(json.dumps(FILES["h200.json"]))
        for benchmark in whole["benchmarks"]:
            if benchmark["name"] == "resnet50":
                benchmark["name"] = "<a & b>"
        self.write(whole)
        self.assertEqual((0, ""), self.run_main())
        texts = [element.text for element in xml.etree.ElementTree.parse(self.chart).iter()]
        self.assertIn("<a & b>", texts)


SVG = "{http://www.w3.org/2000/svg}"


def luminance(color):
    channels = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """WCAG's ratio of two colors."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def extent(text):
    """Left and right end of a text in the widest of the usual fonts (DejaVu Sans), or a little more."""
    size, x = float(text.get("font-size")), float(text.get("x"))
    width = len(text.text) * size * (0.62 if text.get("font-weight") else 0.55)
    left = x - {"start": 0, "middle": width / 2, "end": width}[text.get("text-anchor")]
    return left, left + width


def outcome_of(name, outcome, detail):
    return {"name": name, "outcome": outcome, "detail": detail}


class Targets(unittest.TestCase):
    DOCUMENT = (
        "| number | what | target | checks |\n| --- | --- | --- | --- |\n"
        "| T1 | speed | at least 1 | `speed.one`, `speed.gone`, `tools/dev/bench/x.py` |\n| T2 | rate | at least 2 | `copy.*` |\n"
    )

    def rendered(self, *checks, document=DOCUMENT):
        measured = {
            "old": {"date": "2026-01-01", "checks": [outcome_of("speed.one", "FAIL", "was slow")]},
            "new": {"date": "2026-02-01", "checks": list(checks)},
        }
        return targets.render(document, measured, {"old": "Old", "new": "New"}, lambda title: title)

    def test_the_newest_that_has_the_check(self):
        self.assertIn("| T1 | at least 1 | `speed.one` | passed: 1.5 | New |", self.rendered(outcome_of("speed.one", "PASS", "1.5")))
        self.assertIn("| T1 | at least 1 | `speed.one` | failed: was slow | Old |", self.rendered())

    def test_what_was_not_measured_is_said(self):
        text = self.rendered()
        self.assertIn("| T1 | at least 1 | `speed.gone` | not among the results kept here | - |", text)
        self.assertIn("| T2 | at least 2 | `copy.*` | not among the results kept here | - |", text)
        self.assertNotIn("bench", text)

    def test_a_check_that_asserts_nothing_has_not_passed(self):
        text = self.rendered(outcome_of("copy.a", "PASS", "0.4 (target 2); reported, not asserted"))
        self.assertIn("`copy.a` | reported: 0.4 (target 2); reported, not asserted |", text)

    def test_many_are_counted(self):
        many = [outcome_of(f"copy.{n}", "PASS" if n % 2 else "FAIL", "") for n in range(5)]
        self.assertIn("| T2 | at least 2 | `copy.*` | 2 passed, 3 failed | New |", self.rendered(*many))

    def test_a_document_that_cannot_be_read(self):
        with self.assertRaises(targets.Unusable):
            self.rendered(document="T1: fast\n")

    def test_every_target_is_on_the_page(self):
        document = (support.REPOSITORY / "docs" / "targets.md").read_text(encoding="utf-8")
        page = (support.REPOSITORY / "docs" / "results" / "README.md").read_text(encoding="utf-8")
        numbers = re.findall(r"^\| (T\d+) \|", document, re.MULTILINE)
        self.assertEqual(len(numbers), 12)
        for number in numbers:
            self.assertIn(f"| {number} | ", page.partition("<!-- targets:begin -->")[2].partition("<!-- targets:end -->")[0])


class Kept(unittest.TestCase):
    """docs/results as it is."""

    folder = support.REPOSITORY / "docs" / "results"

    @classmethod
    def setUpClass(cls):
        cls.results = page.Results(cls.folder)
        cls.text = (cls.folder / page.PAGE).read_text(encoding="utf-8")
        cls.svg = (cls.folder / page.CHART).read_text(encoding="utf-8")

    def copy(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return pathlib.Path(shutil.copytree(self.folder, pathlib.Path(directory.name) / "results"))

    def test_page_and_chart_are_current(self):
        self.assertEqual((0, ""), run(self.folder, "--check"))

    def test_check_fails_without_any_line_that_was_generated(self):
        lines = self.text.splitlines(keepends=True)
        inside = 0
        generated = []
        for number, line in enumerate(lines):
            inside += line.count(":begin -->") - line.count(":end -->")
            if inside and ":begin -->" not in line and line.strip():
                generated.append(number)
        self.assertGreater(len(generated), 300)
        self.assertEqual(self.text, self.results.page(self.text))
        for number in generated:
            shorter = "".join(lines[:number] + lines[number + 1 :])
            self.assertNotEqual(shorter, self.results.page(shorter), lines[number])

    def test_check_fails_without_a_failure_or_with_an_old_chart(self):
        folder = self.copy()
        failure = next(line for line in self.text.splitlines(keepends=True) if line.startswith("- FAIL"))
        (folder / page.PAGE).write_text(self.text.replace(failure, ""))
        self.assertEqual(1, run(folder, "--check")[0])
        (folder / page.PAGE).write_text(self.text)
        self.assertEqual(0, run(folder, "--check")[0])
        (folder / page.CHART).write_text(self.svg.replace("1.71", "1.72"))
        self.assertEqual(1, run(folder, "--check")[0])
        (folder / page.CHART).unlink()
        self.assertEqual(1, run(folder, "--check")[0])

    def test_every_file_is_linked(self):
        for path in self.folder.iterdir():
            if path.name != page.PAGE:
                self.assertIn(f"]({path.name})", self.text)

    # The next two read the results files by themselves, so that a table or a line which the generator forgets is missed.
    def files(self):
        """(name of the section, its block, checks, benchmarks)"""
        for section in page.SECTIONS:
            parts = [
                json.loads(path.read_text()) for path in self.folder.glob(f"{section.name}.*") if path.suffix == ".json"
            ]
            both = (list(itertools.chain(*(part[key] for part in parts))) for key in ("checks", "benchmarks"))
            yield section.name, block_of(self.text, section.name), *both

    def test_everything_that_did_not_pass_is_named(self):
        seen = 0
        for name, block, checks, _ in self.files():
            lines = block.splitlines()
            for check in checks:
                if check["outcome"] != "PASS":
                    first = (check["detail"].splitlines() or [""])[0]
                    self.assertIn(f"- {check['outcome']} `{check['name']}`: {first}", lines, name)
                    seen += 1
        self.assertGreater(seen, 0)

    def test_every_table_has_all_its_rows(self):
        # The beginning of a table's first line, and the variants that have a row each.
        rows = {
            "model | bare": ("throughput.slipstream",),
            "workload | bare": ("workload.slipstream",),
            "example | bare, ms a step": ("step.slipstream",),
            "size | bare | slipstream | bare, pinned and not blocking": ("copy.blocking",),
            "size | bare | slipstream | bare, pinned and not waiting": ("copy.calls",),
            "size | bare | slipstream | bare, pinned | ": ("copy.complete",),
            "size | bare | slipstream | bare, into pinned": ("copy.fetch",),
            "workload | compared with bare": ("off", "default", "record", "control"),
            "workload | compared | ": ("steady.slipstream", "steady.control"),
            "workload | recorder": tuple(
                f"profilers.{name}"
                for name in (
                    *("record", "record_devices", "after_devices", "cupti_kinds", "cupti_all"),
                    *("torch_cuda", "torch_cpu_cuda", "torch_stacks", "control"),
                )
            ),
            "pending on the device": ("pair.bare",),
            "what | ms": (
                *("step.pooled_every_to_never", "step.bare_every_to_never", "step.pooled_to_bare_never", "step.pooled"),
                *("once.seconds", "once.first"),
            ),
            "call | time": ("driver",),
        }
        for name, block, checks, benchmarks in self.files():
            expected = collections.Counter()
            for beginning, variants in rows.items():
                expected[beginning] = sum(benchmark["variant"] in variants for benchmark in benchmarks)
            expected["program | bare"] = sum("peak_resident" in benchmark for benchmark in benchmarks if benchmark["variant"] == "workload.slipstream")
            expected["driver call | first"] = sum(len(check.get("data", {}).get("parts", ())) for check in checks) / 2
            expected["group | shows"] = len({check["name"].split(".")[0] for check in checks})
            expected["workload | variant"] = sum(
                not isinstance(parts, str)
                for check in checks
                for parts in check.get("data", {}).get("milliseconds_a_step", {}).values()
            )
            tables = re.findall(r"^\| (.*) \|\n\| ---.*\n((?:\|.*\n)+)", block, re.MULTILINE)
            for beginning, count in expected.items():
                found = [body.count("\n") for header, body in tables if header.startswith(beginning)]
                self.assertEqual([count] if count else [], found, (name, beginning))

    def test_the_chart_is_svg_that_a_browser_shows_as_an_image(self):
        root = xml.etree.ElementTree.fromstring(self.svg)
        self.assertEqual(SVG + "svg", root.tag)
        self.assertEqual("img", root.get("role"))
        self.assertEqual(f"0 0 {root.get('width')} {root.get('height')}", root.get("viewBox"))
        self.assertEqual(SVG + "title", root[0].tag)
        self.assertEqual({root[0].get("id"), root[1].get("id")}, set(root.get("aria-labelledby").split()))
        self.assertEqual([], re.findall(r"<script|href|url\(|<image", self.svg))

    def test_the_chart_has_the_figures(self):
        root = xml.etree.ElementTree.fromstring(self.svg)
        shown, told = (" ".join(element.text for element in root.iter(SVG + tag)) for tag in ("text", "desc"))
        for benchmark in json.loads((self.folder / "h200.json").read_text())["benchmarks"]:
            summary = benchmark["summary"]
            if benchmark["variant"] in ("throughput.slipstream", "throughput.hand_tuned"):
                ratio, low, high = (summary[f"ratio_{which}"] for which in ("median", "low", "high"))
                self.assertIn(f" {ratio:.2f} ({low:.2f} to {high:.2f}) {summary['b_median']:.0f} ", shown)
                self.assertIn(f" 1 {summary['a_median']:.0f} ", shown)
                self.assertIn(f" {ratio:.2f} ({low:.2f} to {high:.2f}) ({summary['b_median']:.0f} samples/s)", told)
            elif benchmark["variant"] == "step.slipstream":
                ratio, high, low = (1 / summary[f"ratio_{which}"] for which in ("median", "low", "high"))
                self.assertIn(f" {ratio:.3f} ({low:.3f} to {high:.3f})", shown)
                self.assertIn(f" {ratio:.3f} ({low:.3f} to {high:.3f})", told)

    def test_the_chart_can_be_read_on_white_and_on_dark_pages(self):
        for color in {chart.TEXT, chart.BARE, chart.SLIPSTREAM, chart.TUNED, chart.WHISKER}:
            for background in ("#ffffff", "#0d1117"):
                self.assertGreater(contrast(color, background), 4.0 if color == chart.TEXT else 3.0, (color, background))
        for bar in (chart.SLIPSTREAM, chart.TUNED):
            self.assertGreater(contrast(chart.WHISKER_ON_BAR, bar), 3.0)
        used = set(re.findall(r"#[0-9a-f]{6}", self.svg))
        self.assertLessEqual(used, {chart.TEXT, chart.WHISKER_ON_BAR, *chart.SERIES.values()})

    def test_texts_of_the_chart_lie_inside_and_apart(self):
        root = xml.etree.ElementTree.fromstring(self.svg)
        width, height = float(root.get("width")), float(root.get("height"))
        lines = collections.defaultdict(list)
        for text in root.iter(SVG + "text"):
            left, right = extent(text)
            self.assertTrue(0 <= left and right <= width and float(text.get("y")) <= height, text.text)
            lines[text.get("y")].append((left, right, text.text))
        for line in map(sorted, lines.values()):
            for (_, right, one), (left, _, other) in zip(line, line[1:]):
                self.assertLessEqual(right, left, (one, other))


if __name__ == "__main__":
    unittest.main()
