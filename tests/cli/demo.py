#!/usr/bin/env python3
"""`slipstream demo`: it runs both, labels simulated figures, fails where a loss differs or a program fails, and leads to a report.

    demo.py BUILD
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2] / "build" / "release"
# A program that knows whether it is under slipstream.
TRAIN_LOOP = """echo "train_loop $*, a small training loop"
under() { case "$LD_PRELOAD" in *libslipstream*) true ;; *) false ;; esac; }
echo "step 1 loss 0.5"
if under; then echo "step 2 loss ${LOSS:-0.25}"; else echo "step 2 loss 0.25"; fi
echo "throughput 100 samples/s"
"""


class DemoTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name).resolve()

    def run_words(self, *words, **variables):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "XDG_"))}
        environment = {**kept, "HOME": str(self.place), **variables}
        return subprocess.run(words, cwd=self.place, env=environment, capture_output=True, text=True, timeout=200, check=False)


class WithStandIns(DemoTest):
    def setUp(self):
        super().setUp()
        self.command = self.place / "bin" / "slipstream"
        self.command.parent.mkdir()
        shutil.copy(BUILD / "slipstream", self.command)
        (self.place / "bin" / "libslipstream.so").symlink_to(BUILD / "libslipstream.so")
        self.loop = "libexec/slipstream-demo/train_loop"
        self.program(self.loop, TRAIN_LOOP)

    def program(self, name, script):
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def demo(self, *options, **variables):
        return self.run_words(self.command, "demo", *options, **variables)

    def test_simulated(self):
        done = self.demo("--simulated")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("on a simulated device (--simulated was given)", done.stdout)
        self.assertIn("[simulated] train_loop --timed, a small", done.stdout)
        self.assertIn("All 2 simulated losses are identical, digit by digit.", done.stdout)
        programs = done.stdout.partition("== 1.")[2].partition("\nAll ")[0]
        # The lines of the programs and of the summary, without titles and commands.
        figures = [line for line in programs.splitlines()[1:] if re.search(r"\d", line) and not line.startswith(("== ", "$ "))]
        self.assertGreaterEqual(len(figures), 6)
        for line in figures:
            self.assertIn("simulated", line)

    def test_a_loss_that_differs(self):
        done = self.demo("--simulated", LOSS="0.26")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the losses differ", done.stderr)
        self.assertNotIn("identical", done.stdout)

    def test_weights_that_differ(self):
        self.program(self.loop, TRAIN_LOOP + 'if under; then echo "weights ${WEIGHTS:-ab12}"; else echo "weights ab12"; fi\n')
        self.assertEqual(self.demo("--simulated").returncode, 0)
        self.assertEqual(self.demo("--simulated", WEIGHTS="ab13").returncode, 1)

    def test_a_long_output_is_shortened_and_compared_whole(self):
        steps = TRAIN_LOOP + 'for i in $(seq 30); do if under && [ $i = 15 ]; then echo "step $i loss $i$EXTRA"; else echo "step $i loss $i"; fi; done\n'
        self.program(self.loop, steps)
        done = self.demo("--simulated")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("All 32 simulated losses are identical", done.stdout)
        self.assertNotIn("step 15 ", done.stdout)
        self.assertEqual(self.demo("--simulated", EXTRA=".5").returncode, 1)

    def test_a_loss_that_is_missing(self):
        self.program(self.loop, TRAIN_LOOP + 'under || echo "loss 7"\n')
        self.assertEqual(self.demo("--simulated").returncode, 1)
        self.program(self.loop, "echo done\n")
        done = self.demo("--simulated")
        self.assertEqual(done.returncode, 1)
        self.assertIn("printed no loss", done.stderr)

    def test_a_program_that_fails(self):
        self.program(self.loop, TRAIN_LOOP + "echo broken >&2; exit 3\n")
        done = self.demo("--simulated")
        self.assertEqual(done.returncode, 1)
        self.assertIn("broken", done.stdout)
        self.assertIn("exit status 3", done.stderr)

    def test_a_gpu_with_pytorch(self):
        self.program("stand-ins/python3", 'case "$1" in -c) echo "PyTorch 9.9 on a GPU";; *) echo "$(basename "$1"): 1000 samples/s, loss 0.5";; esac\n')
        script = self.place / "share" / "slipstream" / "demo" / "train_resnet_demo.py"
        script.parent.mkdir(parents=True)
        script.touch()
        done = self.demo(PATH=f"{self.place}/stand-ins:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("slipstream demo: PyTorch 9.9 on a GPU\n", done.stdout)
        self.assertEqual(done.stdout.count("train_resnet_demo.py: 1000 samples/s, loss 0.5\n"), 2)
        self.assertIn("run --record -- python3 ", done.stdout)
        self.assertNotIn("simulated", done.stdout)

    def test_a_gpu_that_pytorch_does_not_see(self):
        self.program("stand-ins/python3", 'echo "PyTorch sees no GPU"; exit 3\n')
        done = self.demo(PATH=f"{self.place}/stand-ins:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("on a simulated device (PyTorch sees no GPU)", done.stdout)

    def test_without_a_device_it_prints_the_line_that_brings_one(self):
        shutil.rmtree(self.place / "libexec")
        done = self.demo("--simulated")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("This line brings one:\n  python3 -m venv demo && demo/bin/pip install 'slipstream[demo]'", done.stderr)
        self.program("bin/python3", "exit 9\n")  # an environment's own
        self.assertIn(f"\n  {self.place}/bin/python3 -m pip install 'slipstream[demo]'\n", self.demo("--simulated").stderr)


class OnTheSimulatedDevice(DemoTest):
    def test_its_last_lines_lead_to_a_report(self):
        path = f"{BUILD}:{os.environ['PATH']}"
        done = self.run_words("sh", "-c", "slipstream demo --simulated", PATH=path)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stdout.splitlines():
            if not line.startswith(("$ ", "  ")):
                self.assertLessEqual(len(line), 80, line)
        self.assertRegex(done.stdout, r"\[simulated\]   cudaLaunchKernel +160 ")
        record, report, advise = re.findall(r"^  (slipstream .*)$", done.stdout.partition("\nNext: ")[2], re.MULTILINE)[:3]
        self.assertEqual(self.run_words("sh", "-c", record, PATH=path).returncode, 0)
        said = self.run_words("sh", "-c", report, PATH=path)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("A STEP of ", said.stdout)
        self.assertEqual(self.run_words("sh", "-c", advise, PATH=path).returncode, 0)

    def test_another_runtime_does_not_stand_in_the_way(self):
        (self.place / "libcudart.so.13").symlink_to(BUILD / "libslipstream.so")
        path = f"{BUILD}:{os.environ['PATH']}"
        done = self.run_words("slipstream", "demo", "--simulated", PATH=path, LD_LIBRARY_PATH=str(self.place))
        self.assertEqual(done.returncode, 0, done.stderr)
        record = re.search(r"^  (LD_LIBRARY_PATH=\S+ slipstream run .*)$", done.stdout, re.MULTILINE)[1]
        self.assertEqual(self.run_words("sh", "-c", record, PATH=path, LD_LIBRARY_PATH=str(self.place)).returncode, 0)

    def test_elsewhere_it_names_itself_by_its_path(self):
        done = self.run_words(BUILD / "slipstream", "demo", "--simulated", PATH="/usr/bin:/bin")
        self.assertIn(f"\n  {BUILD}/slipstream report\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
