"""The group gains: what the report claims is held against timed steps, and against itself."""

import unittest

import support  # noqa: F401  pylint: disable=unused-import  (finds the suite)
from suite import gains
from suite.harness import Failed

MS = 1_000_000


def process(at_most_ms=100.0, measured_ms=(30.0, None), total_ms=30.0, went_on_ms=30.0, steps=10, ahead=True):
    """Ten steps of 10 ms each."""
    return {
        "steps": {"measured": steps, "measured_ns": 100 * MS},
        "ahead": {"step_thread": {"went_on_ns": went_on_ms * MS}} if ahead else None,
        "gains": {
            "measured_ns": total_ms * MS,
            "estimated_ns": None,
            "steps_shorter_by_at_most_ns": None if at_most_ms is None else at_most_ms * MS,
            "skipped_waits": None if at_most_ms is None else 20,
            "why_no_bound": "a reason" if at_most_ms is None else None,
            "rows": [{"measured_ns": None if one is None else one * MS, "estimated_ns": None} for one in measured_ms],
        },
    }


class GainsTest(unittest.TestCase):
    def test_a_gain_within_the_bound(self):
        # 1 ms of the bound, and two waits of 50 us, a step.
        self.assertAlmostEqual(1.1e-3, gains.bound_of(process(at_most_ms=10)))
        self.assertIsNone(gains.wrong(process(at_most_ms=10), [11e-3] * 3, [10e-3] * 3))

    def test_a_gain_above_the_bound(self):
        self.assertIn("more than the bound of 1.100 ms", gains.wrong(process(at_most_ms=10), [12e-3] * 3, [10e-3] * 3))

    def test_what_the_turns_differ_by_shows_nothing(self):
        self.assertIsNone(gains.wrong(process(at_most_ms=10), [11.5e-3, 12e-3, 12.5e-3], [10e-3] * 3))
        self.assertIn("the bound", gains.wrong(process(at_most_ms=10), [11.9e-3, 12e-3, 12.1e-3], [10e-3] * 3))

    def test_without_a_bound_it_is_reported(self):
        self.assertIsNone(gains.wrong(process(at_most_ms=None), [12e-3] * 3, [10e-3] * 3))
        text = gains.shown(process(at_most_ms=None), [12e-3] * 3, [10e-3] * 3)
        self.assertIn("12.000 ms bare and is shorter by 2.000 ms recorded (spread 0.000)", text)
        self.assertIn("claimed as certain: nothing, no bound (a reason)", text)
        self.assertIn("measured 3.000 ms, estimated none", text)

    def test_rows_add_up(self):
        self.assertIn("its rows add up to", gains.wrong(process(total_ms=31.0), [10e-3], [10e-3]))

    def test_no_more_host_time_than_there_was(self):
        self.assertIn("the host went on for", gains.wrong(process(went_on_ms=101.0), [10e-3], [10e-3]))

    def test_what_must_be_there(self):
        self.assertIn("no steps", gains.wrong(process(steps=0), [10e-3], [10e-3]))
        self.assertIn("not recorded", gains.wrong(process(ahead=False), [10e-3], [10e-3]))

    def test_the_warm_up_does_not_count(self):
        self.assertEqual(2.0, gains.step_of({"step_seconds": [9.0, 2.0, 1.0, 3.0]}))
        with self.assertRaisesRegex(Failed, "too few steps"):
            gains.step_of({"step_seconds": [9.0]})


if __name__ == "__main__":
    unittest.main()
