"""The ladder: speeds are read, and what was said on a rung is judged."""

import unittest

import support  # noqa: F401  pylint: disable=unused-import  (finds the suite)
from suite import ladder
from suite.harness import Failed


def findings(*rules, steps=30, cost_ms=1):
    """A step takes 10 ms."""
    advice = [{"rule": rule, "cost_per_step_ns": cost_ms * 1e6} for rule in rules]
    return {"steps": steps, "step_time_median_ns": 10e6, "advice": advice}


class LadderTest(unittest.TestCase):
    def test_the_rungs_are_those_of_the_program(self):
        source = ladder.PROGRAM.read_text(encoding="utf-8")
        self.assertIn(f"RUNGS = {ladder.RUNGS}".replace("'", '"'), source)

    def test_what_stands_first_must_name_a_rung_that_is_left(self):
        self.assertIsNone(ladder.wrong_on(findings("loader-wait", "stalls"), ()))
        self.assertIsNone(ladder.wrong_on(findings("loader-wait"), ("mixed", "workers")))
        self.assertIn("host-bound stands first", ladder.wrong_on(findings("host-bound", "loader-wait"), ("mixed", "batch")))
        self.assertIn("stalls stands first", ladder.wrong_on(findings("stalls"), ladder.up_to("pinned")))
        self.assertIsNone(ladder.wrong_on(findings("stalls", cost_ms=0.2), ladder.up_to("pinned")))
        self.assertIsNone(ladder.wrong_on(findings("blocking-copies"), ladder.up_to("pinned")))
        self.assertIsNone(ladder.wrong_on(findings(), ()))
        self.assertIn("no steps", ladder.wrong_on(findings(steps=0), ()))
        self.assertIn("takes care of", ladder.wrong_on(findings("no-tensor-cores", "pageable-copies"), ()))

    def test_the_next_rung_is_the_first_that_is_left(self):
        self.assertEqual("workers", ladder.next_rung(findings("loader-wait", "no-tensor-cores"), []))
        self.assertEqual("mixed", ladder.next_rung(findings("stalls", "loader-wait", "no-tensor-cores"), ["workers"]))
        self.assertIsNone(ladder.next_rung(findings("loader-wait", cost_ms=0.2), []))
        self.assertIsNone(ladder.next_rung(findings("blocking-copies"), []))

    def test_a_climb_goes_up(self):
        up = [("baseline", 100.0), ("workers", 150.0), ("batch", 200.0)]
        self.assertIsNone(ladder.climb_is_wrong(up, 205.0, 200.0))
        self.assertIn("at 0.80", ladder.climb_is_wrong(up, 250.0, 200.0))
        self.assertIn("batch was advised", ladder.climb_is_wrong([*up[:2], ("batch", 150.0)], 100.0, 150.0))
        self.assertIn("names no rung", ladder.climb_is_wrong(up[:1], 100.0, 100.0))

    def test_what_is_below_a_rung(self):
        self.assertEqual((), ladder.up_to("baseline"))
        self.assertEqual(("mixed", "batch"), ladder.up_to("batch"))

    def test_one_speed_is_read(self):
        self.assertEqual(1431.5, ladder.speed_of("baseline: loss 2.3, 1431.5 samples/s\n"))
        for output in ("", "1 samples/s\n2 samples/s\n"):
            with self.assertRaises(Failed):
                ladder.speed_of(output)

    def test_ratios_are_shown_with_their_spread(self):
        text = ladder.shown({"baseline": [(100.0, 110.0), (100.0, 90.0), (100.0, 100.0)]})
        self.assertEqual("baseline 100 samples/s bare, 1.000 (0.900 to 1.100)", text)


if __name__ == "__main__":
    unittest.main()
