"""The comparison tool: its arithmetic and its command."""

import contextlib
import io
import json
import pathlib
import random
import sys
import tempfile
import unittest

import support  # noqa: F401
import pairs


class Bootstrap(unittest.TestCase):
    def test_constant_values_have_no_width(self):
        self.assertEqual((2.0, 2.0), pairs.bootstrap_interval([[2.0] * 9]))

    def test_covers_the_true_median_about_as_often_as_it_says(self):
        draw = random.Random(7)
        hits = 0
        for _ in range(60):
            low, high = pairs.bootstrap_interval([[draw.gauss(1.0, 0.01) for _ in range(25)]], resamples=400)
            hits += low <= 1.0 <= high
        self.assertGreaterEqual(hits, 51)  # 57 expected of 60; fewer than 51 would be a wrong interval, not chance

    def test_does_not_cover_a_median_that_is_elsewhere(self):
        draw = random.Random(7)
        low, high = pairs.bootstrap_interval([[draw.gauss(1.02, 0.01) for _ in range(25)]])
        self.assertGreater(low, 1.0)
        self.assertLess(high - low, 0.02)

    def test_groups_that_disagree_widen_it(self):
        draw = random.Random(7)
        first = [draw.gauss(0.99, 0.001) for _ in range(10)]
        second = [draw.gauss(1.01, 0.001) for _ in range(10)]
        low, high = pairs.bootstrap_interval([first, second])
        self.assertLess(low, 0.995)
        self.assertGreater(high, 1.005)

    def test_the_same_values_give_the_same_interval(self):
        values = [[1.0, 1.1, 1.2, 1.3], [1.2, 1.4]]
        self.assertEqual(pairs.bootstrap_interval(values), pairs.bootstrap_interval(values))

    def test_nothing_is_an_error(self):
        with self.assertRaises(ValueError):
            pairs.bootstrap_interval([[], []])


class Summary(unittest.TestCase):
    def test_medians_and_ratio_of_b_to_a(self):
        summary = pairs.summarize([[(1.0, 2.0), (2.0, 3.0)], [(4.0, 4.0)]])
        self.assertEqual((3, 2), (summary["pairs"], summary["groups"]))
        self.assertEqual((2.0, 3.0), (summary["a_median"], summary["b_median"]))
        self.assertEqual(1.5, summary["ratio_median"])
        self.assertEqual(1.0, summary["difference_median"])

    def test_every_other_pair_runs_b_first(self):
        order = []
        measured = pairs.run_alternating(3, lambda: order.append("a") or 1, lambda: order.append("b") or 2)
        self.assertEqual("abbaab", "".join(order))
        self.assertEqual([(1, 2)] * 3, measured)


class Lookup(unittest.TestCase):
    def test_paths(self):
        value = {"a": {"b": [1, 5, 3]}, "c": [{"d": 7}]}
        self.assertEqual(3, pairs.lookup(value, "a.b"))
        self.assertEqual(7, pairs.lookup(value, "c.0.d"))
        for path in ("a.x", "c.1.d", "a", "c.d"):
            with self.assertRaises(pairs.MeasurementError, msg=path):
                pairs.lookup(value, path)

    def test_the_last_json_line_counts(self):
        self.assertEqual({"x": 2}, pairs.json_of('{"x": 1}\nnoise\n{"x": 2}\nmore noise\n'))
        with self.assertRaises(pairs.MeasurementError):
            pairs.json_of("noise\n")


class Command(unittest.TestCase):
    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = pairs.main(list(arguments))
        return status, out.getvalue(), err.getvalue()

    def test_measures_and_keeps_every_pair(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "results.json"
            one = f"{sys.executable} -c 'print(chr(123) + chr(34) + chr(120) + chr(34) + chr(58) + str(2) + chr(125))'"
            writes = f"{sys.executable} -c \"import json,sys; json.dump(dict(x=3), open(sys.argv[1], 'w'))\" {{out}}"
            status, out, err = self.run_main(
                "--pairs", "3", "--warm-up", "0", "--a", one, "--b", writes, "--metric", "json:x", "--out", str(path)
            )
            self.assertEqual((0, ""), (status, err))
            self.assertIn("1.50000", out)
            record = json.loads(path.read_text())
            self.assertEqual([[2, 3]] * 3, record["values"])
            self.assertEqual(1.5, record["summary"]["ratio_median"])

    def test_a_command_that_fails_is_an_error(self):
        status, _, err = self.run_main("--pairs", "1", "--a", "true", "--b", "false")
        self.assertEqual(1, status)
        self.assertIn("exit status 1", err)

    def test_no_metric_is_an_error(self):
        status, _, err = self.run_main("--pairs", "1", "--a", "true", "--b", "true", "--metric", "json:x")
        self.assertEqual(1, status)
        self.assertIn("no JSON", err)


if __name__ == "__main__":
    unittest.main()
