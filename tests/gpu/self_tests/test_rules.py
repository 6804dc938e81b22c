"""The group rules: each script is about one rule, and what `slipstream advise` says of it is judged."""

import gzip
import json
import os
import pathlib
import sys
import tempfile
import unittest

import support
from suite import recorded, rules
from suite.harness import Failed, Skipped



def findings(*found, steps=30):
    """Of (rule, file, lines)."""
    advised = [
        {"rule": rule, "cost_per_step_ns": None, "places": [{"file": file, "line": line} for line in lines]}
        for rule, file, lines in found
    ]
    untold = [{"rule": "one-thing", "why": "there was no device"}]
    return {"steps": steps, "step_time_median_ns": 1e6, "advice": advised, "cannot_be_told": untold}


class Scripts(unittest.TestCase):
    def test_every_script_has_its_tiny_sizes(self):
        names = {script.stem for script in rules.scripts()}
        self.assertEqual(names, set(rules.REHEARSED))
        self.assertLess(rules.RANKS, rules.TWO_GPUS)
        self.assertLess(rules.TWO_GPUS, names)

    def test_rules_that_name_no_line_are_known(self):
        without = {script.stem for script in rules.scripts() if not rules.condition(script)[1]}
        self.assertEqual({"cpu_oversubscribed", "small_shared_memory", "too_many_workers"}, without)


class Judged(unittest.TestCase):
    def script(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "one_thing.py")
        path.write_text(text, encoding="utf-8")
        return path

    def test_lines_are_read_from_comments(self):
        path = self.script("a = 1\nb = 2  # shown: one-thing\nc = 3  # shown: one-thing\n")
        self.assertEqual(("one-thing", [2, 3]), rules.condition(path))
        self.assertEqual(("one-thing", []), rules.condition(self.script("a = 1\n")))
        self.assertEqual(("other-name", [1]), rules.condition(self.script("a  # shown: other-name\n")))
        with self.assertRaisesRegex(Failed, "one_thing.py shows another-thing and one-thing"):
            rules.condition(self.script("a  # shown: one-thing\nb  # shown: another-thing\n"))

    def test_the_rule_is_found_with_its_line_wherever_it_stands(self):
        path = self.script("\nb  # shown: one-thing\nc  # shown: one-thing\n")
        wanted = ("one-thing", "/somewhere/one_thing.py", [9, 3])
        said = lambda *found, **more: rules.judged(findings(*found, **more), path)
        self.assertEqual(({"rule": "one-thing", "line": 3}, None), said(wanted))
        self.assertEqual(({"rule": "one-thing", "line": 3}, None), said(("another", "x.py", []), wanted))
        self.assertIn("without a line", said(("one-thing", "one_thing.py", [9]))[1])
        self.assertIn("without a line", said(("one-thing", "other.py", [3]))[1])
        self.assertIn("without a line", said(("one-thing", None, []))[1])
        self.assertEqual("one-thing is not found: there was no device", said(("another", "one_thing.py", [3]))[1])
        self.assertEqual("no steps were found", said(wanted, steps=0)[1])

    def test_a_rule_without_lines_is_found_anywhere(self):
        path = self.script("a = 1\n")
        self.assertEqual(({"rule": "one-thing", "line": None}, None), rules.judged(findings(("one-thing", "x.py", [7])), path))
        self.assertIsNotNone(rules.judged(findings(("another", "x.py", [7])), path)[1])


# Leaves as many spools as it is told to, and says what it was run with.
STAND_IN = """#!{python}
import json, os, pathlib, sys
if sys.argv[1] == "advise":
    print({findings!r})
    sys.exit(0)
folder = pathlib.Path("slipstream-trace-1")
folder.mkdir()
for number in range({spools}):
    (folder / f"{{number}}.spool").write_bytes(b"spool %d" % number)
pathlib.Path("told.json").write_text(json.dumps([sys.argv, os.environ.get("A_B")]))
print("not on this machine", file=sys.stderr)
sys.exit({status})
"""


