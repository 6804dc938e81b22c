"""The parts of versions.py that need no release: what it reads, compares and writes."""

import json
import pathlib
import tempfile
import types
import unittest

import torch_test
import versions_cuda
import versions_package
import versions_page
import versions_python
import versions_pytorch
import versions_refused
import versions_wheels

VERSION_FILE = "from typing import Optional\n\n__version__ = '2.4.1+cu121'\ndebug = False\ncuda: Optional[str] = '12.1'\n"


def torch_row(pytorch="2.4.1", python="3.9.18", wrong=(), runs=()):
    return {"pytorch": pytorch, "cuda": "12.1", "runtime": "libcudart.so.12", "python": python, "free_threaded": False, "glibc": "2.5",
            "lines": f"read: CPython {python}", "promoted": 7, "skipped": 5, "reused": 3, "commit": "abc", "date": "2026-01-02",
            "runs": list(runs), "wrong": list(wrong)}


class Packages(unittest.TestCase):
    def test_the_version_file_says_which_cuda(self):
        self.assertEqual(versions_package.parsed_version_file(VERSION_FILE), ("2.4.1+cu121", "12.1"))
        self.assertEqual(versions_package.parsed_version_file("__version__ = '2.4.1+cpu'\ncuda = None\n"), ("2.4.1+cpu", None))
        with self.assertRaises(versions_package.CannotTry):
            versions_package.parsed_version_file("")

    def test_the_runtime_is_that_of_the_major_version(self):
        self.assertEqual([versions_package.soname_runtime(cuda) for cuda in ("12.1", "13.0")], ["libcudart.so.12", "libcudart.so.13"])

    def test_the_tag_of_a_wheel_says_which_glibc(self):
        tags = {"Tag: cp313-cp313-manylinux_2_28_x86_64": "2.28", "Tag: cp39-cp39-manylinux1_x86_64": "2.5",
                "Tag: cp39-cp39-manylinux2014_x86_64": "2.17", "Tag: cp39-cp39-linux_x86_64": None}
        self.assertEqual({tag: versions_pytorch.glibc_of(tag) for tag in tags}, tags)

    def test_the_index_is_read_by_minor_release_from_2_4_on(self):
        said = "torch (2.10.0)\nAvailable versions: 2.10.0, 2.9.1, 2.9.0, 2.4.0, 2.3.1, 1.13.0\n"
        self.assertEqual(versions_wheels.minors(said), ["2.4", "2.9", "2.10"])
        self.assertEqual(versions_wheels.minors("ERROR: none"), [])


