"""Speed and single copies: blocks, waves, ratios and verdicts; a set of processes in which one does not do well."""

import sys
import time
import unittest

import support
from suite import identity, paced, speed, transfer
from suite.harness import Failed

ANSWERS = """
import json, sys
kind = sys.argv[1]
if kind == "dies":
    sys.exit("no memory left")
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if kind == "babbles":
        print("not JSON", flush=True)
    elif kind == "breaks" and request["steps"] > 100:
        sys.exit(1)
    else:
        # Ten milliseconds a step, five in the variant that is twice as fast.
        print(json.dumps({"seconds": request["steps"] * (0.005 if kind == "fast" else 0.01)}), flush=True)
"""


class Arithmetic(unittest.TestCase):
    def test_blocks_are_multiples(self):
        self.assertEqual(40, speed.steps_of_block(0.4, 0.01, 1))
        self.assertEqual(20, speed.steps_of_block(0.2, 0.0095, 5))
        self.assertEqual(5, speed.steps_of_block(0.2, 3.0, 5))

    def test_ratios_of_time_and_of_throughput(self):
        rounds = [{"bare": 2.0, "slipstream": 1.0}]
        self.assertEqual([(0.5, 0.25)], speed.ratios(rounds, "bare", "slipstream", 4))
        self.assertEqual([(16.0, 32.0)], speed.ratios(rounds, "bare", "slipstream", 4, batch=8))

    def test_twice_as_fast_is_a_throughput_of_two(self):
        rounds = [{"bare": 2.0, "slipstream": 1.0, "hand_tuned": 0.8}] * 7
        example = speed.Example("x.py", [], 8, hand_tuned=True)
        gain, tuned, rest = speed.throughput_benchmarks("x", example, rounds, 4)
        self.assertEqual(2.0, gain["summary"]["ratio_median"])
        self.assertEqual(2.5, tuned["summary"]["ratio_median"])
        self.assertAlmostEqual(0.8, rest["summary"]["ratio_median"])
        self.assertEqual([True, False, False], [b["asserted"] for b in (gain, tuned, rest)])

    def test_limits(self):
        for ratio, within in ((1.35, True), (1.349, False), (9.0, True)):
            self.assertEqual(within, speed.verdict({"ratio_median": ratio}, (speed.LEAST_THROUGHPUT, None)) is None)
        for ratio, within in ((1.01, True), (1.0101, False), (0.1, True)):
            self.assertEqual(within, speed.verdict({"ratio_median": ratio}, (None, speed.MOST_STEP_TIME)) is None)

    def test_loaders_go_one_by_one_where_shared_memory_is_short(self):
        size = speed.image_bytes(128, 224)
        examples = {name: speed.Example("x.py", [], 128, hand_tuned=True, shared_batch_bytes=size) for name in "ab"}
        needed = 2 * speed.shared_memory_needed(examples["a"])
        self.assertEqual(2 * 3 * 24 * 128 * 3 * 224 * 224 * 4, needed)
        self.assertEqual([["a", "b"]], [list(wave) for wave in speed.waves(examples, needed)])
        self.assertEqual([["a"], ["b"]], [list(wave) for wave in speed.waves(examples, needed - 1)])

    def test_lead_steps_empty_the_loaders_queues(self):
        with support.TemporarySuite() as suite:
            for example in speed.loaders(suite).values():
                self.assertGreater(example.lead, speed.PREFETCHED)

    def test_percentile_and_names(self):
        values = [float(value) for value in range(10, 0, -1)]
        self.assertEqual(9.0, transfer.percentile(values, 0.9))
        self.assertEqual(10.0, transfer.percentile(values, 0.91))
        self.assertEqual(3.0, transfer.percentile([3.0], 0.9))
        self.assertEqual(["4B", "64KiB", "4MiB"], [transfer.size_name(size) for size in (4, 65536, 4 << 20)])
        self.assertEqual(("12.3 us", "1.20 ms"), (transfer.short(12.3e-6), transfer.short(1.2e-3)))


