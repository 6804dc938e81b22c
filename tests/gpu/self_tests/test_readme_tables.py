"""The generator of the README's tables on a canned results file."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import support

tables = support.load_script(support.REPOSITORY / "tools" / "readme-tables")

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
README = f"# title\n{tables.BEGIN}\nold\n{tables.END}\nend\n"
POOL_README = f"{README}{tables.POOL_BEGIN}\n{tables.POOL_END}\n"
WORKLOADS_README = f"{POOL_README}{tables.WORKLOADS_BEGIN}\n{tables.WORKLOADS_END}\n"


class Tables(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.readme = self.root / "README.md"
        self.results = self.root / "docs" / "h200.json"
        self.results.parent.mkdir()
        self.write(RESULTS)
        self.readme.write_text(README)

    def write(self, results):
        self.results.write_text(json.dumps(results))

    def run_main(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
            status = tables.main([str(self.results), "--readme", str(self.readme), *arguments])
        return status, err.getvalue()

    def test_writes_the_block_and_nothing_else(self):
        self.assertEqual((1, True), (self.run_main("--check")[0], self.readme.read_text() == README))
        self.assertEqual((0, ""), self.run_main())
        text = self.readme.read_text()
        self.assertTrue(text.startswith("# title\n" + tables.BEGIN) and text.endswith(tables.END + "\nend\n"))
        for expected in (
            "Measured 2026-01-02 at commit `abc123` on NVIDIA H200, driver 580.1, CUDA 13.0, PyTorch 2.11.0",
            "| lm | every engine and counter off | 25.100 | 1.0004 | 0.9995 to 1.0011 | 30 |",
            "| `cudaMalloc` | 41 | 41 |",
            "2 of 2 hooked functions equal",
            "adds 0.030 ms",
            "- FAIL `outcomes.sigkill`: left | running",
            "[docs/h200.json](docs/h200.json)",
        ):
            self.assertIn(expected, text)
        self.assertNotIn("old", text)
        self.assertEqual(0, self.run_main("--check")[0])
        self.run_main()
        self.assertEqual(text, self.readme.read_text())

    def test_parts_of_one_run(self):
        part = self.results.with_name("h200.part-ratio.json")
        self.write({**RESULTS, "benchmarks": [], "checks": RESULTS["checks"][:1]})
        part.write_text(json.dumps({**RESULTS, "date": "later", "checks": RESULTS["checks"][1:]}))
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(0, tables.main([str(self.results), str(part), "--readme", str(self.readme)]))
        text = self.readme.read_text()
        for expected in ("at commit `abc123`", "| `cudaMalloc` | 41 | 41 |", "[docs/h200.part-ratio.json](docs/h200.part"):
            self.assertIn(expected, text)
        self.assertEqual(1, self.run_main("--check")[0])
        for changes in ({"commit": "def456"}, {"machine": {}}, {"checks": RESULTS["checks"]}, {"complete": False}):
            part.write_text(json.dumps({**RESULTS, "checks": RESULTS["checks"][1:], **changes}))
            with contextlib.redirect_stderr(io.StringIO()) as err:
                self.assertEqual(2, tables.main([str(self.results), str(part), "--readme", str(self.readme)]), changes)
            self.assertIn("Unusable", err.getvalue())
        self.assertEqual(text, self.readme.read_text())

    def test_speed_where_it_was_measured(self):
        self.run_main()
        self.assertNotIn("tuned by hand", self.readme.read_text())
        self.write({**RESULTS, "benchmarks": RESULTS["benchmarks"] + SPEED})
        self.assertEqual((0, ""), self.run_main())
        text = self.readme.read_text()
        for expected in (
            "| resnet50 | 2000 | 3000 | 2990 | **1.500** (1.000 to 1.001) | 1.003 (1.000 to 1.001) | 30 |",
            "| item | 25.100 | 1.000 | 1.000 to 1.001 | 30 |",
            "| 64KiB | 64.00 ms (128.00 ms) | 9.0 us (18.0 us) | 25.0 us (50.0 us) | 10.0 us |",
            "| 16MiB | 16.0 | 40.0 | 50.0 | 0.80 | 64.0 |",
            "| 32MiB | 1.6 | 16.0 | 32.0 | 10.0 | - |",
            "| lm | every engine and counter off | 25.100 | 1.0004 | 0.9995 to 1.0011 | 30 |",
        ):
            self.assertIn(expected, text)

    def test_the_pool_has_a_place_of_its_own(self):
        self.readme.write_text(POOL_README)
        self.write(POOL)
        self.assertEqual((0, ""), self.run_main())
        text = self.readme.read_text()
        self.assertTrue(text.startswith(README))
        for expected in (
            "| nothing | 20MiB | 47.0 us (94.0 us) | 380 ns (760 ns) | 470 ns (940 ns) |",
            "| a copy of 2 GiB | 1GiB | 47.0 us (94.0 us) | 380 ns (760 ns) | 470 ns (940 ns) |",
            "| 16 | 47.0 us (94.0 us) | 380 ns (760 ns) | 470 ns (940 ns) |",
            "the target is 400 ns",
            "| the same behind work that has run | 1265 ns |",
            "| `empty_cache()` at every step of ResNet-50 / never, with the pool | 25.100 | 1.000 | 1.000 to 1.001 | 30 |",
        ):
            self.assertIn(expected, text)
        self.assertEqual(0, self.run_main("--check")[0])
        self.readme.write_text(README)
        self.assertEqual(2, self.run_main()[0])

    def test_workloads_have_a_place_of_their_own(self):
        self.readme.write_text(WORKLOADS_README)
        self.write(WORKLOADS)
        self.assertEqual((0, ""), self.run_main())
        text = self.readme.read_text()
        self.assertTrue(text.startswith(POOL_README))
        for expected in (
            "| nested | 1000 | 1500 | 1250 | 1.500 (1.000 to 1.001) | 1.200 (1.000 to 1.001) | 30 |",
            "| two_cores_vision | 1000 | 1500 | - | 1.500 (1.000 to 1.001) | - | 30 |",
            "over 1 workloads, geometric mean: 1.200.",
            "| nested | hand tuned | 9.00 | 5.25 | 0.50 | 3.25 | 1.75 | 0.12 |",
            "| workloads | plain scripts against bare and tuned by hand: same results, throughput | 3 | 0 | 0 |",
        ):
            self.assertIn(expected, text)
        self.assertEqual(0, self.run_main("--check")[0])
        # Beside other groups they stand where those do.
        self.write({**RESULTS, "checks": RESULTS["checks"] + WORKLOADS["checks"]})
        self.assertEqual((0, ""), self.run_main())
        self.assertIn("| workloads |", self.readme.read_text()[: len(README) + 4000].split(tables.END)[0])

    def test_check_sees_a_changed_figure_on_either_side(self):
        self.run_main()
        self.readme.write_text(self.readme.read_text().replace("1.0004", "0.9004"))
        self.assertEqual(1, self.run_main("--check")[0])
        self.run_main()
        changed = json.loads(json.dumps(RESULTS))
        changed["benchmarks"][0]["summary"]["ratio_median"] = 1.01
        self.write(changed)
        self.assertEqual(1, self.run_main("--check")[0])

    def test_refuses_what_shows_nothing(self):
        for change in ({"rehearsal": True}, {"complete": False}, {"schema": "other"}):
            self.write({**RESULTS, **change})
            status, message = self.run_main()
            self.assertEqual(2, status, change)
            self.assertIn("Unusable", message)
        self.assertEqual(README, self.readme.read_text())

    def test_a_readme_without_the_markers(self):
        self.write(RESULTS)
        for text in ("# title\n", f"{tables.END}\n{tables.BEGIN}\n", README + README):
            self.readme.write_text(text)
            self.assertEqual(2, self.run_main()[0])
            self.assertEqual(text, self.readme.read_text())


if __name__ == "__main__":
    unittest.main()
