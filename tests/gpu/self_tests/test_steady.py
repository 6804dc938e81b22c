"""The group steady: sets of processes that take turns, what counts as slower, and that no process is left."""

import os
import sys
import unittest

import support
from suite import harness, paced, speed, steady, workloads
from suite.harness import Failed

# A process whose steps take as many milliseconds as its first argument says.
ANSWERS = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    print(json.dumps({"seconds": json.loads(line)["steps"] * float(sys.argv[1]) / 1e3}), flush=True)
"""


class Measuring(unittest.TestCase):
    def measured(self, bare, slipstream, example=None):
        """The outcome of a check, with the milliseconds of each set's processes; and the order of the blocks."""
        temporary = support.TemporarySuite(only="steady")
        suite = temporary.__enter__()
        self.addCleanup(temporary.__exit__)
        suite.run_prefix = lambda *options: ["under", *options]
        kept = steady.Paced, steady.SETS
        self.addCleanup(lambda: (setattr(steady, "Paced", kept[0]), setattr(steady, "SETS", kept[1])))
        steady.SETS = len(bare)
        self.order, self.processes, self.prefixes = [], [], []

        def started(suite, log, prefix, specification, env):
            number, variant = len(self.processes) // 2, len(self.processes) % 2
            pace = (slipstream if variant else bare)[number]
            process = paced.Conversation(suite, log, [sys.executable, "-c", ANSWERS, str(pace)], {})

            def block(workload, lead, steps, fetch=False, timeout=60):
                self.order.append((number, variant))
                return process.ask({"workload": workload, "lead": lead, "steps": steps}, timeout)["seconds"]

            process.block = block
            self.prefixes.append(tuple(prefix))
            self.processes.append(process)
            return process

        steady.Paced = started
        self.data = {}
        try:
            return steady.check_of(suite, "x", example or speed.Example("x.py", [], 8))(self.data)
        except Failed as problem:
            return f"FAILED {problem}"
        finally:
            self.assertTrue(all(process.process.returncode is not None for process in self.processes))

    def test_as_fast_as_bare(self):
        self.assertIn("10.000 ms a step bare, slipstream/bare 1.0000", self.measured([10] * 4, [10] * 4))
        self.assertEqual(24, self.data["slipstream"]["pairs"])
        self.assertEqual([("under", "--quiet") if place % 2 else () for place in range(8)], self.prefixes)

    def test_slower_in_every_set(self):
        self.assertIn("FAILED slower by more than 1 %, shown; ", self.measured([10] * 4, [10.2] * 4))

    def test_one_process_that_is_off_is_noise(self):
        text = self.measured([10, 10, 10, 10], [10, 10, 10, 12])
        self.assertNotIn("FAILED", text)
        self.assertGreater(self.data["slipstream"]["ratio_high"], 1.1)
        self.assertIn("FAILED slower by more than 1 %, within the noise", self.measured([10, 10.4, 10], [10.3, 10.4, 10.3]))

    def test_the_control_tells_bare_processes_apart(self):
        self.measured([10, 11], [10, 11])
        self.assertEqual(1.0, self.data["slipstream"]["ratio_median"])
        self.assertGreater(self.data["control"]["ratio_high"], 1.09)

    def test_turns_change_their_order(self):
        self.measured([10, 10], [10, 10])
        rounds = self.order[1 + 4 :]
        self.assertEqual([(0, 0), (0, 1), (1, 1), (1, 0)], rounds[:4])
        self.assertEqual([(0, 1), (0, 0), (1, 0), (1, 1)], rounds[4:8])

    def test_a_process_that_dies_fails_the_check_and_ends_all(self):
        self.assertRegex(self.measured([10, "nonsense"], [10, 10]), "^FAILED steady.x.1.bare ended")


class Programs(unittest.TestCase):
    def test_it_runs_only_where_it_is_named(self):
        self.assertIn(steady.GROUP, harness.ON_REQUEST)

    def test_examples_are_the_other_groups_own(self):
        with support.TemporarySuite() as suite:
            found = steady.examples(suite)
        self.assertLessEqual({*steady.PATTERNS, *workloads.TWO_CORES, "on_device", "checkpoint"}, set(found))
        self.assertFalse(any(example.hand_tuned for example in found.values()))

    def test_cores_are_shared_by_nobody_while_there_are_enough(self):
        kept = os.sched_getaffinity
        self.addCleanup(setattr, os, "sched_getaffinity", kept)
        os.sched_getaffinity = lambda _: set(range(16))
        example = speed.Example("x.py", [], 8, prefix=("taskset", "-c", "0,1"))
        name = workloads.TWO_CORES[0]
        given = [steady.prefix_of(name, example, place)[2] for place in range(8)]
        self.assertEqual(8, len(set(given)))
        self.assertEqual("14,15", given[7])
        self.assertEqual(("taskset", "-c", "0,1"), steady.prefix_of("other", example, 3))
        os.sched_getaffinity = lambda _: {3, 5}
        self.assertEqual("3,5", steady.prefix_of(name, example, 3)[2])


if __name__ == "__main__":
    unittest.main()
