"""Scripts with a fault name it once, and what `slipstream advise` and `slipstream compare` say of them is judged."""

import json
import pathlib
import tempfile
import unittest
from unittest import mock

import support
from suite import advice, recorded
from suite.harness import Failed, Result

SCRIPT = pathlib.Path("script.py")


def findings(*rules, steps=30, step_ms=10.0):
    """Of (rule, cost in ms or None, line)."""
    return {
        "steps": steps,
        "step_time_median_ns": step_ms * 1e6,
        "advice": [
            {
                "rule": rule,
                "cost_per_step_ns": None if cost is None else cost * 1e6,
                "at_stake_per_step_ns": 4e6,
                "places": [{"file": "/somewhere/script.py", "line": line}],
            }
            for rule, cost, line in rules
        ],
    }


def comparison(first, second, low=None, high=None):
    """Of milliseconds, as `slipstream compare` has it: the difference is the second less the first."""
    ns = [None if each is None else each * 1e6 for each in (first, second, low, high)]
    difference = None if None in (first, second) else ns[1] - ns[0]
    return {"step_time": {"first_ns": ns[0], "second_ns": ns[1], "difference_ns": difference, "low_ns": ns[2], "high_ns": ns[3]}}


def row(claimed, measured, rule="loader-wait", low=None):
    """Of milliseconds, for a step that takes 10 with the fault."""
    found = findings((rule, claimed, 7))
    return advice.row_of(SCRIPT, ["loader-wait"], found, comparison(10, 10 - measured, low and -measured - 1, low and -low))


class Scripts(unittest.TestCase):
    def script(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "script.py")
        path.write_text(text, encoding="utf-8")
        return path

    def test_every_script_has_one_fault_or_is_one_without(self):
        names = {script.stem for script in advice.scripts()}
        self.assertEqual(names, set(advice.REHEARSED))
        for script in advice.scripts():
            rules, lines = advice.faults(script)
            self.assertEqual(not rules, script.stem in advice.WELL_TUNED, script)
            self.assertEqual(bool(lines), bool(rules))
        self.assertGreaterEqual(len(names - advice.WELL_TUNED), 14)

    def test_every_fault_has_a_repair(self):
        for script in advice.scripts():
            uses = "args.fixed" in script.read_text(encoding="utf-8")
            self.assertEqual(uses, script.stem not in advice.WELL_TUNED, script)

    def test_faults_are_read_from_comments(self):
        path = self.script("a = 1\nb = x.item()  # fault: item-synchronize\nc = y.item()  # fault: item-synchronize\n")
        self.assertEqual((["item-synchronize"], [2, 3]), advice.faults(path))
        self.assertEqual((["one", "the-other"], [1]), advice.faults(self.script("a  # fault: one|the-other\n")))
        self.assertEqual(([], []), advice.faults(self.script("a = 1\n")))
        with self.assertRaisesRegex(Failed, "more than one fault"):
            advice.faults(self.script("a  # fault: one\nb  # fault: two\n"))

    def test_settings_are_read_from_the_first_words(self):
        path = self.script('"""Trains.\n\nenvironment: A_B=off\n"""\n')
        self.assertEqual({"A_B": "off"}, recorded.settings(path))
        self.assertEqual({}, recorded.settings(self.script("x = 1  # environment: A=b\n")))


class Findings(unittest.TestCase):
    def test_the_fault_stands_first_and_has_its_line(self):
        good = findings(("loader-wait", 5, 7), ("host-bound", 1, 9))
        wrong = advice.first_is_wrong
        self.assertIsNone(wrong(good, ["loader-wait"], [7], SCRIPT))
        self.assertIsNone(wrong(good, ["another", "loader-wait"], [6, 7], SCRIPT))
        self.assertIn("does not stand first", wrong(good, ["host-bound"], [9], SCRIPT))
        self.assertIn("without a line", wrong(good, ["loader-wait"], [8], SCRIPT))
        self.assertIn("without a line", wrong(good, ["loader-wait"], [7], pathlib.Path("other.py")))
        self.assertIn("does not stand first", wrong(findings(), ["loader-wait"], [7], SCRIPT))
        self.assertIn("no steps", wrong(findings(steps=0), ["loader-wait"], [7], SCRIPT))

    def test_where_nothing_is_wrong_nothing_costly_is_said(self):
        self.assertIsNone(advice.well_tuned_is_wrong(findings(("unfused-pointwise", None, 1), ("stalls", 0.2, 1))))
        self.assertIn("stalls", advice.well_tuned_is_wrong(findings(("stalls", 0.4, 1))))
        self.assertIn("no steps", advice.well_tuned_is_wrong(findings(steps=0)))
        self.assertEqual(["a"], recorded.costly(findings(("a", 0.4, 1), ("b", 0.4, 1)), {"b"}))

    def test_findings_are_shown(self):
        text = recorded.shown(findings(("loader-wait", 5, 7), ("no-tensor-cores", None, 9)))
        self.assertEqual("30 steps of 10.00 ms: loader-wait 5.00 ms, no-tensor-cores (cost not known)", text)


