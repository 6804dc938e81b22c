"""python_ends.py SLIPSTREAM LIBRARIES: programs in Python that end in every way, while their threads copy.

Each runs bare and recorded, on the simulated CUDA through ctypes, which lets go of the GIL. Output and exit status must be the same, and so must
what Python says on standard error; the trace can be read.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

SLIPSTREAM, LIBRARIES = sys.argv[1:3]

BEGIN = """\
import atexit, ctypes, os, signal, sys, threading
runtime = ctypes.CDLL("libcudart.so.13", ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(None)
BYTES = 200_000
started = threading.Semaphore(0)

class Copier:
    def __init__(self):
        self.stream, self.memory = ctypes.c_void_p(), ctypes.c_void_p()
        assert cuda.cudaStreamCreateWithFlags(ctypes.byref(self.stream), 1) == 0
        assert cuda.cudaMalloc(ctypes.byref(self.memory), ctypes.c_size_t(BYTES)) == 0
        self.host = ctypes.create_string_buffer(b"x" * BYTES, BYTES)

    def copy(self):
        for source, target, kind in ((self.host, self.memory, 1), (self.memory, self.host, 2)):
            assert cuda.cudaMemcpyAsync(target, source, ctypes.c_size_t(BYTES), kind, self.stream) == 0
            assert cuda.cudaStreamSynchronize(self.stream) == 0
        assert self.host.raw == b"x" * BYTES

def work():
    copier = Copier()
    for _ in range(5):
        copier.copy()
    started.release()
    while True:
        copier.copy()

def start(count=3):
    for _ in range(count):
        threading.Thread(target=work, daemon=True).start()
    for _ in range(count):
        started.acquire()

start()
print("copying", flush=True)
"""
WAYS = {
    "the_end_of_the_program": "",
    "sys_exit": "sys.exit(7)",
    "sys_exit_with_a_text": "sys.exit('a reason')",
    "an_exception": "raise ValueError('nobody catches this')",
    "an_exception_in_a_thread": """
def fails():
    Copier().copy()
    raise KeyError("in a thread")
thread = threading.Thread(target=fails)
thread.start(); thread.join()
print("goes on")
sys.exit(3)
""",
    "system_exit_in_a_thread": """
def leaves():
    Copier().copy()
    sys.exit(9)
thread = threading.Thread(target=leaves)
thread.start(); thread.join()
print("goes on")
""",
    "an_exit_handler_that_copies": "copier = Copier()\natexit.register(lambda: (copier.copy(), print('copied at exit')))",
    "an_exit_handler_that_fails": "atexit.register(lambda: Copier().no_such_thing)",
    "a_destructor_that_frees": """
class Holder:
    def __init__(self):
        self.copier = Copier()
    def __del__(self, free=cuda.cudaFree):
        print("freed", free(self.copier.memory))
holder = Holder()
""",
    "os_exit": "os._exit(11)",
    "os_abort": "os.abort()",
    "keyboard_interrupt": "os.kill(os.getpid(), signal.SIGINT)\nwhile True: pass",
    "keyboard_interrupt_that_is_caught": """
try:
    os.kill(os.getpid(), signal.SIGINT)
    while True: pass
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(4)
""",
    "sigterm": "os.kill(os.getpid(), signal.SIGTERM)\nwhile True: pass",
    "sigterm_with_a_handler": """
def leave(number, frame):
    print("asked to leave")
    sys.exit(12)
signal.signal(signal.SIGTERM, leave)
os.kill(os.getpid(), signal.SIGTERM)
while True: pass
""",
    "a_wakeup_descriptor": """
read, write = os.pipe()
os.set_blocking(write, False)
signal.set_wakeup_fd(write)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001)
print("woken by", os.read(read, 1)[0])
""",
    "a_fork_that_exits": """
child = os.fork()
if child == 0:
    sys.exit(5)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
}

# They stop every thread where it is, the one that writes the trace too: its last chunk may be cut, and the report says so.
AT_ONCE = {"os_exit", "os_abort", "sigterm"}
PARTIAL = 3


class Ends(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="slipstream-ends-")
        self.addCleanup(temporary.cleanup)
        self.place = pathlib.Path(temporary.name)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "LD_PRELOAD"))}
        self.variables = kept | {"LD_LIBRARY_PATH": LIBRARIES, "SIMCUDA_SEED": "0"}

    def run_program(self, before, name, variables):
        done = subprocess.run([*before, sys.executable, "-B", str(self.place / f"{name}.py")], cwd=self.place, env=self.variables | variables,
                              capture_output=True, text=True, timeout=120, check=False)
        return done.returncode if done.returncode >= 0 else 128 - done.returncode, done.stdout, done.stderr

    def compare(self, name, variables):
        (self.place / f"{name}.py").write_text(BEGIN + WAYS[name])
        bare = self.run_program([], name, {})
        self.assertTrue(bare[1].startswith("copying\n"), bare)
        status, out, err = self.run_program([SLIPSTREAM, "run", "--record", "--quiet", "--"], name, variables)
        self.assertEqual((status, out), bare[:2], err)
        said = re.findall(r"^slipstream: .*\n", err, re.MULTILINE)
        without = "".join(line for line in err.splitlines(keepends=True) if line not in said)
        names = re.compile(r"0x[0-9a-f]+|Thread-\d+")
        self.assertEqual(names.sub("", without), names.sub("", bare[2]))
        runs = list(self.place.glob("slipstream-trace-*"))
        self.assertEqual(len(runs), 1)
        report = subprocess.run([SLIPSTREAM, "report", str(runs[0]), "--json"], env=self.variables, capture_output=True, text=True, check=False)
        said = json.loads(report.stdout)
        self.assertIn(report.returncode, (0, PARTIAL) if name in AT_ONCE else (0,), report.stderr)
        self.assertEqual(report.returncode == PARTIAL, said["partial"], said)
        for path in runs[0].iterdir():
            path.unlink()
        runs[0].rmdir()


def add_tests():
    for name in WAYS:
        for what, variables in (("lines", {}), ("full_stacks", {"SLIPSTREAM_TRACER_STACKS": "full", "SLIPSTREAM_TRANSFER_START": "now"})):
            setattr(Ends, f"test_{name}_with_{what}", lambda self, name=name, variables=variables: self.compare(name, variables))


add_tests()
if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
