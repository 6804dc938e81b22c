"""Tuned policies: what a comparison with the default one came to is judged."""

import unittest

import support  # noqa: F401  pylint: disable=unused-import  (finds the suite)
from suite import harness, tuned


def made(value, low, high, outcome="compared"):
    different = low > 1 or high < 1
    return {
        "outcome": outcome,
        "measured": "steps",
        "pairs": [{}] * 6,
        "speed_ratio": {"value": value, "low": low, "high": high, "different": different},
    }


class TunedTest(unittest.TestCase):
    def test_only_a_slower_one_is_wrong(self):
        self.assertEqual((None, "1.100 times as fast (1.050 to 1.150, 6 pairs, by steps)"), tuned.judged(made(1.1, 1.05, 1.15)))
        self.assertIsNone(tuned.judged(made(0.99, 0.95, 1.03))[0])
        self.assertIn("slower than the default", tuned.judged(made(0.9, 0.85, 0.95))[0])
        self.assertIn("results_differ", tuned.judged(made(1.1, 1.05, 1.15, "results_differ"))[0])

    def test_what_was_found_is_named(self):
        self.assertEqual("the default policy", tuned.settings_of({"settings": {}}))
        self.assertEqual("a = 1, b = off", tuned.settings_of({"settings": {"b": "off", "a": "1"}}))

    def test_it_runs_only_where_it_is_named_and_its_programs_are_there(self):
        self.assertIn(tuned.GROUP, harness.ON_REQUEST)
        for workload in [*tuned.WORKLOADS.values(), *tuned.REHEARSED.values()]:
            self.assertTrue((harness.GPU_TESTS / workload.training.split()[0]).is_file(), workload)


if __name__ == "__main__":
    unittest.main()
