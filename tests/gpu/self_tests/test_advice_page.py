"""The tables of the page of results that are about advice."""

import sys
import unittest

import support

sys.path.insert(0, str(support.REPOSITORY / "tools" / "dev"))

from results import advice, page  # noqa: E402  (the folder is known only now)
from suite import ladder  # noqa: E402

ROW = {
    "script": "timed_by_hand",
    "rule": "explicit-synchronize",
    "stands_first": True,
    "step_ns": 19.5e6,
    "claimed_ns": 4.4e6,
    "measured_ns": 4.0e6,
    "low_ns": 3.9e6,
    "high_ns": 4.1e6,
    "ratio": 1.1,
}
OTHER = {**ROW, "script": "few_workers", "rule": "loader-wait", "stands_first": False, "claimed_ns": None, "low_ns": None, "high_ns": None, "ratio": None}


def findings(*rules):
    """Of (rule, cost in ms or None); a step takes 10 ms."""
    advice_given = [{"rule": rule, "cost_per_step_ns": cost and cost * 1e6} for rule, cost in rules]
    return {"step_time_median_ns": 10e6, "advice": advice_given}


def results(**checks):
    return {"checks": [{"name": name.replace("_", "."), "data": data} for name, data in checks.items()]}


class AdvicePage(unittest.TestCase):
    def test_claimed_and_measured_costs(self):
        text = advice.faults(results(advice_table={"rows": [ROW, OTHER]}))
        self.assertIn("| timed by hand | `explicit-synchronize` | 19.50 | 4.40 | 4.00 (3.90 to 4.10) | 1.10 |", text)
        self.assertIn("| few workers | `loader-wait` does not stand first | 19.50 | - | 4.00 | - |", text)

    def test_the_ladder(self):
        text = advice.ladder(
            results(
                ladder_speeds={"speeds": {"baseline": [[1400.4, 1430.0], [1000.0, 1500.0], [1500.0, 1200.0]], "mixed": [[9.0, 8.0]]}},
                ladder_baseline={"findings": findings(("no-tensor-cores", 6.25), ("loader-wait", 1))},
                ladder_batch={"findings": findings()},
                ladder_uint8={"findings": findings(("loader-wait", None))},
            )
        )
        self.assertEqual(
            [
                "| as beginners write it | 1400 | 1430 | `no-tensor-cores`, 62.5% of a step |",
                "| mixed precision | 9 | 8 | - |",
                "| batches four times as large | - | - | nothing |",
                "| images as bytes | - | - | `loader-wait` |",
            ],
            text.splitlines()[4:],
        )

    def test_the_climb(self):
        climb = [
            {"rung": "baseline", "bare": 1400.4, "findings": findings(("loader-wait", 6.25))},
            {"rung": "workers", "bare": 2000.0, "findings": findings()},
        ]
        text = advice.climb(results(ladder_climb={"climb": climb, "end": 2150.4, "last_rung": 2180.0}))
        self.assertEqual(
            [
                "| as beginners write it | 1400 | `loader-wait`, 62.5% of a step |",
                "| a worker a processor | 2000 | nothing |",
                "| that, under slipstream | 2150 | - |",
                "| the last rung of the guides, bare | 2180 | - |",
            ],
            text.splitlines()[4:],
        )

    def test_other_results_have_no_such_table(self):
        for tables, _ in advice.TABLES:
            self.assertIsNone(tables(results(inert_bash={})))
            self.assertIn((tables, ()), page.TABLES)

    def test_every_rung_has_words(self):
        self.assertEqual(ladder.RUNGS, tuple(advice.RUNGS))


if __name__ == "__main__":
    unittest.main()
