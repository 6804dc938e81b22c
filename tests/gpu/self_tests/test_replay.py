"""Replays of recorded allocations: figures are summed up and shown, failures and allocators that did nothing are found."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support
import replay as program
from suite import replay
from suite.harness import Failed, Skipped

BUILD = os.environ.get("GPU_TEST_BUILD")
# All but RMM's, whose library has a CUDA runtime inside that does not run on the simulated device.
OURS = "driver,async,segments"
LINES = "slipstream-allocations 1\nm 0 0 1 1 4194304\nf 0 0 1 1\nm 0 0 2 2 600\ns 0 0 2\nf 0 0 2 2\n"


def record(seconds=(0.5, 0.4), allocate=1000.0, reserved=None, used=2**31):
    return {
        "status": "ok",
        "problem": None,
        "allocations": 12_345_678,
        "frees": 12_345_677,
        "waits": 1000,
        "recorded_threads": 12,
        "host_threads": 1,
        "streams": 5,
        "turn_seconds": list(seconds),
        "allocation_ns": {"p50": allocate, "p99": allocate * 900, "max": allocate * 1000},
        "free_ns": {"p50": allocate / 2, "p99": allocate, "max": allocate * 7},
        "peak_live_bytes": 2**30,
        "reserved_bytes": reserved,
        "live_of_reserved": 2**30 / reserved if reserved else None,
        "live_at_peak_bytes": 2**30,
        "driver_used_bytes": used,
        "live_of_driver_used": 2**30 / used if used else None,
        "check": None,
    }


def failure(status="out_of_memory"):
    return {"status": status, "problem": "allocation of block 17, 33554432 bytes: CUDA error 2 " + "and more " * 9}


def two_turns():
    return {
        "driver": [record((1.0, 1.0)), record((2.0, 2.0))],
        "async": [record((0.5, 0.5), 600, 2**31), record((0.8, 0.8), 700, 2**31 + 2**30)],
        "segments": [record((12.0, 12.0), 12.4), record((24.4, 24.4), 12.4)],
        "rmm": [record((0.25, 0.25), 98, 2**30 + 2**28, None), record((0.5, 0.5), 99, 2**30 + 2**28, None)],
    }


class Summed(unittest.TestCase):
    def test_ratio_is_of_the_same_turn(self):
        ratio = program.summarized(two_turns())["async"]["turn_ratio"]
        self.assertAlmostEqual(0.45, ratio["ratio_median"])
        self.assertAlmostEqual(0.4, ratio["least"])
        self.assertAlmostEqual(0.5, ratio["most"])

    def test_worst_turn_counts(self):
        summary = program.summarized(two_turns())
        self.assertAlmostEqual(1 / 3, summary["async"]["live_of_reserved"])
        self.assertAlmostEqual(0.5, summary["async"]["live_of_driver_used"])
        self.assertIsNone(summary["segments"]["live_of_reserved"])
        self.assertIsNone(summary["rmm"]["live_of_driver_used"])
        self.assertEqual(98.5, summary["rmm"]["allocation_ns_p50"])

    def test_one_failed_turn_is_a_failure(self):
        runs = two_turns()
        runs["async"][1] = failure()
        summary = program.summarized(runs)
        self.assertEqual("out_of_memory", summary["async"]["status"])
        self.assertIn("block 17", summary["async"]["problem"])

    def test_no_ratio_to_a_driver_that_failed(self):
        runs = two_turns()
        runs["driver"] = [failure()]
        self.assertNotIn("turn_ratio", program.summarized(runs)["async"])

    def test_table_has_a_line_each_in_80_columns(self):
        runs = two_turns()
        runs["segments"] = [failure()]
        text = program.heading(pathlib.Path("llama.alloc"), runs) + "\n" + program.table(program.summarized(runs))
        self.assertLess(max(map(len, text.splitlines())), 80, text)
        self.assertIn("llama.alloc: 12,345,678 allocations, 12,345,677 frees", text)
        self.assertIn("driver          1,000 900,000     500   1,000  1 ", text)
        self.assertIn("async             650 585,000     325     650  0.450 (0.400-0.500)  0.333 0.500", text)
        self.assertIn("segments       out of memory: allocation of block 17, 33554432 bytes", text)
        self.assertIn("rmm                98  88,650      49      98  0.250 (0.250-0.250)  0.800     -", text)

    def test_long_times_and_ratios_fit(self):
        runs = {"driver": [record((0.001,), 0.4)], "async": [record((9.87654,), 123_456_789.0)]}
        text = program.table(program.summarized(runs))
        self.assertLess(max(map(len, text.splitlines())), 80, text)
        self.assertIn("123.5M", text)
        self.assertIn("111.1G", text)
        self.assertIn(" 9877 (9877-9877) ", text)


class Checks(unittest.TestCase):
    def test_no_trace_is_a_skip_with_its_reason(self):
        with support.TemporarySuite() as suite, tempfile.TemporaryDirectory() as directory:
            ((name, check),) = replay.checks(suite, pathlib.Path(directory))
            self.assertEqual("replay", name)
            with self.assertRaisesRegex(Skipped, "no recorded trace in tests/gpu/traces"):
                check({})

    def test_two_checks_of_a_trace(self):
        with support.TemporarySuite() as suite, tempfile.TemporaryDirectory() as directory:
            for name in ("resnet.alloc", "llama.alloc", "notes.txt"):
                (pathlib.Path(directory) / name).write_text(LINES, encoding="utf-8")
            names = [name for name, _ in replay.checks(suite, pathlib.Path(directory))]
        self.assertEqual(["replay.llama.bytes", "replay.llama", "replay.resnet.bytes", "replay.resnet"], names)

    def test_figures_in_a_line(self):
        text = replay.shown({"summary": program.summarized(two_turns())})
        self.assertIn("async allocation 650 ns free 325 ns, replay 0.450 (0.400 to 0.500) of the driver's, live 0.333", text)

    def test_failures_are_named(self):
        runs = two_turns() | {"async": [failure("did_not_act")]}
        (problem,) = replay.problems_of({"summary": program.summarized(runs)})
        self.assertRegex(problem, "^async: did not act: allocation of block 17")

    def test_comparison_of_nothing_shows_nothing(self):
        checked = {"blocks": 7, "bytes": 7, "overlapping": 0, "wrong": 0, "first": None}
        self.assertIn("async 7", replay.compared({"runs": {"async": [record() | {"check": checked}]}}))
        with self.assertRaisesRegex(Failed, "async: no block was compared"):
            replay.compared({"runs": {"async": [record() | {"check": checked | {"blocks": 0}}]}})
        with self.assertRaisesRegex(Failed, "async: no block was compared"):
            replay.compared({"runs": {"async": [record()]}})


@unittest.skipUnless(BUILD and pathlib.Path(BUILD, "bench/gpu/replay_allocations").exists(), "the build has no benchmarks")
class OnTheSimulatedDevice(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        self.trace = self.folder / "few.alloc"
        self.trace.write_text(LINES, encoding="utf-8")

    def run_replay(self, *options, memory="8GiB", libraries=("sim",)):
        """(exit status, standard output, standard error, record or None)"""
        out = self.folder / "out.json"
        out.unlink(missing_ok=True)
        folders = ":".join(str(pathlib.Path(BUILD, name)) for name in libraries)
        env = os.environ | {"LD_LIBRARY_PATH": folders, "SIMCUDA_SEED": "0", "SIMCUDA_MEMORY": memory}
        argv = [sys.executable, "-B", program.__file__, self.trace, "--library", f"{BUILD}/libslipstream.so"]
        argv += ["--turns", "2", "--replays", "1", "--out", out, *options]
        done = subprocess.run([str(part) for part in argv], env=env, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr, json.loads(out.read_text()) if out.exists() else None

    def test_every_allocator_has_its_turns(self):
        status, text, error, found = self.run_replay("--allocators", OURS, libraries=("sim", "tests/bench/nvml"))
        self.assertEqual(0, status, text + error)
        self.assertEqual(["driver", "async", "segments"], list(found["runs"]))
        for name, runs in found["runs"].items():
            self.assertEqual(2, len(runs))
            self.assertEqual({4194304}, {run["peak_live_bytes"] for run in runs}, name)
            self.assertTrue(all(run["driver_used_bytes"] for run in runs), name)
        self.assertIn("segments", text)
        self.assertEqual(64, len(found["sha256"]))

    def test_time_ends_the_turns(self):
        status, _, error, found = self.run_replay("--allocators", "driver,async", "--seconds", "0")
        self.assertEqual(0, status, error)
        self.assertEqual([1, 1], [len(runs) for runs in found["runs"].values()])
        self.assertEqual(1, found["turns"])

    def test_an_allocator_that_did_nothing_is_found(self):
        out = io.StringIO()
        served_nothing = program.Variant("malloc", "off", "allocator.parked")
        options = ["--library", f"{BUILD}/libslipstream.so", "--turns", "1", "--allocators", "segments"]
        kept, program.VARIANTS["segments"] = program.VARIANTS["segments"], served_nothing
        changed = {"LD_LIBRARY_PATH": f"{BUILD}/sim", "SIMCUDA_SEED": "0"}
        before = {name: os.environ.get(name) for name in changed}
        os.environ.update(changed)
        try:
            with contextlib.redirect_stdout(out):
                status = program.main([str(self.trace), *options])
        finally:
            program.VARIANTS["segments"] = kept
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        self.assertEqual(1, status)
        self.assertIn("did not act: slipstream decided no allocator.parked", out.getvalue())

    def test_memory_that_ends_is_no_abort(self):
        status, text, _, found = self.run_replay("--allocators", "driver,async", memory="2MiB")
        self.assertEqual(1, status)
        self.assertIn("async          out of memory: allocation of block 1, 4194304 bytes", text)
        self.assertEqual(1, len(found["runs"]["async"]))  # it is not tried again

    def test_broken_trace_is_refused_with_its_place(self):
        self.trace.write_text("slipstream-allocations 1\nm 0 0 0 1 512\nq\n", encoding="utf-8")
        status, text, error, found = self.run_replay()
        self.assertEqual((2, "", None), (status, text, found))
        self.assertIn(f"{self.trace}:3:1: a line begins with \"q\"", error)

    def test_without_a_runtime(self):
        status, _, error, _ = self.run_replay(libraries=())
        self.assertEqual(2, status)
        self.assertIn("a libcudart.so.13 that does nothing: set LD_LIBRARY_PATH", error)

    def test_rehearsal_of_the_group(self):
        with support.TemporarySuite(build=BUILD) as suite:
            suite.rehearsal = True
            checks = dict(replay.checks(suite, self.folder))
            self.assertIn("segments 6", checks["replay.few.bytes"]({}))
            self.assertIn("reported, not asserted", checks["replay.few"]({}))


if __name__ == "__main__":
    unittest.main()
