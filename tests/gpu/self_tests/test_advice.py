"""Scripts with a fault name it once, and what `slipstream advise` says of them is judged."""

import pathlib
import tempfile
import unittest

import support  # noqa: F401  pylint: disable=unused-import  (finds the suite)
from suite import advice
from suite.harness import Failed


def findings(*rules, steps=30, step_ms=10.0):
    """Of (rule, cost in ms or None, line)."""
    return {
        "steps": steps,
        "step_time_median_ns": step_ms * 1e6,
        "advice": [
            {
                "rule": rule,
                "cost_per_step_ns": None if cost is None else cost * 1e6,
                "places": [{"file": "/somewhere/script.py", "line": line}],
            }
            for rule, cost, line in rules
        ],
    }


class AdviceTest(unittest.TestCase):
    def script(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "script.py")
        path.write_text(text, encoding="utf-8")
        return path

    def test_every_script_has_one_fault_or_is_the_one_without(self):
        names = {script.stem for script in advice.scripts()}
        self.assertEqual(names, set(advice.REHEARSED))
        for script in advice.scripts():
            rule, lines = advice.faults(script)
            self.assertEqual(rule is None, script.stem == advice.WELL_TUNED, script)
            self.assertEqual(bool(lines), rule is not None)
        self.assertGreaterEqual(len(names), 7)

    def test_faults_are_read_from_comments(self):
        path = self.script("a = 1\nb = x.item()  # fault: item-synchronize\nc = y.item()  # fault: item-synchronize\n")
        self.assertEqual(("item-synchronize", [2, 3]), advice.faults(path))
        with self.assertRaisesRegex(Failed, "more than one fault"):
            advice.faults(self.script("a  # fault: one\nb  # fault: two\n"))

    def test_the_fault_stands_first_and_has_its_line(self):
        script = pathlib.Path("script.py")
        good = findings(("loader-wait", 5, 7), ("host-bound", 1, 9))
        self.assertIsNone(advice.wrong(good, "loader-wait", [7], script))
        self.assertIn("does not stand first", advice.wrong(good, "host-bound", [9], script))
        self.assertIn("without a line", advice.wrong(good, "loader-wait", [8], script))
        self.assertIn("does not stand first", advice.wrong(findings(), "loader-wait", [7], script))
        self.assertIn("no steps", advice.wrong(findings(steps=0), "loader-wait", [7], script))

    def test_where_nothing_is_wrong_nothing_costly_is_said(self):
        script = pathlib.Path("script.py")
        self.assertIsNone(advice.wrong(findings(("unfused-pointwise", None, 1), ("stalls", 0.2, 1)), None, [], script))
        self.assertIn("stalls", advice.wrong(findings(("stalls", 0.4, 1)), None, [], script))

    def test_findings_are_shown(self):
        text = advice.shown(findings(("loader-wait", 5, 7), ("no-tensor-cores", None, 9)))
        self.assertEqual("30 steps of 10.00 ms: loader-wait 5.00 ms, no-tensor-cores (cost not known)", text)


if __name__ == "__main__":
    unittest.main()
