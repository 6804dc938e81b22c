"""The group profilers: processes that take turns, what is asserted, and what must be seen."""

import sys
import unittest

import support
from suite import harness, paced, profilers
from suite.harness import Failed

# A process whose steps take as many milliseconds as its first argument says, and whose profiles have as many events as its
# second.
ANSWERS = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    answer = {"seconds": request["steps"] * float(sys.argv[1]) / 1e3}
    if "profile" in request:
        answer["device_events"] = int(sys.argv[2])
    if "count" in request:
        answer["bytes"] = int(sys.argv[2])
    print(json.dumps(answer), flush=True)
"""
AS_BARE = dict.fromkeys(profilers.VARIANTS, 10)
# CUPTI takes 2 ms for the kinds and 2.5 for all, torch.profiler 6.
IN_BOUNDS = AS_BARE | {"record_devices": 12.5, "cupti_kinds": 12, "cupti_all": 12.5, "torch_cuda": 16}


class Measuring(unittest.TestCase):
    def measured(self, milliseconds, events=7, traces=True):
        """The outcomes of the group's checks by name."""
        temporary = support.TemporarySuite(only="profilers")
        suite = temporary.__enter__()
        self.addCleanup(temporary.__exit__)
        suite.run_prefix = lambda *options: ["under", *options]
        self.addCleanup(setattr, profilers, "Paced", profilers.Paced)
        self.order, self.prefixes, self.envs, processes = [], {}, {}, []

        def started(suite, log, prefix, specification, env):
            variant = log.rsplit(".", 1)[1]
            argv = [sys.executable, "-c", ANSWERS, str(milliseconds[variant]), str(events)]
            process = paced.Paced.__new__(paced.Paced)
            paced.Conversation.__init__(process, suite, log, argv, {})
            self.prefixes[variant] = list(prefix)
            self.envs[variant] = env
            if prefix and traces:
                (suite.scratch("paced") / f"slipstream-trace-{len(processes)}").mkdir()
            processes.append(process)
            return process

        profilers.Paced = started
        outcomes = {}
        for name, check in profilers.checks(suite):
            if name == "profilers.parts":
                continue
            try:
                outcomes[name.removeprefix("profilers.")] = check({})
            except Failed as problem:
                outcomes[name.removeprefix("profilers.")] = f"FAILED {problem}"
        self.assertTrue(all(process.process.returncode is not None for process in processes))
        self.benchmarks = suite.results["benchmarks"]
        self.quick = suite.quick or suite.rehearsal
        return outcomes

    def test_what_each_costs(self):
        outcomes = self.measured(IN_BOUNDS | {"torch_stacks": 17})
        self.assertIn("10.000 ms a step bare, ratio 1.6000", outcomes["torch_cuda"])
        self.assertIn("ratio 1.7000", outcomes["torch_stacks"])
        self.assertIn("ratio 1.0000", outcomes["record"])
        self.assertFalse([text for text in outcomes.values() if "FAILED" in text])
        for variant in ("record", "record_devices", "after_devices"):
            self.assertEqual(["under", "--quiet", "--record"], self.prefixes.pop(variant))
        self.assertEqual({"SLIPSTREAM_TRACER_DEVICE": "off"}, self.envs.pop("record"))
        self.assertEqual({"SLIPSTREAM_TRACER_DEVICE_FOR": "5"}, self.envs.pop("after_devices"))
        self.assertRegex(self.envs.pop("cupti_kinds")["PACED_CUPTI"], "^2:.*libdevice_cost.so$")
        self.assertRegex(self.envs.pop("cupti_all")["PACED_CUPTI"], "^5:.*libdevice_cost.so$")
        self.assertFalse(any(self.envs.values()))
        self.assertEqual([[]] * 7, list(self.prefixes.values()))
        self.assertIn("takes 1.25 (1.25 to 1.25) of what CUPTI takes for the same kinds alone, 1.00 (1.00 to 1.00) with its "
                      "callbacks and records read, 0.42 (0.42 to 0.42) of what torch.profiler", outcomes["beside_cupti"])
        by_variant = {b["variant"]: b for b in self.benchmarks}
        self.assertEqual({f"profilers.{variant}" for variant in profilers.VARIANTS[1:]}, set(by_variant))
        self.assertTrue(by_variant["profilers.record"]["asserted"])
        self.assertFalse(by_variant["profilers.torch_cuda"]["asserted"])
        pairs_of = {name: {len(group) for group in found["groups"]} for name, found in by_variant.items()}
        rounds = 2 if self.quick else profilers.ROUNDS
        self.assertEqual({rounds}, pairs_of["profilers.record_devices"])
        self.assertEqual({-(-rounds // profilers.PROFILER_EVERY)}, pairs_of["profilers.torch_stacks"])

    def test_recording_that_costs_too_much(self):
        outcomes = self.measured(AS_BARE | {"record": 10.2})
        self.assertIn("FAILED over the target of 1.01; 10.000 ms a step bare, ratio 1.0200", outcomes["record"])

    def test_what_slipstream_adds_to_cupti(self):
        outcomes = self.measured(IN_BOUNDS | {"record_devices": 12.8})
        self.assertRegex(outcomes["beside_cupti"], "^FAILED over the target beside cupti_kinds; .* takes 1.40")
        outcomes = self.measured(IN_BOUNDS | {"torch_cuda": 14})
        self.assertRegex(outcomes["beside_cupti"], "^FAILED over the target beside torch_cuda; ")

    def test_cupti_that_takes_nothing_shows_nothing(self):
        outcomes = self.measured(IN_BOUNDS | {"cupti_kinds": 10})
        self.assertRegex(outcomes["beside_cupti"], "^FAILED over the target beside cupti_kinds; .* takes not told from none")

    def test_a_profiler_that_saw_nothing(self):
        outcomes = self.measured(AS_BARE, events=0)
        self.assertIn("FAILED torch_cuda: it saw nothing on the device", outcomes["measure"])
        self.assertIn("FAILED not measured", outcomes["record"])

    def test_a_recording_that_left_nothing(self):
        self.assertIn("FAILED 3 recorded processes left 0 traces", self.measured(AS_BARE, traces=False)["measure"])

    def test_a_process_that_dies_fails_the_check_and_ends_all(self):
        self.assertRegex(self.measured(AS_BARE | {"torch_cuda": "nonsense"})["measure"], "^FAILED profilers.0.torch_cuda ended")

    def test_it_runs_only_where_it_is_named(self):
        self.assertIn(profilers.GROUP, harness.ON_REQUEST)


if __name__ == "__main__":
    unittest.main()
