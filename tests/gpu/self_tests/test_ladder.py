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

    def test_the_next_rung_must_stand_first(self):
        self.assertIsNone(ladder.named(findings("no-tensor-cores", "loader-wait"), "baseline"))
        self.assertIn("would name mixed, stands first", ladder.named(findings("loader-wait", "no-tensor-cores"), "baseline"))
        self.assertIn("would name uint8, stands first", ladder.named(findings(), "batch"))
        self.assertIn("no steps", ladder.named(findings(steps=0), "pinned"))
        self.assertIn("takes care of", ladder.named(findings("no-tensor-cores", "pageable-copies"), "baseline"))

    def test_nothing_costly_is_left_on_the_last_rungs(self):
        for rung in ladder.RUNGS[-2:]:
            self.assertIsNone(ladder.named(findings(), rung))
            self.assertIsNone(ladder.named(findings("stalls", cost_ms=0.2), rung))
            self.assertEqual("told to change stalls", ladder.named(findings("stalls"), rung))
            self.assertIsNone(ladder.named(findings("blocking-copies"), rung))
            self.assertIn("takes care of", ladder.named(findings("pageable-copies"), rung))

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
