"""The group workloads: what is measured when, what its limits say, and that no process is left."""

import ast
import os
import sys
import unittest

import support
from suite import harness, paced, speed, workloads
from suite.harness import Failed, Skipped

# A process whose steps take as many milliseconds as its first argument says, by what it reports.
ANSWERS = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if "resident" in request:
        print(json.dumps({"peak_resident": float(sys.argv[1]) * 2**30}), flush=True)
        continue
    seconds = request["steps"] * float(sys.argv[1]) / 1e3
    if "trace" in request:
        kernels = {"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "dur": seconds * 0.5e6}
        with open(request["trace"], "w") as file:
            json.dump({"traceEvents": [kernels]}, file)
    print(json.dumps({"seconds": seconds, "moving_seconds": seconds / 10}), flush=True)
"""


class Paces(speed.Example):
    """An example whose processes take so many milliseconds for a step: arguments is {variant: milliseconds}."""

    def specification(self, variant):
        return {"pace": self.arguments[variant]}


def paces(bare, slipstream, hand_tuned=None):
    arguments = {speed.BARE: bare, speed.SLIPSTREAM: slipstream, speed.HAND_TUNED: hand_tuned}
    return Paces("x.py", arguments, 8, hand_tuned=hand_tuned is not None)


class Programs(unittest.TestCase):
    def test_every_workload_is_measured_and_shown_identical(self):
        tree = ast.parse((support.REPOSITORY / "tests" / "gpu" / "train_transfer.py").read_text(encoding="utf-8"))
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        (listed,) = (
            node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "WORKLOADS"
        )
        there = {name.id for name in listed.generators[0].iter.elts}
        self.assertLessEqual(there, set(functions))
        for rehearse in (False, True):
            with support.TemporarySuite() as suite:
                suite.rehearsal = rehearse
                measured = {name: example for wave in workloads.waves(suite) for name, example in wave.items()}
                run = {workload_of(e.arguments) for e in measured.values() if e.program == "train_transfer.py"}
                self.assertEqual(there, run)
                shown = workloads.examples(suite)
                identical = [example for name, (example, _, _) in shown.items() if name != "lm"]
                self.assertEqual(there, {workload_of(example.arguments) for example in identical})
                self.assertTrue(all(example.tuning == workloads.TUNED for example in identical))
                if not rehearse:
                    self.assertEqual(set(measured) - {*workloads.TWO_CORES, *workloads.NOT_DEFAULT}, set(shown))
                    self.assertLessEqual(set(workloads.TRANSFER_BOUND), set(measured))

    def test_arguments_are_the_programs_own(self):
        text = (support.REPOSITORY / "tests" / "gpu" / "train_transfer.py").read_text(encoding="utf-8")
        text += (support.REPOSITORY / "tests" / "gpu" / "train_common.py").read_text(encoding="utf-8")
        for rehearse in (False, True):
            with support.TemporarySuite() as suite:
                suite.rehearsal = rehearse
                given = [list(e.arguments) for wave in workloads.waves(suite) for n, e in wave.items() if n != "lm"]
                shown = workloads.examples(suite).items()
                given += [[*example.arguments, *example.tuning] for name, (example, _, _) in shown if name != "lm"]
                for option in {word for arguments in given for word in arguments if word.startswith("--")}:
                    self.assertIn(f'"{option}"', text)

    def test_two_cores_hold_both_variants(self):
        with support.TemporarySuite() as suite:
            wave = workloads.waves(suite)[-1]
        self.assertEqual(list(workloads.TWO_CORES), list(wave))
        allowed = sorted(os.sched_getaffinity(0))
        for example in wave.values():
            self.assertEqual((speed.BARE, speed.SLIPSTREAM), example.variants())
            self.assertEqual(("taskset", "-c", ",".join(map(str, allowed[:2]))), example.prefix)

    def test_only_the_transfer_bound_must_gain(self):
        with support.TemporarySuite() as suite:
            names = [name for name, _ in workloads.measurements(suite)]
            bound = {name.split(".")[1] for name in names if name.endswith(".gain")}
            self.assertEqual(set(workloads.TRANSFER_BOUND), bound)
            tuned = {name.split(".")[1] for name in names if name.endswith(".hand_tuned")}
            measured = {name for wave in workloads.waves(suite) for name in wave}
            self.assertEqual(measured - tuned, {"on_device", "checkpoint_no_d2h", *workloads.TWO_CORES})
            self.assertEqual(measured, {name.split(".")[1] for name in names if name.endswith(".not_slower")})


def workload_of(arguments):
    return arguments[arguments.index("--workload") + 1]


class Measuring(unittest.TestCase):
    def suite(self, waves, only="workloads"):
        temporary = support.TemporarySuite(only=only)
        suite = temporary.__enter__()
        self.addCleanup(temporary.__exit__)
        suite.run_prefix = lambda *options: ["under", *options]
        kept = workloads.waves, speed.Paced
        self.addCleanup(lambda: (setattr(workloads, "waves", kept[0]), setattr(speed, "Paced", kept[1])))
        workloads.waves = lambda _: waves
        speed.Paced = self.paced
        self.started = []
        self.processes = []
        return suite

    def paced(self, suite, log, prefix, specification, env):
        ((name, specification),) = specification.items()
        self.started.append((name, tuple(prefix), env.get("SLIPSTREAM_TRANSFER_D2H")))
        process = paced.Conversation(suite, log, [sys.executable, "-c", ANSWERS, specification["pace"]], {})
        process.block = lambda workload, lead, steps, fetch=False, timeout=60: process.ask(
            {"workload": workload, "lead": lead, "steps": steps, "fetch": fetch}, timeout
        )["seconds"]
        process.trace = lambda *arguments: paced.Paced.trace(process, *arguments)
        process.peak_resident = lambda workload: paced.Paced.peak_resident(process, workload)
        self.processes.append(process)
        return process

    def tearDown(self):
        self.assertTrue(self.processes)
        for process in self.processes:
            self.assertIsNotNone(process.process.returncode)

    def outcome(self, checks, name):
        try:
            return checks[f"workloads.{name}"]({})
        except Failed as problem:
            return f"FAILED {problem}"

    def test_each_limit_passes_and_fails(self):
        waves = [
            {
                "nested": paces(14.1, 10, 10),
                "offload": paces(13.9, 10, 9.6),
                "item": paces(10, 10.2, 10.3),
                "on_device": paces(10, 10, 10.2),
            }
        ]
        checks = dict(workloads.measurements(self.suite(waves)))
        for name, good in (
            ("nested.not_slower", True),
            ("nested.hand_tuned", True),
            ("nested.gain", True),
            ("offload.not_slower", True),
            ("offload.hand_tuned", False),
            ("offload.gain", False),
            ("item.not_slower", False),
            ("item.hand_tuned", True),
            ("on_device.not_slower", True),
            ("on_device.control", False),
        ):
            text = self.outcome(checks, name)
            self.assertEqual(good, not text.startswith("FAILED"), text)
            self.assertIn("5 pairs", text)
        self.assertIn("host memory at most 14.10 bare, 10.00 slipstream, 10.00 hand_tuned GiB", self.outcome(checks, "nested.gain"))
        self.assertIn("geometric mean of 3 workloads", self.outcome(checks, "geometric_mean"))
        self.assertIn("FAILED at least 1.05", self.outcome(checks, "geometric_mean"))
        # Each process was started once, for all of these checks.
        self.assertEqual(12, len(self.started))

    def test_the_time_of_a_step_is_accounted_for(self):
        checks = dict(workloads.measurements(self.suite([{"item": paces(10, 8, 9), "on_device": paces(10, 10, 10)}])))
        data = {}
        text = checks["workloads.item.accounts"](data)
        self.assertIn("slipstream: 8.00 ms = kernels 4.00 + copies alone 0.00 + idle 4.00", text)
        self.assertIn("the host moving data 0.80", text)
        self.assertEqual(9, round(data["milliseconds_a_step"]["hand_tuned"]["step"], 6))
        self.assertNotIn("workloads.on_device.accounts", checks)

    def test_traces_that_are_not_there(self):
        checks = dict(workloads.measurements(self.suite([{"item": paces(10, 8, 9)}])))
        kept = workloads.accounts.of_file
        self.addCleanup(setattr, workloads.accounts, "of_file", kept)

        def missing(*_):
            raise KeyError("traceEvents")

        workloads.accounts.of_file = missing
        self.assertIn("FAILED bare: KeyError: 'traceEvents'; slipstream: ", self.outcome(checks, "item.accounts"))
        self.assertIn("5 pairs", self.outcome(checks, "item.not_slower"))

    def test_the_mean_is_reached(self):
        waves = [{"item": paces(10, 10, 11)}, {"lm": paces(10, 10, 10.2), "on_device": paces(10, 10, 5)}]
        checks = dict(workloads.measurements(self.suite(waves)))
        self.assertIn("1.0592, geometric mean of 2", self.outcome(checks, "geometric_mean"))

    def test_only_what_is_named_is_measured(self):
        waves = [{"item": paces(1, 1, 1), "nested": paces(2, 1, 1)}, {"lm": paces(1, 1, 1)}]
        suite = self.suite(waves, only="workloads.nested")
        checks = workloads.measurements(suite)
        wanted = [name for name, _ in checks if suite.wanted(name)]
        self.assertEqual([f"workloads.nested.{what}" for what in ("not_slower", "hand_tuned", "gain", "accounts")], wanted)
        self.assertIn("5 pairs", self.outcome(dict(checks), "nested.gain"))
        self.assertEqual({"nested"}, {name for name, _, _ in self.started})

    def test_what_stands_in_front_and_what_is_set(self):
        example = paces(1, 1, 1)
        example.prefix, example.policy = ("taskset", "-c", "0,1"), workloads.NO_D2H
        checks = dict(workloads.measurements(self.suite([{"checkpoint_no_d2h": example}])))
        self.outcome(checks, "checkpoint_no_d2h.not_slower")
        self.assertEqual(
            [
                ("checkpoint_no_d2h", ("taskset", "-c", "0,1"), None),
                ("checkpoint_no_d2h", ("taskset", "-c", "0,1", "under", "--quiet"), "off"),
                ("checkpoint_no_d2h", ("taskset", "-c", "0,1"), None),
            ],
            self.started,
        )

    def test_one_that_cannot_be_measured_fails_all_its_checks_once(self):
        waves = [{"item": paces("nonsense", 1, 1), "nested": paces(2, 1, 1)}]
        checks = dict(workloads.measurements(self.suite(waves)))
        for name in ("item.not_slower", "item.hand_tuned", "geometric_mean"):
            self.assertRegex(self.outcome(checks, name), "^FAILED workloads.item.bare ended")
        self.assertIn("5 pairs", self.outcome(checks, "nested.gain"))
        self.assertEqual(6, len(self.started))

    def test_what_breaks_off_leaves_no_process_and_is_not_tried_again(self):
        suite = self.suite([{"item": paces(1, 1, 1)}])
        checks = dict(workloads.measurements(suite))
        kept = speed.steps_of_block
        self.addCleanup(setattr, speed, "steps_of_block", kept)

        def interrupted(*_):
            raise KeyboardInterrupt

        speed.steps_of_block = interrupted
        with self.assertRaises(KeyboardInterrupt):
            checks["workloads.item.not_slower"]({})
        self.assertEqual("FAILED its measurement broke off", self.outcome(checks, "item.hand_tuned"))
        self.assertEqual(3, len(self.started))

    def test_when_the_time_is_over_what_was_measured_counts_and_no_traces_are_made(self):
        suite = self.suite([{"item": paces(2, 1, 1)}])
        checks = dict(workloads.measurements(suite))
        kept = speed.Turns.measure
        self.addCleanup(setattr, speed.Turns, "measure", kept)

        def measured(turns, name, rounds, deadline):
            kept(turns, name, rounds, deadline)
            self.addCleanup(setattr, speed.time, "monotonic", speed.time.monotonic)
            speed.time.monotonic = lambda: deadline

        speed.Turns.measure = measured
        self.assertIn("slipstream/bare 2.0000", self.outcome(checks, "item.not_slower"))
        self.assertEqual("FAILED its traces broke off", self.outcome(checks, "item.accounts"))

    def test_without_taskset_nothing_is_claimed(self):
        kept = workloads.shutil.which
        self.addCleanup(setattr, workloads.shutil, "which", kept)
        suite = self.suite([{"two_cores_vision": paces(1, 1)}, {"item": paces(1, 1, 1)}])
        checks = dict(workloads.measurements(suite))
        workloads.shutil.which = lambda _: None
        with self.assertRaises(Skipped):
            checks["workloads.two_cores_vision.not_slower"]({})
        self.outcome(checks, "item.not_slower")
        self.assertEqual({"item"}, {name for name, _, _ in self.started})


class Acted(unittest.TestCase):
    def test_a_checkpoint_that_was_not_fetched(self):
        def seen(**counts):
            names = {
                "promoted": "transfer.h2d.promoted.small",
                "skipped": "transfer.sync.skipped",
                "fetched": "transfer.d2h.promoted",
            }
            return {"totals": {"decisions": {names[key]: {"count": count} for key, count in counts.items()}}}

        self.assertIn("3 copies fetched", workloads.expect_fetched(seen(promoted=2, skipped=2, fetched=3)))
        for counts in ({"promoted": 2, "skipped": 2}, {"fetched": 3}):
            with self.assertRaises(Failed):
                workloads.expect_fetched(seen(**counts))

    def test_it_runs_only_where_it_is_named(self):
        self.assertIn(workloads.GROUP, harness.ON_REQUEST)


if __name__ == "__main__":
    unittest.main()