class PyTorch(unittest.TestCase):
    def test_each_program_runs_bare_first(self):
        for quick in (True, False):
            for runtime in ("libcudart.so.12", "libcudart.so.13"):
                planned = versions_pytorch.plan(quick, runtime, True)
                seen = set()
                for program, configuration in planned:
                    self.assertEqual(configuration == "bare", program not in seen)
                    seen.add(program)
                # The stand-in for another CUPTI aborts a profiler.
                self.assertEqual("profiled" in seen, not quick and runtime == "libcudart.so.13")

    def test_a_python_without_lines_is_not_asked_for_them(self):
        planned = versions_pytorch.plan(False, "libcudart.so.12", False)
        self.assertNotIn(("copies", "record"), planned)
        self.assertNotIn(("copies", "record_full"), planned)
        self.assertIn(("copies", "record_any"), planned)

    def test_a_run_that_differs_says_why(self):
        name = "copies default"
        self.assertEqual(versions_pytorch.outcome(0, "noise: here\n", name), ("same", ""))
        self.assertEqual(versions_pytorch.outcome(1, "x: y\ncopies default: stdout differs\nwas: z\n", name), ("differs", "stdout differs"))
        self.assertEqual(versions_pytorch.outcome(77, "", name), ("differs", "exit status 77"))

    def test_the_time_of_day_is_no_difference(self):
        for one, other in (("[W1126 02:33:21.123456789 a.cpp:7] x", "[W0101 00:00:00.1 a.cpp:7] x"),
                           ("USDT:2026-11-26 02:41:30 22981:22982 a.cpp:39] x", "USDT:2026-11-26 02:41:44 23580:23580 a.cpp:39] x")):
            bare = {"status": 0, "stdout": "", "stderr": one}
            torch_test.check_same(types.SimpleNamespace(status=0, stdout="", stderr=other), bare)
            with self.assertRaises(torch_test.Wrong):
                torch_test.check_same(types.SimpleNamespace(status=0, stdout="", stderr=other + "y"), bare)

    def test_a_line_about_the_trace_is_no_difference_where_one_is_expected(self):
        bare = {"status": 0, "stdout": "", "stderr": "mine\n"}
        line = "slipstream: trace: 9 records, none dropped, 3 KiB in /x; Python lines: none, it is old (not supported)\n"
        run = types.SimpleNamespace(status=0, stdout="", stderr="mine\n" + line)
        torch_test.check_same(run, bare, says_more=True)
        with self.assertRaises(torch_test.Wrong):
            torch_test.check_same(run, bare)

    def test_decisions_are_counted_by_what_they_are_part_of(self):
        found = {"transfer.h2d.promoted.small": 2, "transfer.h2d.promoted.large": 3, "transfer.d2h.promoted": 4, "transfer.h2d.promotedx": 9,
                 "transfer.sync.skipped": 5, "allocator.reused": 6}
        self.assertEqual(versions_pytorch.counts(found), {"promoted": 9, "skipped": 5, "reused": 6})

    def test_what_is_looked_up_is_judged_by_the_tables(self):
        wanted = {"cudaMalloc": "libcudart.so.12", "cudaKnown": "libcudart.so.12", "cudaOdd": "libcudart.so.12", "printf": "GLIBC_2.2.5",
                  "cudaFree": "libcudart.so.13"}
        table = [versions_cuda.hooks.Hook(name, "g", frozenset({12, 13})) for name in ("cudaMalloc", "cudaFree")]
        self.assertEqual(versions_pytorch.looked_up(wanted, "libcudart.so.12", table, ["cudaKnown"], {"cudaMalloc", "cudaKnown"}),
                         {"functions": 3, "hooked": 1, "unknown": ["cudaOdd"], "in_stand_in": ["cudaOdd"]})
        good = {"promoted": 1, "skipped": 1, "reused": 1}
        self.assertEqual(len(versions_pytorch.wrong("2.4.1", "3.9.18", [], "read: x", good, ["cudaOdd"])), 1)

    def test_what_should_not_be_is_said(self):
        good = {"promoted": 1, "skipped": 1, "reused": 1}
        differs = {"program": "copies", "configuration": "off", "outcome": "differs", "why": "stderr"}
        left_out = {"program": "loader", "configuration": "bare", "outcome": "not comparable", "why": "exit status 1, not 0"}
        self.assertEqual(versions_pytorch.wrong("2.4.1", "3.9.18", [left_out], "read: CPython 3.9.18", good), [])
        self.assertEqual(versions_pytorch.wrong("2.4.1", "3.9.18", [differs], None, {**good, "reused": 0}),
                         ["PyTorch 2.4.1 with Python 3.9.18: copies off: stderr", "PyTorch 2.4.1 with Python 3.9.18: nothing was reused",
                          "PyTorch 2.4.1 with Python 3.9.18: the trace does not say whether it has lines"])


