"""Where the clock of steps is put, what it notes, and what becomes of its times."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support  # noqa: F401  pylint: disable=unused-import  (finds the suite)
import step_clock
from suite import advice, harness, unrecorded
from suite.harness import Failed

PROGRAM = """import pathlib, sys, types
args = types.SimpleNamespace(steps=int(sys.argv[1]))
def main():
    for _ in range(3):
        pass
    for step in range(args.steps):
        for inner in range(2):
            if step == 15:
                continue
    print(sys.argv, __name__, pathlib.Path(__file__).name, sys._getframe().f_lineno)
    return step
if __name__ == "__main__":
    main()
"""


class StepClockTest(unittest.TestCase):
    def run_program(self, text, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            program, out = pathlib.Path(folder, "program.py"), pathlib.Path(folder, "times.json")
            program.write_text(text, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-B", step_clock.__file__, out, program, *arguments], capture_output=True, text=True, check=False
            )
            return done, json.loads(out.read_text()) if out.exists() else None

    def test_each_pass_behind_the_warm_up_and_the_end_are_noted(self):
        done, times = self.run_program(PROGRAM, "30")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual(30 - step_clock.WARM_UP + 1, len(times))
        self.assertEqual(times, sorted(times))

    def test_the_program_is_as_it_was(self):
        done, _ = self.run_program(PROGRAM, "12")
        self.assertIn("program.py', '12'] __main__ program.py 10\n", done.stdout)

    def test_a_program_without_such_a_loop_is_refused(self):
        done, times = self.run_program("for _ in range(4): print(_)\n")
        self.assertEqual((2, None), (done.returncode, times))
        self.assertIn("no loop over args.steps", done.stderr)

    def test_every_faulty_script_has_its_training_loop(self):
        for script in advice.scripts():
            source = script.read_text(encoding="utf-8")
            self.assertIsNotNone(step_clock.clocked(source, str(script)), script)


class UnrecordedTest(unittest.TestCase):
    def test_steps_are_between_the_times(self):
        times = [0]
        for length in (3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1):
            times.append(times[-1] + length)
        self.assertEqual({"mean": 13 / 11, "median": 1}, unrecorded.steps_of(times))
        with self.assertRaises(Failed):
            unrecorded.steps_of(times[:10])

    def test_a_row_has_the_claim_of_the_fault_wherever_it_stands(self):
        script = advice.SCRIPTS / "sample_by_sample.py"
        advised = [{"rule": "launch-bound", "cost_per_step_ns": 9e6}, {"rule": "many-small-copies", "cost_per_step_ns": 6e6}]
        found = {"step_time_median_ns": 12e6, "recording_left_out_per_step_ns": 2.5e6, "advice": advised}
        row = unrecorded.row_of(script, found, {"mean": 10e6, "median": 9e6}, {"mean": 6e6, "median": 6e6})
        self.assertEqual(("sample_by_sample", "12.00", "9.00", "2.50", "6.00", "4.00", "1.50"), unrecorded.cells(row))
        row = unrecorded.row_of(script, found, {"mean": 5e6, "median": 5e6}, {"mean": 6e6, "median": 6e6})
        self.assertIsNone(row["ratio"])
        found["advice"] = advised[:1]
        self.assertIsNone(unrecorded.row_of(script, found, {"mean": 5e6, "median": 5e6}, {"mean": 4e6, "median": 4e6})["claimed_ns"])

    def test_a_recording_is_long_enough_for_two_parts(self):
        self.assertEqual(480, unrecorded.steps_to_record(25e6))
        self.assertEqual(unrecorded.MOST_STEPS, unrecorded.steps_to_record(1e6))
        self.assertEqual(unrecorded.LEAST_STEPS, unrecorded.steps_to_record(20e9))

    def test_it_runs_only_where_it_is_named(self):
        self.assertIn(unrecorded.GROUP, harness.ON_REQUEST)


if __name__ == "__main__":
    unittest.main()
