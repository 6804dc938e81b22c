"""The group older: what stands in front of each version, what counts as slower, and how copies are compared."""

import json
import pathlib
import re
import time
import unittest

import support
from suite import harness, older, steady
from suite.harness import Failed, Skipped


def turns_of(before, now):
    """Turns of one kind of copy: seconds under both versions."""
    return [
        {older.BARE: {"x": 1e-6}, older.OLDER: {"x": a}, older.NEWER: {"x": b}} for a, b in zip(before, now, strict=True)
    ]


class Versions(unittest.TestCase):
    def test_it_runs_only_where_it_is_named(self):
        self.assertIn(older.GROUP, harness.ON_REQUEST)

    def test_without_an_earlier_version_it_is_skipped(self):
        with support.TemporarySuite() as suite:
            with self.assertRaises(Skipped):
                older.sides(suite)
            suite.older = pathlib.Path("nowhere")
            with self.assertRaises(Failed):
                older.sides(suite)

    def test_each_version_is_its_own_command(self):
        with support.TemporarySuite() as suite:
            suite.older = suite.scratch("before")
            (suite.older / "slipstream").touch()
            before, now = older.sides(suite).items()
            self.assertEqual((older.OLDER, [str(suite.older / "slipstream"), "run", "--quiet", "--"]), before)
            self.assertEqual((older.NEWER, suite.run_prefix("--quiet")), now)

    def test_what_can_be_tuned_by_hand_is_beside_its_own_tuning(self):
        with support.TemporarySuite() as suite:
            found = older.examples(suite)
        tuned = {*older.LOADERS, *older.MOVING, *older.LOOPS}
        self.assertLessEqual({*tuned, "prefetch_stream"}, set(found))
        self.assertLessEqual(tuned, {name for name, example in found.items() if example.hand_tuned})

    def test_three_take_turns(self):
        """Each comes first as often, and both versions are parts of the hand-tuned program's speed."""
        seconds = {older.OLDER: 1.25, older.NEWER: 1.0, older.HAND_TUNED: 0.9}
        with support.TemporarySuite() as suite:
            example = older.examples(suite)["offload"]
            sets = steady.Sets(suite, "offload", example, 2, dict.fromkeys(seconds, []), older.GROUP)
            sets.steps = 1
            sets.processes = {(number, variant): None for number in range(2) for variant in seconds}
            order = []
            sets.block = lambda number, variant, steps: order.append(variant) or seconds[variant] * steps
            sets.measure(3, time.monotonic() + 60)
            data = {}
            steady.recorded(suite, sets, older.MOST, data)
            text = older.of_hand_tuned(suite, sets, data)
        self.assertEqual(0.8, data[older.NEWER]["ratio_median"])
        self.assertEqual(
            "of the hand-tuned one's samples a second: older 0.7200 (0.7200 to 0.7200), newer 0.9000 (0.9000 to 0.9000)", text
        )
        self.assertEqual(set(seconds), set(order[-18::3]))

    def test_two_percent(self):
        self.assertIsNone(steady.verdict({"ratio_median": 1.02, "ratio_low": 1.0}, older.MOST))
        self.assertIn("within the noise", steady.verdict({"ratio_median": 1.03, "ratio_low": 1.0}, older.MOST))
        self.assertIn("shown", steady.verdict({"ratio_median": 1.03, "ratio_low": 1.021}, older.MOST))


class Copies(unittest.TestCase):
    def test_times_of_the_benchmark(self):
        output = {
            "benchmarks": [
                {"name": "h2d/blocking/4B/iterations:300/manual_time/threads:8", "mean_ns": 120.0},
                {"name": "event/record/manual_time/threads:1", "mean_ns": 20.0},
                {"name": "an aggregate"},
            ]
        }
        expected = {"h2d/blocking/4B/threads:8": 120.0, "event/record/threads:1": 20.0}
        self.assertEqual(expected, older.call_times(json.dumps(output)))

    def test_every_kind_and_size_is_asked_for(self):
        asked = re.compile(older.BENCHMARKS)
        for name in ("event/record/iterations:3/threads:1", "h2d/pinned/64KiB/iterations:3/threads:8"):
            self.assertTrue(asked.search(name), name)
        self.assertTrue(asked.search("h2d/pinned/256MiB/iterations:3/threads:1"))
        for name in ("h2d/pinned/16MiB/iterations:3/threads:1", "h2d/pinned/64MiB/iterations:3/threads:8", "h2d/pinned/4B/iterations:3/threads:4"):
            self.assertFalse(asked.search(name), name)

    def test_slower_in_every_turn_fails(self):
        with support.TemporarySuite() as suite:
            with self.assertRaisesRegex(Failed, "slower by more than 2 %: x; x bare 1.0 us, before 2.0 us, now/before 1.05"):
                older.judged(suite, "copies", turns_of([2e-6] * 5, [2.1e-6] * 5), {})

    def test_one_slow_turn_does_not(self):
        with support.TemporarySuite() as suite:
            text = older.judged(suite, "copies", turns_of([2e-6] * 5, [2e-6] * 4 + [3e-6]), {})
            self.assertIn("now/before 1.0000", text)
            self.assertEqual(["copies"], [found["name"] for found in suite.results["benchmarks"]])

    def test_every_variant_comes_first_in_some_turn(self):
        with support.TemporarySuite() as suite:
            suite.older = suite.scratch("before")
            (suite.older / "slipstream").touch()
            order = []
            turns = older.in_turn(suite, lambda variant, prefix: order.append((variant, prefix[:1])) or {"x": 1.0})
            self.assertEqual(older.TURNS, len(turns))
            self.assertEqual({older.BARE, older.OLDER, older.NEWER}, {variant for variant, _ in order[::3]})
            self.assertIn((older.BARE, []), order)
            self.assertIn((older.OLDER, [str(suite.older / "slipstream")]), order)


if __name__ == "__main__":
    unittest.main()