class Python(unittest.TestCase):
    SAID = [("cudaMalloc", "/a b.py", 7, "allocate"), ("cudaMemset", "/p.py", 9, "__init__")]

    def test_places_are_read_and_compared(self):
        self.assertEqual(versions_python.said_places("cudaMemset /p.py:9 __init__\n"), self.SAID[1:])
        recorded = versions_python.recorded_places(
            [("cudaMalloc_v3020", "/a b.py", 7, "allocate"), ("cudaMemset_v3020", "/p.py", 9, "M.__init__")])
        self.assertEqual(recorded, self.SAID)
        self.assertIsNone(versions_python.compared(self.SAID, recorded, True))
        self.assertIn("/p.py", versions_python.compared(self.SAID, recorded, False))
        no_lines = [(function, None, None, None) for function in ("cudaMalloc", "cudaMemset")]
        self.assertIsNone(versions_python.compared(self.SAID, no_lines, False))
        moved = [self.SAID[0], ("cudaMemset", "/p.py", 10, "__init__")]
        self.assertIn("10", versions_python.compared(self.SAID, moved, True))
        self.assertIsNotNone(versions_python.compared([], [], True))


class Cuda(unittest.TestCase):
    def test_functions_are_judged_by_the_table_and_the_major_version(self):
        table = [versions_cuda.hooks.Hook("cudaMalloc", "g", frozenset({12, 13})), versions_cuda.hooks.Hook("cudaLater", "g", frozenset({12})),
                 versions_cuda.hooks.Hook("cudaNew", "g", frozenset({13}))]
        exported = {"cudaMalloc", "cudaKnown", "cudaOdd", "cudaNew"}
        self.assertEqual(versions_cuda.judged(exported, table, ["cudaKnown"], 12), ({"cudaMalloc"}, {"cudaLater"}, {"cudaOdd"}))

    def test_calls_are_expected_of_what_is_hooked(self):
        self.assertEqual(versions_cuda.expected_calls(["cudaFree", "cudaGetDevice", "cudaFree"], {"cudaFree"}), {"cudaFree": 2})

    def test_what_differs_is_said(self):
        bare = {"status": 0, "stdout": "", "stderr": ""}
        good = {"release": "12.1.105", "unknown": [], "calls": 3, "same": True, "served": True}
        self.assertEqual(versions_cuda.wrong(good, bare, bare, {"cudaFree": 2}, {"cudaFree": 2}, 3), [])
        twice = {"cudaFree": 2}
        for change, seen, expected, calls in (({"unknown": ["cudaOdd"]}, twice, twice, 3), ({"same": False}, twice, twice, 3),
                                              ({"served": False}, twice, twice, 3), ({}, {"cudaFree": 1}, twice, 3),
                                              ({}, {}, {}, 3), ({}, twice, twice, 4)):
            found = versions_cuda.wrong({**good, **change}, bare, bare, seen, expected, calls)
            self.assertEqual(len(found), 1, (change, seen, calls))

    def test_packages_and_errors(self):
        self.assertEqual(versions_cuda.package("12.1.105"), "nvidia-cuda-runtime-cu12==12.1.105")
        self.assertEqual(versions_cuda.package("13.0.96"), "nvidia-cuda-runtime==13.0.96")
        self.assertEqual(versions_cuda.first_error("cudaA cudaSuccess 1\ncudaB cudaErrorNoDevice 2\ncudaC cudaErrorX\n"), "cudaErrorNoDevice")
        self.assertIsNone(versions_cuda.first_error("cudaA cudaSuccess 1\n"))


