"""What the tests of a site share: programs on the simulated device under `slipstream run`, in a place of their own."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
SLIPSTREAM = BUILD / "slipstream"
LIMIT_S = 100  # not to wait for: what needs it has failed

# Does its calls as often as the byte that it reads says, then says that they are done. Ends where there is no more.
WORKER = """\
import ctypes, os
ctypes.CDLL("libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(None)
memory = ctypes.c_void_p()
batch = (ctypes.c_char * (1 << 20))()
while times := os.read(0, 1):
    for _ in range(times[0]):
        cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(1 << 21))
        cuda.cudaMemcpy(memory, batch, ctypes.c_size_t(1 << 20), 1)
        cuda.cudaMemcpy(batch, memory, ctypes.c_size_t(1 << 20), 2)
        cuda.cudaFree(memory)
    os.write(1, b"x")
"""


class SiteTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name).resolve()
        self.runs = self.place / "runs"
        self.runs.mkdir()
        (self.place / "worker.py").write_text(WORKER)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "XDG_", "CUDA_"))}
        self.env = kept | {"LD_LIBRARY_PATH": str(BUILD / "sim"), "SIMCUDA_DEVICES": "1", "HOME": str(self.place), "TMPDIR": str(self.place),
                           "SLIPSTREAM_SYSTEM_DIRECTORY": "", "COLUMNS": "80"}

    def slipstream(self, *words, status=0, **more):
        done = subprocess.run([SLIPSTREAM, *words], cwd=self.place, env=self.env | more, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=LIMIT_S)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def run_under(self, *words, options=(), status=0, **more):
        """The words under `slipstream run`, which leaves its summary in self.runs."""
        return self.slipstream("run", *options, "--", *words, status=status, **({"SLIPSTREAM_RUN_SUMMARIES": str(self.runs)} | more))

    def start_worker(self, *options, **more):
        worker = subprocess.Popen([SLIPSTREAM, "run", *options, "--", sys.executable, "worker.py"], cwd=self.place,
                                  env=self.env | {"SLIPSTREAM_RUN_SUMMARIES": str(self.runs)} | more, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end_worker, worker)
        return worker

    def work(self, worker, times):
        """Comes back when the calls are done."""
        os.write(worker.stdin.fileno(), bytes([times]))
        self.assertEqual(os.read(worker.stdout.fileno(), 1), b"x")

    def end_worker(self, worker):
        """With exit status 0, its summary is there then. Again: nothing."""
        worker.stdin.close()
        worker.stdout.close()
        return worker.wait(LIMIT_S)
