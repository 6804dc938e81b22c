"""The group soak: the line through the figures, what counts as growth, and training processes that stand in for real ones."""

import contextlib
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import unittest
from unittest import mock

import support
from suite import counter_file, harness, soak
from suite.harness import Failed

# slipstream run --quiet --record --summary FILE -- COMMAND...
SLIPSTREAM = """#!/bin/bash
shift 6
UNDER=1 exec "$@"
"""
# Rounds of some milliseconds that keep something each time, where MODE says so; "both": the bare one as well.
TRAIN = """
import json, os, sys, threading, time
mode = os.environ.get("MODE", "").split() if "UNDER" in os.environ or "both" in os.environ.get("MODE", "") else []
kept, rounds = [], 0
print(json.dumps({"ready": os.getpid()}), flush=True)
for _ in sys.stdin:
    rounds += 1
    time.sleep(0.01)
    if "memory" in mode:
        kept.append(bytearray(os.urandom(1 << 10) * (1 << 10)))
    if "files" in mode:
        kept.append(open("/dev/null"))
    if "threads" in mode and rounds % 5 == 0:
        kept.append(threading.Event())
        threading.Thread(target=kept[-1].wait, daemon=True).start()
    if "dies" in mode and rounds == 4:
        os._exit(5)
    if "ends badly" in " ".join(mode) and rounds == 4:
        import atexit
        atexit.register(os._exit, 6)
    result = {
        "digest": "other" if "digest" in mode and rounds > 3 else "same",
        "finite": not ("infinite" in mode and rounds > 3),
        "reloaded": not ("torn" in mode and rounds > 3),
        "steps": 4,
    }
    print(json.dumps({"examples": {name: result for name in json.loads(sys.argv[1])}, "memory": {}}), flush=True)
"""
SECONDS = 1.8


@contextlib.contextmanager
def suite_with(mode="", budget=1000.0):
    temporary = support.TemporarySuite(only="soak", budget=budget)
    with temporary as suite, mock.patch.dict(os.environ, MODE=mode):
        root = pathlib.Path(temporary.directory.name)
        suite.slipstream = root / "slipstream"
        suite.slipstream.write_text(SLIPSTREAM)
        suite.slipstream.chmod(0o755)
        (root / "soak_train.py").write_text(TRAIN)
        suite.rehearsal, suite.soak_minutes = True, SECONDS / 60
        with mock.patch.object(soak, "GPU_TESTS", root):
            yield suite


def run(mode="", data=None):
    with suite_with(mode) as suite:
        return dict(soak.checks(suite))["soak.lm"]({} if data is None else data)