class Examples(unittest.TestCase):
    def test_every_pattern_is_shown_identical_and_timed(self):
        text = (support.REPOSITORY / "tests" / "gpu" / "train_patterns.py").read_text(encoding="utf-8")
        named = set(identity.PATTERNS) | {"plain"}
        listed = text[text.index("PATTERNS = {") : text.index("NEED_CUDA")]
        patterns = {line.strip(" ,") for line in listed.splitlines() if line.startswith("        ")}
        self.assertEqual(named, patterns)
        with support.TemporarySuite() as suite:
            self.assertLessEqual(named, set(speed.other_examples(suite)))
            self.assertLessEqual(named - {"plain"}, set(identity.examples(suite)))


class Kind(speed.Example):
    """An example whose processes behave as its arguments say, by variant."""

    def specification(self, variant):
        return self.arguments[variant]


class Processes(unittest.TestCase):
    def setUp(self):
        temporary = support.TemporarySuite()
        self.suite = temporary.__enter__()
        self.addCleanup(temporary.__exit__)
        self.suite.run_prefix = lambda *options: []
        self.kept = speed.Paced
        speed.Paced = self.paced
        self.addCleanup(lambda: setattr(speed, "Paced", self.kept))

    def paced(self, suite, log, prefix, specification, env):
        del prefix, env
        (kind,) = specification.values()
        process = paced.Conversation(suite, log, [sys.executable, "-c", ANSWERS, kind], {})
        process.block = lambda workload, lead, steps, fetch=False, timeout=60: process.ask(
            {"workload": workload, "lead": lead, "steps": steps, "fetch": fetch}, timeout
        )["seconds"]
        return process

    def run_turns(self, examples, seconds=60):
        turns = speed.Turns(self.suite, examples)
        turns.run(speed.ROUNDS, time.monotonic() + seconds)
        self.assertTrue(all(process.process.returncode is not None for process in turns.processes.values()))
        return turns

    def example(self, bare, slipstream):
        return Kind("x.py", {"bare": bare, "slipstream": slipstream}, 4)

    def test_one_bad_example_does_not_spoil_the_others(self):
        turns = self.run_turns(
            {
                "good": self.example("slow", "fast"),
                "dead": self.example("slow", "dies"),
                "babbling": self.example("babbles", "slow"),
            }
        )
        self.assertEqual({"dead", "babbling"}, set(turns.problems))
        self.assertIn("speed.dead.slipstream", turns.problems["dead"])
        self.assertEqual(speed.ROUNDS, len(turns.measured["good"]))
        values = speed.ratios(turns.measured["good"], "bare", "slipstream", turns.block_steps["good"])
        self.assertTrue(all(abs(b / a - 0.5) < 1e-9 for a, b in values))

    def test_when_the_time_is_over_nothing_counts(self):
        turns = self.run_turns({"late": self.example("slow", "slow")}, seconds=0)
        self.assertEqual({"late"}, set(turns.problems))
        turns = speed.Turns(self.suite, {"late": self.example("slow", "slow")})
        try:
            turns.start(time.monotonic() + 60)
            with self.assertRaisesRegex(Failed, "after 0 of 7 pairs"):
                turns.measure("late", 7, time.monotonic() - 1)
        finally:
            paced.end_all(turns.processes.values())

    def test_a_process_that_ends_in_the_middle(self):
        examples = {"x": self.example("slow", "breaks")}
        examples["x"].block_seconds = 2.0
        self.assertIn("ended", self.run_turns(examples).problems["x"])

    def decided(self, first, bare, slipstream, seconds=60):
        """The benchmark of an example whose first set had that ratio, when more of such processes had their say."""
        found = speed.benchmark("x", "step.slipstream", "s", 4, [(1.0, first)] * speed.ROUNDS, (None, speed.MOST_STEP_TIME))
        speed.decide(self.suite, self.example(bare, slipstream), found, speed.ROUNDS, time.monotonic() + seconds)
        self.assertEqual(len(found["groups"]), found["summary"]["groups"])
        return found

    def test_a_set_that_is_over_its_limit_decides_nothing_alone(self):
        found = self.decided(1.05, "slow", "slow")
        self.assertEqual(1 + speed.MORE_SETS, len(found["groups"]))
        self.assertEqual((1.0, None), (found["summary"]["ratio_median"], speed.verdict(found["summary"], found["limits"])))
        self.assertGreater(found["summary"]["ratio_high"], 1.0)

    def test_what_all_sets_say_counts(self):
        found = self.decided(1.05, "fast", "slow")
        self.assertEqual(1 + speed.MORE_SETS, len(found["groups"]))
        self.assertIn("ratio 2.0000", speed.verdict(found["summary"], found["limits"]))

    def test_no_more_sets_where_they_decide_nothing_or_cannot(self):
        self.assertEqual(1, len(self.decided(1.01, "fast", "slow")["groups"]))
        found = self.decided(1.05, "slow", "slow", seconds=-1)
        self.assertEqual((1, False), (len(found["groups"]), "problem" in found))
        self.assertIsNotNone(speed.verdict(found["summary"], found["limits"]), "what there is counts")

    def test_a_process_that_fails_is_not_passed_over(self):
        found = self.decided(1.05, "slow", "dies")
        self.assertEqual(1, len(found["groups"]))
        self.assertIn("speed.x.slipstream", found["problem"])