class Recorded(unittest.TestCase):
    def setUp(self):
        temporary = support.TemporarySuite()
        self.suite = temporary.__enter__()
        self.addCleanup(temporary.__exit__)
        self.script = self.suite.workdir / "one_thing.py"
        self.script.write_text('"""Trains.\n\nenvironment: A_B=off\n"""\nx  # shown: one-thing\n', encoding="utf-8")

    def stand_in(self, spools=1, status=0, found=()):
        words = {"python": sys.executable, "spools": spools, "status": status, "findings": json.dumps(findings(*found))}
        self.suite.slipstream = self.suite.workdir / "slipstream"
        self.suite.slipstream.write_text(STAND_IN.format(**words), encoding="utf-8")
        self.suite.slipstream.chmod(0o755)

    def kept(self):
        return {path.name: gzip.decompress(path.read_bytes()) for path in self.suite.out.glob("*.gz")}

    def test_a_trace_is_kept_and_asked(self):
        self.stand_in(found=[("one-thing", "one_thing.py", [5])])
        data = {}
        self.assertIn("one-thing", rules.check_of(self.suite, self.script)(data))
        self.assertEqual({"rule": "one-thing", "line": 5}, data["said"])
        self.assertEqual({"rules-one_thing.spool.gz": b"spool 0"}, self.kept())
        argv, variable = json.loads((self.suite.workdir / "rules" / "one_thing" / "told.json").read_text())
        self.assertEqual(["run", "--quiet", "--record", "--", sys.executable, str(self.script)], argv[1:])
        self.assertEqual("off", variable)

    def test_a_rule_that_says_nothing_fails(self):
        self.stand_in()
        with self.assertRaisesRegex(Failed, "one-thing is not found"):
            rules.check_of(self.suite, self.script)({})

    def test_a_machine_that_does_not_allow_it(self):
        self.stand_in(status=77)
        with self.assertRaisesRegex(Skipped, "^not on this machine$"):
            rules.check_of(self.suite, self.script)({})
        self.stand_in(status=1)
        os.rename(self.suite.workdir / "rules" / "one_thing", self.suite.workdir / "before")
        with self.assertRaisesRegex(Failed, "exit status 1"):
            rules.check_of(self.suite, self.script)({})

    def test_traces_of_two_ranks(self):
        (self.suite.out / "rules-one_thing.spool.gz").write_bytes(b"of an earlier run")
        self.stand_in(spools=2)
        run = recorded.record(self.suite, "rules.one_thing", self.script, launcher=rules.TORCHRUN)
        self.assertEqual("slipstream-trace-1", os.path.basename(run))
        self.assertEqual({"rules-one_thing.0.spool.gz": b"spool 0", "rules-one_thing.1.spool.gz": b"spool 1"}, self.kept())
        argv, _ = json.loads((self.suite.workdir / "rules" / "one_thing" / "told.json").read_text())
        self.assertEqual([*map(str, rules.TORCHRUN), str(self.script)], argv[-len(rules.TORCHRUN) - 1 :])

    def test_more_traces_are_not_kept_nor_are_long_ones(self):
        self.stand_in(spools=3)
        recorded.record(self.suite, "rules.one_thing", self.script)
        self.assertEqual({}, self.kept())
        self.addCleanup(setattr, recorded, "MOST_KEPT", recorded.MOST_KEPT)
        recorded.MOST_KEPT = 20
        self.stand_in(spools=2)
        recorded.record(self.suite, "rules.another", self.script)
        self.assertEqual({}, self.kept())

    def test_scripts_for_two_gpus_need_them(self):
        script = rules.SCRIPTS / "data_parallel.py"
        self.suite.results["machine"] = {"gpus": ["one"]}
        with self.assertRaisesRegex(Skipped, "two GPUs"):
            rules.check_of(self.suite, script)({})
        self.suite.results["machine"] = {"gpus": ["one", "another"]}
        self.stand_in(found=[("data-parallel", "data_parallel.py", rules.condition(script)[1])])
        self.assertIn("data-parallel", rules.check_of(self.suite, script)({}))


if __name__ == "__main__":
    unittest.main()