class Processes(unittest.TestCase):
    def test_flat(self):
        data = {}
        text = run("", data)
        self.assertIn("losses and weights as bare in every round; 6 figures flat", text)
        self.assertGreaterEqual(len(data["looks"]), soak.LEAST_ROUNDS)
        for name in ("rss", "threads", "files"):
            self.assertGreater(data["figures"][name]["mean"], 0)
            self.assertGreater(data["peaks"][name], 0)

    def test_what_grows_under_slipstream(self):
        for mode, text in (("memory", "^rss grew by"), ("files", "^files grew by"), ("threads", "threads grew by")):
            with self.assertRaisesRegex(Failed, text):
                run(mode)

    def test_what_grows_in_the_bare_process_too(self):
        # Files are counted alike, but one process may do more rounds than the other; both keep one a round.
        measured = soak.stretch

        def same_rounds(*arguments):
            sides = measured(*arguments)
            rounds = min(len(side.rounds) for side in sides)
            for side in sides:
                del side.looks[rounds:], side.rounds[rounds:]
            return sides

        with mock.patch.object(soak, "stretch", same_rounds):
            self.assertIn("figures flat", run("files both"))

    def test_results(self):
        for mode, text in (
            ("digest", "slipstream, round 4, lm: not the bare run's bits"),
            ("infinite", "slipstream, round 4, lm: a loss that is not finite"),
            ("torn", "slipstream, round 4, lm: what torch.save kept"),
            ("digest both", "bare, round 4, lm: two bare rounds differ"),
            ("dies", "soak.lm.slipstream ended"),
            ("ends badly", "ended with 6"),
        ):
            with self.assertRaisesRegex(Failed, text):
                run(mode)

    def test_too_few_rounds(self):
        with mock.patch.object(soak, "LEAST_ROUNDS", 10_000), self.assertRaisesRegex(Failed, "too few for a line"):
            run()

    def test_a_round_that_does_not_end(self):
        with mock.patch.object(soak, "ROUND_SECONDS", -1), self.assertRaisesRegex(Failed, "not over after"):
            run()

    def test_no_time(self):
        with suite_with(budget=100) as suite:
            suite.rehearsal = False
            with self.assertRaisesRegex(Failed, "give --budget 1[5-9]"):
                dict(soak.checks(suite))["soak.lm"]({})

    def test_stretches_add_up(self):
        with suite_with() as suite:
            suite.soak_state = suite.workdir / "state.json"
            dict(soak.checks(suite))["soak.lm"]({})
            text = dict(soak.checks(suite))["soak.lm"]({})
            self.assertIn("0.1 minutes in 2 stretches", text)
            kept = json.loads(suite.soak_state.read_text())
            self.assertEqual(["lm", "lm"], [each["workload"] for each in kept["stretches"]])
            # An hour is there: nothing is trained any more.
            kept["stretches"][0]["minutes"] = soak.MOST_MINUTES
            suite.soak_state.write_text(json.dumps(kept))
            with mock.patch.object(soak, "stretch", side_effect=AssertionError):
                self.assertIn("are there already; all flat", dict(soak.checks(suite))["soak.lm"]({}))
            kept["stretches"][0]["figures"]["files"]["growth"] = 9
            suite.soak_state.write_text(json.dumps(kept))
            with self.assertRaisesRegex(Failed, r"files grew by \+9"):
                dict(soak.checks(suite))["soak.lm"]({})

    def test_a_stretch_that_failed_is_not_forgotten(self):
        with suite_with("digest") as suite:
            suite.soak_state = suite.workdir / "state.json"
            with self.assertRaises(Failed):
                dict(soak.checks(suite))["soak.lm"]({})
            with mock.patch.dict(os.environ, MODE=""), self.assertRaisesRegex(
                Failed, "1 earlier stretches failed: slipst"
            ):
                dict(soak.checks(suite))["soak.lm"]({})


