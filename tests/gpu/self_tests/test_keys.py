"""The group keys: what stands in front of each side, and that every side is measured against the default policy."""

import unittest

import support
from suite import harness, keys, steady, workloads


class Keys(unittest.TestCase):
    def test_it_runs_only_where_it_is_named(self):
        self.assertIn(keys.GROUP, harness.ON_REQUEST)

    def test_every_program_is_there_and_can_be_tuned_by_hand(self):
        with support.TemporarySuite() as suite:
            moving = {name: example for wave in workloads.waves(suite) for name, example in wave.items()}
            self.assertEqual([f"keys.{name}" for name in keys.SETTINGS], [name for name, _ in keys.checks(suite)])
        self.assertTrue(all(moving[name].hand_tuned for name in keys.SETTINGS))

    def test_a_setting_is_of_its_own_side_alone(self):
        with support.TemporarySuite() as suite:
            found = keys.sides(suite, {"some": {"SLIPSTREAM_X": "1", "SLIPSTREAM_Y": "off"}})
            under = suite.run_prefix("--quiet")
        self.assertEqual({"default": under, "some": ["env", "SLIPSTREAM_X=1", "SLIPSTREAM_Y=off", *under], "hand_tuned": []}, found)

    def test_each_side_stands_against_the_default_one_of_its_set(self):
        seconds = {"default": 1.0, "mirrors": 0.8, "small pages": 1.1, "hand_tuned": 0.7}

        def run(sets, rounds, _deadline):
            sets.steps = 10
            sets.rounds = [
                {(number, side): seconds[side] * (1 + number) for number in range(sets.sets) for side in sets.sides}
                for _ in range(rounds)
            ]

        kept = steady.Sets.run
        self.addCleanup(setattr, steady.Sets, "run", kept)
        steady.Sets.run = run
        data = {}
        with support.TemporarySuite() as suite:
            text = dict(keys.checks(suite))["keys.offload"](data)
        self.assertAlmostEqual(seconds["mirrors"], data["mirrors"]["ratio_median"])
        self.assertAlmostEqual(seconds["hand_tuned"], data["hand_tuned"]["ratio_median"])
        # A default process against the next one: 2/1, 3/2, 4/3 and 1/4.
        self.assertAlmostEqual((3 / 2 + 4 / 3) / 2, data["default"]["ratio_median"])
        self.assertIn("mirrors 0.8000 (0.8000 to 0.8000)", text)


if __name__ == "__main__":
    unittest.main()
