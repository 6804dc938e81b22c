"""Peaks and step times of allocators are judged, and runs that did other steps are found."""

import unittest

import support  # noqa: F401
from suite import fragmentation

GIB = 2**30


def record(reserved, seconds=0.2, loss=2.5):
    return {
        "losses": [loss.hex()] * 3,
        "step_seconds": [seconds, seconds * 1.5, seconds * 0.7],
        "peak_allocated": 40 * GIB,
        "peak_reserved": int(reserved * GIB),
        "driver_used": int((reserved + 1) * GIB),
    }


def runs(ours):
    return {"native": [record(60)] * 2, "expandable": [record(41)] * 2, "async": [record(43)] * 2, "slipstream": ours}


class Judged(unittest.TestCase):
    def test_met(self):
        text, problems = fragmentation.judged(runs([record(41), record(41.1)]))
        self.assertEqual([], problems)
        self.assertIn("native 40.00 of 60.00 GiB (0.667), driver 61.00;", text)
        self.assertIn("slipstream 40.00 of 41.10 GiB (0.973), driver 42.10, step time 1.0000", text)

    def test_one_turn_reserved_too_much(self):
        _, problems = fragmentation.judged(runs([record(41), record(42)]))
        self.assertEqual(["slipstream reserved 1.024 of what expandable did, target 1.01"], problems)

    def test_slower(self):
        _, problems = fragmentation.judged(runs([record(41, 0.206)] * 2))
        self.assertEqual(["a step took 1.0300 (1.0300 to 1.0300) of expandable's, target 1.01"], problems)

    def test_slower_within_the_noise(self):
        """One process is faster and one slower: nothing is shown."""
        text, problems = fragmentation.judged(runs([record(41, 0.19), record(41, 0.24)]))
        self.assertEqual([], problems)
        self.assertIn("of expandable's, whose second turn is 1.0000 (1.0000 to 1.0000) of its first", text)

    def test_other_steps(self):
        _, problems = fragmentation.judged(runs([record(41, loss=2.25)] * 2))
        self.assertEqual(["slipstream begins with another loss than native: not the same steps"], problems)


if __name__ == "__main__":
    unittest.main()