class Lines(unittest.TestCase):
    def test_students_t(self):
        for freedom, expected in ((4, 2.776), (6, 2.447), (10, 2.228), (30, 2.042)):
            self.assertAlmostEqual(expected, soak.quantile(freedom), delta=0.01)

    def test_growth_and_its_error(self):
        self.assertEqual((7.0, 0.0), soak.growth_of([float(x) for x in range(8)]))
        self.assertEqual((0.0, 0.0), soak.growth_of([5.0] * 8))
        growth, error = soak.growth_of([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
        self.assertLess(growth, error)
        values = [1, 3, 2, 4, 3, 5, 6]
        slope, start = statistics.linear_regression(range(7), values)
        rest = [y - start - slope * x for x, y in enumerate(values)]
        of_slope = math.sqrt(sum(each**2 for each in rest) / 5 / sum((x - 3) ** 2 for x in range(7)))
        growth, error = soak.growth_of(values)
        self.assertAlmostEqual(slope * 6, growth)
        self.assertAlmostEqual(of_slope * 6 * soak.quantile(5), error)

    def test_the_warm_up_is_left_out(self):
        self.assertEqual([3, 4, 5], soak.warm([1, 2, 3, 4, 5]))
        self.assertEqual(15, len(soak.warm(list(range(20)))))

    def judge(self, values, bare=None, name="files"):
        looks = [{name: value} for value in values]
        return soak.grown(soak.judged(looks, [{name: value} for value in bare or []]))

    def test_what_counts_as_growth(self):
        flat, line = [50] * 10, [50 + x for x in range(10)]
        self.assertEqual([], self.judge(flat))
        (text,) = self.judge(line)
        self.assertEqual("files grew by +9.00 (error +0.00, allowed +0.50: whole files: half of one is none)", text)
        self.assertEqual([], self.judge(line, bare=line))
        self.assertEqual(1, len(self.judge([50 + 2 * x for x in range(10)], bare=line)))
        # A bare process that shrinks gives no credit, and takes none.
        self.assertEqual([], self.judge(flat, bare=line[::-1]))
        # One file more behind the first half is growth, and none of a file that comes and goes.
        self.assertEqual(1, len(self.judge([50] * 5 + [51] * 5)))
        self.assertEqual([], self.judge([50, 51] * 5))
        self.assertEqual([], self.judge([50, 54] * 5))  # a line through that rises by more than the allowance
        # Shrinking is no growth.
        self.assertEqual([], self.judge(line[::-1]))

    def test_the_allowance(self):
        mib = soak.MIB
        self.assertEqual([], self.judge([400 * mib + x * mib // 2 for x in range(10)], name="rss"))
        self.assertIn("rss grew by +9.00 MiB", self.judge([400 * mib + x * mib for x in range(10)], name="rss")[0])
        # A share of what is there, where that is more.
        self.assertEqual([], self.judge([4000 * mib + x * mib for x in range(10)], name="rss"))

    def test_a_figure_that_is_not_to_be_had(self):
        self.assertEqual([], self.judge([None] * 10, name="device"))
        self.assertEqual({}, soak.judged([{"device": None}] * 10, []))
        self.assertEqual({}, soak.judged([{"files": 3}] * 5, []))

    def test_small_growth_of_many_stretches_adds_up(self):
        row = {"growth": 3.0 * soak.MIB, "error": 1.0 * soak.MIB, "allowance": 8.0 * soak.MIB}
        self.assertEqual([], soak.grown(soak.added_up([{"figures": {"rss": row}}] * 2)))
        self.assertEqual(1, len(soak.grown(soak.added_up([{"figures": {"rss": row}}] * 3))))
        # Errors of stretches that know nothing of each other partly cancel out.
        small = row | {"growth": 1.2 * soak.MIB, "error": 3.0 * soak.MIB}
        self.assertEqual([], soak.grown(soak.added_up([{"figures": {"rss": small}}] * 6)))
        self.assertEqual(1, len(soak.grown(soak.added_up([{"figures": {"rss": small}}] * 9))))
        back = row | {"growth": -row["growth"]}
        self.assertEqual([], soak.grown(soak.added_up([{"figures": {"rss": each}} for each in (row, back) * 4])))


class Outside(unittest.TestCase):
    def test_a_process(self):
        before = soak.look(os.getpid())
        done = threading.Event()
        thread = threading.Thread(target=done.wait)
        thread.start()
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        with open(os.devnull, encoding="utf-8"):
            after = soak.look(os.getpid())
        done.set()
        thread.join()
        child.communicate()
        found = {name: after[name] - before[name] for name in ("threads", "files", "children")}
        self.assertEqual({"threads": 1, "files": 2, "children": 1}, found)  # the pipe is a file too
        self.assertGreater(before["rss"], 1 << 20)
        self.assertGreater(before["mappings"], 10)
        self.assertIsNone(soak.look(child.pid))

    def test_device_memory(self):
        rows = [
            {"pid": "7", "used_memory": "300"},
            {"pid": "7", "used_memory": "200"},
            {"pid": "8", "used_memory": "1"},
        ]
        self.assertEqual(500 * soak.MIB, soak.device_memory(rows, 7))
        self.assertIsNone(soak.device_memory(rows, 9))
        self.assertIsNone(soak.device_memory([{"pid": "7", "used_memory": "[N/A]"}], 7))

    def test_counters(self):
        def counters(mallocs, frees, launches, live=0):
            return {
                "calls": {
                    "cudaMalloc": mallocs,
                    "cudaFree": frees,
                    "__cudaLaunchKernel": launches,
                    "cudaMemcpyAsync": 5,
                },
                "live_bytes": {0: live, 1: 2 * live},
                "decisions": {},
            }

        first = counters(9, 4, 100)
        self.assertNotIn("launches_a_round", soak.of_counters(first, None))
        found = soak.of_counters(counters(12, 6, 150, 10), first)
        self.assertEqual(
            (6, 50, 0, 30),
            tuple(found[name] for name in ("allocations", "launches_a_round", "copies_a_round", "pool_live")),
        )

    def test_an_engine_that_stops(self):
        def counters(promoted):
            return [
                {
                    "decisions": {
                        "transfer.h2d.promoted.small": 1,
                        "transfer.h2d.promoted.large": number,
                        "allocator.parked": 3 * at,
                    }
                }
                for at, number in enumerate(promoted)
            ]

        self.assertEqual([], soak.stopped(counters(range(0, 100, 10))))
        (text,) = soak.stopped(counters([0, 10, 20, 30, 40, 50, 50, 50, 50, 50]))
        self.assertEqual("transfer.h2d.promoted: 0 in the last 3 rounds, 30 in the first 3", text)

    def test_state(self):
        with support.TemporarySuite() as suite:
            path = suite.workdir / "state.json"
            state = soak.State(path, "abc", "H200")
            state.add({"workload": "lm", "minutes": 4, "figures": {}, "wrong": []})
            again = soak.State(path, "abc", "H200")
            self.assertEqual((4, 0, None), (again.minutes("lm"), again.minutes("resnet"), again.problem))
            self.assertIn("'commit': 'abc'", soak.State(path, "def", "H200").problem)
            self.assertIn("name another --soak-state", soak.State(path, "abc", "H100").problem)
            for broken in ("{", "[]", '{"stretches": 3}'):
                path.write_text(broken)
                self.assertIn("cannot be read", soak.State(path, "abc", "H200").problem)
            self.assertIsNone(soak.State(None, "abc", "H200").problem)

    def test_workloads_are_programs_of_the_suite(self):
        with support.TemporarySuite() as suite:
            found = soak.workloads(suite)
        self.assertEqual({"resnet", "lm", "patterns"}, set(found))
        patterns = (support.REPOSITORY / "tests" / "gpu" / "train_patterns.py").read_text(encoding="utf-8")
        for examples in found.values():
            for example in examples.values():
                self.assertTrue((support.REPOSITORY / "tests" / "gpu" / example["program"]).exists())
                if "--pattern" in example["arguments"]:
                    name = example["arguments"][example["arguments"].index("--pattern") + 1]
                    self.assertRegex(patterns, re.compile(rf"^def {name}\(job", re.MULTILINE))
        self.assertIn(soak.GROUP, harness.ON_REQUEST)


@unittest.skipIf(os.environ.get("GPU_TEST_SANITIZER"), "a sanitized library is not preloaded into plain programs")
class CounterFile(unittest.TestCase):
    """The suite's reader on the file of a real run on the simulated device, beside the library's own reader."""

    def test_as_slipstreams_own_reader(self):
        build = pathlib.Path(os.environ["GPU_TEST_BUILD"])
        with support.TemporarySuite() as suite:
            summary = suite.workdir / "summary.json"
            # Kept while the run still is: at its end the file goes.
            script = '"$0" --bytes 65536 --rounds 5 >&2; cp slipstream-trace-*/*.counters kept'
            program = build / "tests" / "gpu" / "sim" / "reuse_race"
            command = [
                build / "slipstream",
                "run",
                "--quiet",
                "--record",
                "--summary",
                summary,
                "--",
                "bash",
                "-c",
                script,
                program,
            ]
            env = {"LD_LIBRARY_PATH": build / "sim", "SIMCUDA_SEED": "0", "SIMCUDA_DEVICES": "1"}
            suite.command("counters", command, env=env, cwd=suite.workdir).expect_success("run")
            data = (suite.workdir / "kept").read_bytes()
            (process,) = harness.read_json(summary, "summary")["processes"]
        found = counter_file.parse(data)
        self.assertEqual(process["pid"], found["pid"])
        self.assertEqual({each["name"]: each["calls"] for each in process["functions"]}, found["calls"])
        self.assertGreater(len(found["calls"]), 5)
        decisions = {name: each["count"] for name, each in process["decisions"].items()}
        self.assertEqual(decisions, found["decisions"])
        self.assertTrue(any(name.startswith("allocator.") for name in decisions))
        newest = {each["device"]: each["live_bytes"] for each in process["memory"]}
        self.assertEqual(newest, found["live_bytes"])
        self.assertTrue(newest)
        for broken, text in (
            (b"", "cut off"),
            (data[: len(data) // 2], "cut off"),
            (b"x" + data[1:], "not a counter file"),
            (data[:8] + b"\x7f" + data[9:], "of format 127"),
        ):
            with self.assertRaisesRegex(Failed, text):
                counter_file.parse(broken)


if __name__ == "__main__":
    sys.exit(unittest.main())
