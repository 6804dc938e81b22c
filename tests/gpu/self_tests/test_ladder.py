"""The ladder: speeds are read, and what was said on a rung is judged."""

import unittest

import support  # noqa: F401  pylint: disable=unused-import  (finds the suite)
from suite import ladder
from suite.harness import Failed


def findings(*rules, steps=30):
    return {"steps": steps, "advice": [{"rule": rule} for rule in rules]}


class LadderTest(unittest.TestCase):
    def test_the_rungs_are_those_of_the_program(self):
        source = ladder.PROGRAM.read_text(encoding="utf-8")
        self.assertIn(f"RUNGS = {ladder.RUNGS}".replace("'", '"'), source)

    def test_the_next_rung_must_be_named(self):
        self.assertIsNone(ladder.named(findings("loader-wait", "no-tensor-cores"), "baseline"))
        self.assertIn("would name mixed", ladder.named(findings("loader-wait"), "baseline"))
        self.assertIn("would name uint8, in nothing", ladder.named(findings(), "batch"))
        self.assertIsNone(ladder.named(findings(), "workers"))
        self.assertIn("takes care of", ladder.named(findings("pageable-copies"), "workers"))
        self.assertIn("no steps", ladder.named(findings(steps=0), "pinned"))

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