class Gains(unittest.TestCase):
    def test_the_gain_is_the_first_less_the_second(self):
        self.assertEqual((4e6, 3.5e6, 5e6), advice.gain_of(comparison(10, 6, -5, -3.5)))
        self.assertEqual((4e6, None, None), advice.gain_of(comparison(10, 6)))
        self.assertEqual((None, None, None), advice.gain_of(comparison(None, None)))

    def test_the_gain_of_too_few_steps_is_known_without_an_interval(self):
        printed = json.dumps(comparison(10, 7)).encode()
        for status, known in ((0, True), (3, True), (1, False)):
            suite = mock.Mock(slipstream="slipstream")
            suite.command.return_value = Result(status, printed, b"", 1.0)
            found, problem = advice.compared(suite, SCRIPT, ["a", "b"], {})
            self.assertEqual((found is not None, problem is None), (known, known), status)
        suite.command.return_value = Result(3, printed, b"", 60.0, timed_out=True)
        self.assertIsNone(advice.compared(suite, SCRIPT, ["a", "b"], {})[0])

    def test_a_cost_is_right_within_the_ratios(self):
        for claimed, good in ((2.7, False), (2.9, True), (4.0, True), (5.1, True), (5.3, False), (None, False)):
            self.assertEqual(good, advice.right(row(claimed, 4)), claimed)
        self.assertFalse(advice.right(row(4, 4, "host-bound")))
        self.assertIsNone(row(4, 0)["ratio"])

    def test_what_is_wrong_is_said(self):
        faulty, fixed = findings(("loader-wait", 4, 7)), findings(("host-bound", 1, 9))
        problems = lambda of, found=faulty, repaired=fixed: advice.problems_of(of, ["loader-wait"], found, repaired)
        self.assertEqual([], problems(row(4, 4)))
        self.assertEqual([], problems(row(4, 4, low=3)))
        self.assertEqual([], problems(row(None, 4)))
        self.assertEqual(["the claimed cost is 2.00 of the gain"], problems(row(8, 4)))
        self.assertEqual(["the repair gains nothing"], problems(row(4, -1)))
        self.assertEqual(["the repair gains nothing"], problems(row(4, 4, low=-1)))
        unknown = advice.row_of(SCRIPT, ["loader-wait"], faulty, None)
        self.assertEqual(["what the repair gains is not known"], problems(unknown))
        self.assertEqual(["loader-wait is found in the repaired training too"], problems(row(4, 4), repaired=faulty))
        self.assertIn("no steps", problems(row(4, 4), repaired=findings(steps=0))[0])
        many = findings(("loader-wait", 6, 7), ("host-bound", 5, 9))
        self.assertEqual(["all costs are 11.00 ms, more than a step"], problems(row(4, 4), found=many))

    def test_what_little_a_repair_leaves_is_not_found_again(self):
        again = lambda before, after: advice.found_again(["loader-wait"], findings(("loader-wait", before, 7)), findings(("loader-wait", after, 7)))
        self.assertEqual([], again(4, 1.3))  # a third is left
        self.assertEqual(["loader-wait"], again(4, 1.4))
        self.assertEqual([], again(0.5, 0.29))  # less than 3 % of a step of 10 ms
        self.assertEqual(["loader-wait"], again(0.5, 0.31))
        self.assertEqual(["loader-wait"], again(None, None), "4 ms of a step each time")
        self.assertEqual(["loader-wait"], again(4, None))
        self.assertEqual([], advice.found_again(["loader-wait"], findings(("loader-wait", 4, 7)), findings(("host-bound", 4, 7))))

    def test_rows_are_a_table(self):
        rows = [row(4, 4, low=3), row(None, 2), row(1, 2, "host-bound")]
        self.assertEqual(
            [
                "script  rule                     step ms  claimed ms  measured ms          ratio",
                "script  loader-wait              10.00    4.00        4.00 (3.00 to 5.00)  1.00",
                "script  loader-wait              10.00    -           2.00                 -",
                "script  loader-wait (not first)  10.00    -           2.00                 -",
            ],
            advice.table(rows).splitlines(),
        )

    def test_the_table_wants_enough_costs(self):
        with support.TemporarySuite() as suite:
            rows = [row(4, 4) for _ in range(advice.LEAST_RIGHT)]
            data = {}
            self.assertTrue(advice.table_check(suite, rows)(data).startswith("8 of 8 faults stand first, 8 cost"))
            self.assertEqual(rows, data["rows"])
            self.assertEqual(f"{advice.table(rows)}\n", (suite.out / "advice.txt").read_text(encoding="utf-8"))
            with self.assertRaisesRegex(Failed, "8 of 8 faults stand first, 7 cost"):
                advice.table_check(suite, [*rows[1:], row(None, 4)])({})


class Traces(unittest.TestCase):
    def test_a_trace_is_kept_if_it_is_one(self):
        with support.TemporarySuite() as suite:
            folder = suite.scratch("run")
            with self.assertRaisesRegex(Failed, "0 folders"):
                recorded.run_in(folder)
            run = folder / "slipstream-trace-1"
            run.mkdir()
            self.assertEqual(str(run), recorded.run_in(folder))
            (run / "a.spool").write_bytes(b"abc")
            recorded.keep(suite, run, "advice-a")
            self.assertTrue((suite.out / "advice-a.spool.gz").exists())
            (run / "b.spool").write_bytes(b"abc")
            recorded.keep(suite, run, "advice-a")
            self.assertFalse((suite.out / "advice-a.spool.gz").exists())


if __name__ == "__main__":
    unittest.main()