class Refused(unittest.TestCase):
    def test_the_obstacle_of_the_program_is_found_without_paths(self):
        text = "  obstacle       the first process here\n  obstacle       /w/x/program has a loader (/w/x/program: /old/libc.so.6: no)\n"
        self.assertEqual(versions_refused.obstacle(text, pathlib.Path("/w/x/program")), "PROGRAM has a loader (libc.so.6: no)")
        self.assertIsNone(versions_refused.obstacle(text, pathlib.Path("/w/y/program")))

    def test_the_summary_says_why_copies_were_left_alone(self):
        self.assertEqual(versions_refused.engines("  allocator: off: no\n  transfer: off: newer\n"), "off: newer")
        self.assertEqual(versions_refused.engines("  transfer: serves: x\n     declined 1 copy, 3 B: because it is\n"), "because it is")
        self.assertIsNone(versions_refused.engines("  transfer: serves: x\n"))


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.page = self.folder / "versions.md"
        sections = "".join(f"<!-- {name}:begin -->\nold\n<!-- {name}:end -->\n" for name in versions_page.SECTIONS)
        self.page.write_text(f"by hand\n{sections}last\n")
        (self.folder / "results").mkdir()
        (self.folder / "results/gpu.json").write_text(json.dumps({"versions": {"torch": "2.11.0+cu130", "python": "3.12.3"}}))
        self.file = self.folder / "versions.json"
        self.write(torch_row(), torch_row("2.10.0", "3.10.1", wrong=["it differs"]))

    def write(self, *rows):
        wheels = [{"python": python, "pytorch": ["2.4", "2.10", "2.11"], "wrong": []} for python in ("3.9", "3.10", "3.12")]
        self.file.write_text(versions_page.as_text({"schema": versions_page.SCHEMA, "pytorch": list(rows), "wheels": wheels}))

    def test_a_later_row_takes_the_place_of_an_earlier_one(self):
        rows = versions_page.merged([torch_row("2.10.0"), torch_row("2.9.0", wrong=["old"])], [torch_row("2.9.0"), torch_row("2.4.0")],
                                    versions_page.KEYS["pytorch"])
        self.assertEqual([(row["pytorch"], row["wrong"]) for row in rows], [("2.4.0", []), ("2.9.0", []), ("2.10.0", [])])

    def test_the_file_can_be_read_again_and_has_a_line_for_each_row(self):
        text = self.file.read_text()
        self.assertEqual(len(json.loads(text)["pytorch"]), 2)
        self.assertEqual(sum('"pytorch": "2.' in line for line in text.splitlines()), 2)

    def test_the_matrix_tells_run_expected_wrong_and_missing_apart(self):
        self.assertEqual(versions_page.write(self.file, self.page, False), 0)
        text = self.page.read_text()
        self.assertTrue(text.startswith("by hand\n") and text.endswith("last\n"))
        self.assertNotIn("old", text)
        self.assertIn("| 2.4 | 12.1 | 2.5 | run | expected | expected |", text)
        self.assertIn("| 2.10 | 12.1 | 2.5 | expected | **not the same** | expected |", text)
        self.assertIn("| 2.11 | not brought | not brought | expected | expected | **run, GPU** |", text)
        self.assertLess(text.index("| 2.4 |"), text.index("| 2.10 |"))

    def test_check_writes_nothing_and_sees_an_old_page(self):
        before = self.page.read_text()
        self.assertEqual(versions_page.write(self.file, self.page, True), 1)
        self.assertEqual(self.page.read_text(), before)
        versions_page.write(self.file, self.page, False)
        self.assertEqual(versions_page.write(self.file, self.page, True), 0)
        self.write(torch_row("2.4.0"))
        self.assertEqual(versions_page.write(self.file, self.page, True), 1)

    def test_what_cannot_be_used_is_left_alone(self):
        self.page.write_text("no markers\n")
        self.assertEqual(versions_page.write(self.file, self.page, False), 2)
        self.assertEqual(self.page.read_text(), "no markers\n")
        self.file.write_text('{"schema": "other"}')
        self.assertEqual(versions_page.write(self.file, self.page, False), 2)

    def test_runs_are_counted_without_the_bare_ones(self):
        runs = [{"program": "copies", "configuration": "bare", "outcome": "same"}, {"program": "copies", "configuration": "off", "outcome": "same"},
                {"program": "copies", "configuration": "default", "outcome": "differs"},
                {"program": "loader", "configuration": "bare", "outcome": "not comparable"}]
        self.assertEqual(versions_page.outcome_of(runs), "1 of 2 the same; not comparable: loader")

    def test_the_sentence_about_lines_stands_without_its_kind(self):
        self.assertEqual([versions_page.lines_text(fact) for fact in ("read: CPython 3.9.1", "unsupported: this is x", None)],
                         ["read", "this is x", "not recorded"])


if __name__ == "__main__":
    unittest.main()
