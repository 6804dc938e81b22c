"""python_native_stacks.py SLIPSTREAM LIBRARIES: both stacks of a call, for a program in Python.

The program calls the simulated CUDA through ctypes, from under C code of Python's own (a constructor inside sorted()).
"""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

SLIPSTREAM, LIBRARIES = sys.argv[1:3]

TRAIN = """\
import ctypes
import threading
runtime = ctypes.CDLL("libcudart.so.13", ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(None)

def peek():
    assert cuda.cudaPeekAtLastError() == 0

class Thing:
    def __init__(self):
        peek()

def work():
    return sorted([1], key=lambda _: Thing() and 1)

work()
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
FRAMES = """
WITH RECURSIVE frames(level, stackId) AS (
  SELECT 0, ? UNION ALL
  SELECT level + 1, parentId FROM frames JOIN SLIPSTREAM_STACKS USING (stackId) WHERE parentId IS NOT NULL)
SELECT {what} FROM frames JOIN SLIPSTREAM_STACKS s USING (stackId) {more} ORDER BY level
"""


class NativeStacks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "train.py").write_text(TRAIN)

    def run_well(self, *words, **variables):
        done = subprocess.run(words, env={**os.environ, **variables}, cwd=self.root, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def export(self):
        self.run_well(
            SLIPSTREAM, "run", "--quiet", "--record", "--", sys.executable, "-B", "train.py",
            LD_LIBRARY_PATH=LIBRARIES, SIMCUDA_SEED="0", SLIPSTREAM_TRACER_STACKS="full",
        )
        run, = self.root.glob("slipstream-trace-*")
        self.run_well(SLIPSTREAM, "export", str(run), "--sqlite", "trace.sqlite")
        self.run_well(SLIPSTREAM, "export", "trace.sqlite", "--chrome", "trace.json")
        database = sqlite3.connect(self.root / "trace.sqlite")
        self.addCleanup(database.close)
        return database

    def test_a_call_has_both_stacks(self):
        database = self.export()
        calls = database.execute("SELECT stackId, nativeStackId FROM SLIPSTREAM_CALLS ORDER BY correlationId").fetchall()
        self.assertEqual(len(calls), 2)
        expected = ["peek", "Thing.__init__", "work.<locals>.<lambda>", "work"]
        if sys.version_info < (3, 11):  # no qualified names
            expected = [name.split(".")[-1] for name in expected]
        for number, (python, native) in enumerate(calls):
            with self.subTest(number):
                lines = database.execute(FRAMES.format(what="function, addressId", more="JOIN SLIPSTREAM_SITES USING (siteId)"), [python]).fetchall()
                self.assertEqual([line[0] for line in lines][:4], expected)
                self.assertEqual({line[1] for line in lines}, {None})
                frames = database.execute(
                    FRAMES.format(
                        what="name, coalesce(path, ''), isInterpreter, siteId, isCut",
                        more="JOIN SLIPSTREAM_ADDRESSES USING (addressId) LEFT JOIN SLIPSTREAM_MODULES USING (moduleId)",
                    ),
                    [native],
                ).fetchall()
                self.assertEqual({frame[3:] for frame in frames}, {(None, 0)})
                names = [frame[0] for frame in frames]
                # From outside in: the interpreter runs work(), by way of sorted() __init__(), and there peek() calls.
                self.assertGreaterEqual(names.count("_PyEval_EvalFrameDefault"), 2, names)
                inner = names.index("_PyEval_EvalFrameDefault")
                self.assertTrue(frames[inner][2])
                self.assertTrue(any("_ctypes" in frame[1] for frame in frames[:inner]), frames)
                self.assertEqual([frame for frame in frames if "libslipstream" in frame[1]], [])
                self.assertEqual("_start" in names, number == 0, names)

    def test_exports_show_one_stack(self):
        self.export()
        events = json.loads((self.root / "trace.json").read_text())["traceEvents"]
        stacks = [event["args"]["Call stack"].split(";") for event in events if event["name"] == "cudaPeekAtLastError"]
        self.assertEqual(len(stacks), 2)
        for stack in stacks:
            python = [frame for frame in stack if ".py(" in frame]
            self.assertEqual(stack[: len(python)], python)
            self.assertRegex(python[-1], r"train\.py\(7\): peek$")
            native = stack[len(python) :]
            self.assertRegex(native[0], "^_ctypes")
            self.assertEqual([frame for frame in native if "PyEval" in frame], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
