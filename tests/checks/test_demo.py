"""tools/demo runs both, labels simulated figures, and fails when a loss differs or a program fails."""

import os
import re
import subprocess
import unittest

from support import ROOT, CheckTest

TRAIN_LOOP = """echo "train_loop on $SIMCUDA_MODE, a small training loop"
echo "step 1 loss 0.5"
echo "step 2 loss ${LOSS:-0.25}"
echo "throughput 100 samples/s"
"""
# What `slipstream run -- COMMAND` looks like from outside.
SLIPSTREAM = '[ "$1 $2" = "run -- " ] || [ "$1" = run ] || exit 64; shift 2; "$@" || exit $?; echo "cudaMalloc 12 calls" >&2\n'


class Demo(CheckTest):
    def setUp(self):
        super().setUp()
        self.program("build/slipstream", SLIPSTREAM)
        self.program("build/examples/train_loop", TRAIN_LOOP)

    def program(self, name, script):
        self.write(name, "#!/bin/sh\n" + script).chmod(0o755)

    def run_demo(self, *arguments, **variables):
        return subprocess.run([ROOT / "tools" / "demo", "--build", self.scratch / "build", *arguments], capture_output=True,
                              text=True, env={**os.environ, **variables})

    def test_simulated(self):
        done = self.run_demo("--simulated")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("train_loop on timed", done.stdout)
        self.assertIn("[simulated device] cudaMalloc 12 calls", done.stdout)
        self.assertIn("All 2 losses are identical, digit by digit. [simulated device]", done.stdout)
        # The lines of the programs and of the summary, without titles and commands.
        figures = [line for line in done.stdout.splitlines() if re.search(r"\d", line) and not re.match(r"== |\$ |Your own", line)]
        self.assertGreaterEqual(len(figures), 8)
        for line in figures:
            self.assertIn("simulated device", line)

    def test_a_loss_that_differs(self):
        self.program("build/slipstream", "export LOSS=0.26; " + SLIPSTREAM)
        done = self.run_demo("--simulated")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the losses differ", done.stderr)
        self.assertNotIn("identical", done.stdout)

    def test_weights_that_differ(self):
        self.program("build/examples/train_loop", TRAIN_LOOP + 'echo "weights ${WEIGHTS:-ab12}"\n')
        self.assertEqual(self.run_demo("--simulated").returncode, 0)
        self.program("build/slipstream", "export WEIGHTS=ab13; " + SLIPSTREAM)
        self.assertEqual(self.run_demo("--simulated").returncode, 1)

    def test_a_long_output_is_shortened_and_compared_whole(self):
        steps = 'for i in $(seq 30); do echo "step $i loss $i${EXTRA:-}"; [ $i = 15 ] && unset EXTRA; done; true\n'
        self.program("build/examples/train_loop", steps)
        done = self.run_demo("--simulated")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("All 30 losses are identical", done.stdout)
        self.assertNotIn("step 15 ", done.stdout)
        self.program("build/slipstream", "export EXTRA=.5; " + SLIPSTREAM)
        self.assertEqual(self.run_demo("--simulated").returncode, 1)

    def test_a_loss_that_is_missing(self):
        self.program("build/slipstream", SLIPSTREAM.replace('"$@"', '"$@" | head -n 2'))
        self.assertEqual(self.run_demo("--simulated").returncode, 1)
        self.program("build/examples/train_loop", "echo done\n")
        done = self.run_demo("--simulated")
        self.assertEqual(done.returncode, 1)
        self.assertIn("printed no loss", done.stderr)

    def test_a_program_that_fails(self):
        self.program("build/examples/train_loop", TRAIN_LOOP + "echo broken >&2; exit 3\n")
        done = self.run_demo("--simulated")
        self.assertEqual(done.returncode, 1)
        self.assertIn("broken", done.stdout)
        self.assertIn("ended with status 3", done.stderr)

    def test_a_gpu_with_pytorch(self):
        self.program("bin/python3", 'case "$1" in -) echo "PyTorch 9.9 on a GPU";; *) echo "$(basename "$1"): 1000 samples/s, loss 0.5";; esac\n')
        done = self.run_demo(PATH=f"{self.scratch}/bin:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("slipstream demo: PyTorch 9.9 on a GPU\n", done.stdout)
        self.assertEqual(done.stdout.count("train_resnet_demo.py: 1000 samples/s, loss 0.5\n"), 2)
        self.assertIn("\ncudaMalloc 12 calls\n", done.stdout)
        self.assertNotIn("simulated", done.stdout)

    def test_a_gpu_that_pytorch_does_not_see(self):
        self.program("bin/python3", 'echo "PyTorch sees no GPU"; exit 3\n')
        done = self.run_demo(PATH=f"{self.scratch}/bin:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("on a simulated device (PyTorch sees no GPU)", done.stdout)

    def test_a_folder_that_is_not_built(self):
        (self.scratch / "build" / "slipstream").unlink()
        done = self.run_demo("--simulated")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no built folder", done.stderr)


if __name__ == "__main__":
    unittest.main()
