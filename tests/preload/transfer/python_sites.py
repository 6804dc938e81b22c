"""python_sites.py SLIPSTREAM LIBRARIES: rules with a site, and what transfer.verify says, for a program in Python.

The program calls the simulated CUDA through ctypes, which looks names up where the preloaded library stands first.
Rule R3 (docs/policy.md): such a rule means the copies of one line, or of one file, and no others.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SLIPSTREAM, LIBRARIES = sys.argv[1:3]
COPIES = 5

PROGRAM = """\
import ctypes
import helper
from cuda import up, simulated

def one():
    up(1 << 20)

def two():
    helper.send(1 << 12)

for number in range({copies}):
    one()
    two()
    up(1 << 11)
    eval("up(1 << 10)")
"""
ONE, MIDDLE, TOP = 6, 4, 14  # lines: of one(), of helper.send, of the copy at the top
HELPER = """\
from cuda import up

def send(size):
    up(size)
"""
# Stands where PyTorch would: in a folder of that name among the installed packages, so that its lines are nobody's.
CUDA = """\
import ctypes
runtime = ctypes.CDLL("libcudart.so.13", ctypes.RTLD_GLOBAL)
simulated = ctypes.CDLL("libcuda.so.1")
cuda = ctypes.CDLL(None)
stream = ctypes.c_void_p()
memory = ctypes.c_void_p()
assert cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
assert cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0
source = ctypes.create_string_buffer(1 << 20)
number = ctypes.c_int.from_buffer(source)

def up(size):
    number.value += 1  # no copy brings what the one before it brought
    assert cuda.cudaMemcpyAsync(memory, source, ctypes.c_size_t(size), 1, stream) == 0
    assert cuda.cudaStreamSynchronize(stream) == 0
"""


class Sites(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        root = pathlib.Path(self.folder.name).resolve()
        self.root = root
        (root / "job").mkdir()
        (root / "site-packages" / "torch").mkdir(parents=True)
        (root / "site-packages" / "torch" / "cuda.py").write_text(CUDA)
        (root / "job" / "train.py").write_text(PROGRAM.format(copies=COPIES))
        (root / "job" / "helper.py").write_text(HELPER)

    def run_program(self, policy, source="", **variables):
        """decisions of the transfer engine, and what was said on standard error"""
        (self.root / "policy.toml").write_text("version = 1\n" + policy)
        if source:
            (self.root / "job" / "train.py").write_text(source)
        summary = self.root / "summary.json"
        env = {
            **os.environ,
            "LD_LIBRARY_PATH": LIBRARIES,
            "PYTHONPATH": f"{self.root}/site-packages/torch",
            "SLIPSTREAM_TRANSFER_START": "now",
            "SLIPSTREAM_ALLOCATOR_MODE": "off",
            "SIMCUDA_SEED": "0",
            **variables,
        }
        argv = [SLIPSTREAM, "run", "--quiet", "--policy", str(self.root / "policy.toml"), "--summary", str(summary)]
        done = subprocess.run(
            [*argv, "--", sys.executable, "-B", str(self.root / "job" / "train.py")],
            env=env, capture_output=True, text=True, timeout=120, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        decided = json.loads(summary.read_text())["processes"][0]["decisions"]
        return {name.removeprefix("transfer."): found["count"] for name, found in decided.items()}, done.stderr

    def test_no_rule(self):
        decided, said = self.run_program("")
        self.assertEqual(decided.get("h2d.promoted.large"), COPIES)
        self.assertEqual(decided.get("h2d.promoted.small"), 3 * COPIES)
        self.assertNotIn("h2d.declined.rule", decided)
        self.assertEqual(said, "")

    def test_one_line(self):
        decided, _ = self.run_program(f'[[transfer.rule]]\nsite = "job/train.py:{ONE}"\npromote = false\n')
        self.assertEqual(decided.get("h2d.declined.rule"), COPIES)
        self.assertEqual(decided.get("h2d.promoted.small"), 3 * COPIES)
        self.assertNotIn("h2d.promoted.large", decided)

    def test_the_innermost_line_of_the_program_is_meant(self):
        decided, _ = self.run_program(f'[[transfer.rule]]\nsite = "helper.py:{MIDDLE}"\nskip_synchronize = false\n')
        self.assertEqual(decided.get("sync.kept.rule"), COPIES)
        self.assertEqual(decided.get("sync.skipped"), 3 * COPIES)

    def test_a_file(self):
        decided, _ = self.run_program('[[transfer.rule]]\nsite = "train.py"\npromote = false\n')
        # What eval runs has no file of the program's, and its caller is passed over by nobody.
        self.assertEqual(decided.get("h2d.declined.rule"), 2 * COPIES, decided)
        self.assertEqual(decided.get("h2d.promoted.small"), 2 * COPIES, decided)

    def test_no_such_place(self):
        for site in ("rain.py", f"train.py:{TOP + 1000}", "cuda.py", "elsewhere/train.py"):
            decided, _ = self.run_program(f'[[transfer.rule]]\nsite = "{site}"\npromote = false\n')
            self.assertNotIn("h2d.declined.rule", decided, site)

    def test_rules_in_their_order(self):
        decided, _ = self.run_program(
            f'[[transfer.rule]]\nsite = "train.py:{TOP}"\npromote = true\n'
            '[[transfer.rule]]\nsite = "train.py"\npromote = false\n'
        )
        self.assertEqual(decided.get("h2d.declined.rule"), COPIES)
        self.assertEqual(decided.get("h2d.promoted.small"), 3 * COPIES)

    def test_verify_names_the_line(self):
        # The third copy is lost on the bus.
        source = PROGRAM.format(copies=COPIES).replace(
            "    one()\n", "    if number == 2:\n        simulated.simFailCall(b'cuMemcpyHtoDAsync_v2', -1, 1, 0)\n    one()\n"
        )
        decided, said = self.run_program("[transfer]\nverify = true\n", source)
        self.assertEqual(decided.get("verified.wrong"), 1, decided)
        self.assertIn(f"made at {self.root}/job/train.py:{ONE} (one), did not arrive", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