class Copies(unittest.TestCase):
    def measured(self, bare, slipstream):
        """The check of 64 KiB where the copies took so long."""
        with support.TemporarySuite() as suite:
            kept = transfer.start, transfer.take_turns
            self.addCleanup(lambda: (setattr(transfer, "start", kept[0]), setattr(transfer, "take_turns", kept[1])))

            class Silent:
                name = "x"

                def read(self, timeout):
                    del timeout

                def ask_to_end(self):
                    pass

                def end(self, timeout):
                    pass

            transfer.start = lambda suite, variant, prefix: Silent()
            transfer.take_turns = lambda *_: {
                "bare": [bare] * 16,
                "slipstream": [slipstream] * 15 + [1.0],
                "pinned": [20e-6] * 16,
            }
            checks = dict(transfer.checks(suite))
            checks["transfer.measure"]({})
            names = ("blocking_64KiB", "complete_16MiB", "fetch_64MiB")
            return [checks[f"transfer.{name}"]({}) for name in names]

    def test_pytorchs_calls_are_reported(self):
        text, complete, fetch = self.measured(0.064, 4e-3)
        self.assertIn("4.00 ms (p90 4.00 ms) under slipstream, target 40.0 us; bare 64.00 ms", text)
        self.assertIn("16.8 GB/s under slipstream, 1.0 GB/s bare", fetch)
        self.assertIn("bare takes 16.0 times as long (target 20)", fetch)
        self.assertIn("reported, not asserted", complete)

    def test_behind_no_queue_nothing_is_shown(self):
        with self.assertRaises(Failed):
            self.measured(0.001, 9e-6)

    def test_bare_and_slipstream_take_turns_and_the_first_does_not_count(self):
        asked = []

        class Fake:
            def __init__(self, name):
                self.name = name

            def ask(self, request, timeout):
                del timeout
                asked.append((self.name, request["pinned"]))
                return {"seconds": [float(len(asked))] * request["repetitions"]}

        processes = {name: Fake(name) for name in ("bare", "slipstream")}
        values = transfer.take_turns(processes, "blocking", 4, 2, 2)
        self.assertEqual([4, 4, 4], [len(found) for found in values.values()])
        self.assertEqual(9, len(asked))
        self.assertNotIn(1.0, values["pinned"])
        self.assertEqual([("bare", False), ("slipstream", False), ("bare", True)], asked[3:6])
        self.assertEqual([("bare", True), ("slipstream", False), ("bare", False)], asked[6:9])


if __name__ == "__main__":
    unittest.main()
