"""The comparisons of losses, outcomes and ratios find every kind of difference."""

import unittest

import support  # noqa: F401
from suite import harness, identity, outcomes, ratio, summary
from suite.harness import Failed, Result

RECORD = {"losses": [(2.5).hex(), (1.25).hex()], "state_sha256": "aa"}


class Identity(unittest.TestCase):
    def test_same_bits(self):
        self.assertEqual([], identity.differences(RECORD, dict(RECORD)))

    def test_one_bit_of_a_loss(self):
        other = {**RECORD, "losses": [(2.5).hex(), float.fromhex("0x1.4000000000001p+0").hex()]}
        self.assertEqual(1, len(identity.differences(RECORD, other)))

    def test_hash_and_number_of_losses(self):
        self.assertEqual(1, len(identity.differences(RECORD, {**RECORD, "state_sha256": "ab"})))
        self.assertEqual(1, len(identity.differences(RECORD, {**RECORD, "losses": RECORD["losses"][:1]})))

    def test_launches_are_added_over_names(self):
        seen = {
            "totals": {
                "functions": [
                    {"name": "cudaLaunchKernel", "calls": 2},
                    {"name": "cudaMalloc", "calls": 9},
                    {"name": "__cudaLaunchKernel", "calls": 3},
                ]
            }
        }
        self.assertEqual(5, summary.calls(seen, summary.LAUNCHES))

    def test_the_engine_must_have_acted(self):
        def seen(**decisions):
            names = {"small": "h2d.promoted.small", "large": "h2d.promoted.large", "skipped": "sync.skipped"}
            names["unmapped"] = "unmapped.background"
            counts = {f"transfer.{names[key]}": {"count": n, "bytes": 0, "time_ns": 0} for key, n in decisions.items()}
            return {"totals": {"functions": [], "decisions": counts}}

        acted = seen(small=2, large=3, skipped=4)
        self.assertEqual((5, 4), (summary.decided(acted, summary.PROMOTED), summary.decided(acted, summary.SKIPPED)))
        self.assertEqual(0, summary.decided(acted, "transfer.promote"))
        self.assertEqual("5 copies promoted, 4 synchronizations skipped", summary.expect_acted(acted))
        self.assertIn("0 synch", summary.expect_acted(seen(large=1), skips=False))
        for idle in (seen(), {"totals": {"functions": []}}, seen(skipped=1), seen(small=1)):
            with self.assertRaises(Failed):
                summary.expect_acted(idle)
        batches = seen(large=3, skipped=4, unmapped=7)
        self.assertIn("7 batches given back", summary.expect_acted(batches, shared_batches=7))
        for few in (batches, acted):
            with self.assertRaises(Failed):
                summary.expect_acted(few, shared_batches=8)


class Outcomes(unittest.TestCase):
    def test_same(self):
        outcomes.compare(Result(1, b"x", b"y", 1), Result(1, b"x", b"y", 2), True)
        outcomes.compare(Result(1, b"x", b"y", 1), Result(1, b"x", b"other", 2), False)

    def test_differences(self):
        bare = Result(1, b"x", b"y", 1)
        for other in (
            Result(0, b"x", b"y", 1),
            Result(1, b"z", b"y", 1),
            Result(1, b"x", b"z", 1),
            Result(1, b"x", b"y", 1, timed_out=True),
        ):
            with self.assertRaises(Failed):
                outcomes.compare(bare, other, True)

    def test_signals_as_a_shell_shows_them(self):
        self.assertEqual(137, harness.shell_status(-9))
        self.assertEqual(3, harness.shell_status(3))


class Ratio(unittest.TestCase):
    def test_limits(self):
        for value, within in ((0.998, True), (1.002, True), (0.9979, False), (1.0021, False)):
            problem = ratio.verdict({"ratio_median": value}, ratio.LIMITS[ratio.OFF])
            self.assertEqual(within, problem is None, value)
        self.assertIsNone(ratio.verdict({"ratio_median": 1.01}, ratio.LIMITS[ratio.DEFAULT]))
        self.assertIsNotNone(ratio.verdict({"ratio_median": 1.0101}, ratio.LIMITS[ratio.DEFAULT]))


if __name__ == "__main__":
    unittest.main()
