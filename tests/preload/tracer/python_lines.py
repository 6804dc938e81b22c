"""python_lines.py SLIPSTREAM LIBRARIES SPOOL_LINES ENGINE: the line of the program behind every call, for a program in Python.

The program calls the simulated CUDA through ctypes, which lets go of the GIL: its threads are in their calls at once.
Each copy is as long as the number of its line (and so many times 10,000 as its file says), so that a record shows by
itself whether its line is right.
"""

import collections
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest

SLIPSTREAM, LIBRARIES, SPOOL_LINES, ENGINE = sys.argv[1:5]
THREADS, ROUNDS = 4, 60
FILES = {"train.py": 0, "helper.py": 10_000}

# `here` is in a file of PyTorch's, as far as anybody can tell, and so is `up`: neither is a line of the program.
TRAIN = """\
import sys
import threading
import helper
from cuda import up, here, peek

def one():
    up(here())
    up(here(), again=False); up(here())

class Trainer:
    def step(self, number):
        if number % 2:
            helper.send()
        else:
            up(here())
        return [up(here()) for _ in range(2)]

def work(number):
    trainer = Trainer()
    for round in range({rounds}):
        one()
        trainer.step(round + number)
        (lambda: up(here()))()

peek()  # the first call of the process, alone: while it sets slipstream up, those of other threads are not recorded
threads = [threading.Thread(target=work, args=(number,)) for number in range({threads})]
for thread in threads:
    thread.start()
up(here())
for thread in threads:
    thread.join()
up(here())
"""
HELPER = """\
import sys
from cuda import up, here

def send():
    for _ in range(3):
        up(here(10_000))
"""
CUDA = """\
import ctypes
import sys
runtime = ctypes.CDLL("libcudart.so.13", ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(None)
local = __import__("threading").local()

def here(more=0):
    return sys._getframe(1).f_lineno + more

def up(size, again=True):
    if not hasattr(local, "stream"):
        local.stream, local.memory = ctypes.c_void_p(), ctypes.c_void_p()
        assert cuda.cudaStreamCreateWithFlags(ctypes.byref(local.stream), 1) == 0
        assert cuda.cudaMalloc(ctypes.byref(local.memory), ctypes.c_size_t(1 << 20)) == 0
        local.source = ctypes.create_string_buffer(1 << 20)
    assert cuda.cudaMemcpyAsync(local.memory, local.source, ctypes.c_size_t(size), 1, local.stream) == 0
    if again:
        assert cuda.cudaStreamSynchronize(local.stream) == 0

def deep(size, frames):
    up(size) if frames == 0 else deep(size, frames - 1)

def peek():
    assert cuda.cudaPeekAtLastError() == 0
"""
STACKS = '''
import json
import os
from cuda import cuda
local = __import__("threading").local()
everybody = []

def peek_here():
    if not hasattr(local, "seen"):
        local.seen = []
        everybody.append(local.seen)
    frame, stack = sys._getframe(), []
    while frame:
        stack.append([frame.f_lineno, frame.f_code.co_filename])
        frame = frame.f_back
    stack[0][0] = sys._getframe().f_lineno + 1
    cuda.cudaPeekAtLastError()
    local.seen.append(stack)

def generator(k):
    yield k()

class Thing:
    def __init__(self, k):
        (
            k())
    def method(self, k, depth=9):
        return k() if depth == 0 else self.method(k, depth - 1)

made = {}
exec(compile("def made(k):\\n  return k()\\n", "/tmp/torchinductor_x/ab/cab.py", "exec"), made)
ways = [
    lambda k: k(),
    lambda k: [k() for _ in range(2)],
    lambda k: list(generator(k)),
    lambda k: sorted([1], key=lambda _: k() or 1),
    Thing,
    lambda k: Thing(lambda: None).method(k),
    made["made"],
    lambda k: exec("for _ in range(2):\\n  k()", {"k": k}),
    lambda k: (k(), k(
    )),
    lambda k: [exec(compile("k()", "gen%d.py" % i, "exec"), {"k": k}) for i in range(5)],
    lambda k: [eval("lambda k: k()")(k) for i in range(3)],
]

def save():
    with open(os.environ["HERE"], "w") as out:
        json.dump(everybody, out)
'''
# As PyTorch's package of this name: backward() makes a call itself, unless the gradient is given, and waits for the engine.
AUTOGRAD = f"""\
import ctypes
from cuda import peek
library = ctypes.CDLL("{ENGINE}")
library.EngineStart.restype = ctypes.c_void_p
library.EngineCopy.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
FUNCTION = ctypes.CFUNCTYPE(None)
library.EngineCall.argtypes = ctypes.c_void_p, FUNCTION

def start(name):
    return library.EngineStart(name.encode())

def backward(engine, size, gradient=None, wait=None, function=None):
    if gradient is None:
        peek()
    if wait:
        wait()
    assert library.EngineCopy(engine, size, 3) == 0
    if function:
        library.EngineCall(engine, FUNCTION(function))
"""
Call = collections.namedtuple("Call", "thread function bytes status decision line file flags stack")
BACKWARD = 1  # of flags
OWN_WORK = 2  # whether devices are recorded decides it, and no line


class Lines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "job").mkdir()
        (self.root / "site-packages" / "torch").mkdir(parents=True)
        (self.root / "site-packages" / "torch" / "cuda.py").write_text(CUDA)
        (self.root / "job" / "helper.py").write_text(HELPER)
        (self.root / "site-packages" / "torch" / "autograd").mkdir()
        (self.root / "site-packages" / "torch" / "autograd" / "__init__.py").write_text(AUTOGRAD)

    def record(self, source, **variables):
        """the calls of the program's trace, which is whole"""
        (self.root / "job" / "train.py").write_text(source)
        env = {
            **os.environ,
            "LD_LIBRARY_PATH": LIBRARIES,
            "PYTHONPATH": f"{self.root}/site-packages/torch",
            "SIMCUDA_SEED": "0",
            **variables,
        }
        for old in self.root.glob("slipstream-trace-*/*"):
            old.unlink()
        done = subprocess.run(
            [SLIPSTREAM, "run", "--quiet", "--record", "--", sys.executable, "-B", str(self.root / "job" / "train.py")],
            env=env, cwd=self.root, capture_output=True, text=True, timeout=120, check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        spools = list(self.root.glob("slipstream-trace-*/*.spool"))
        self.assertEqual(len(spools), 1)
        lines = subprocess.run([SPOOL_LINES, *spools], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(lines.returncode, 0, lines.stderr)
        calls = [Call(*line.split("\t")) for line in lines.stdout.splitlines()]
        return [
            c._replace(bytes=int(c.bytes), line=int(c.line), file=pathlib.Path(c.file).name, flags=int(c.flags) & ~OWN_WORK) for c in calls
        ]

    def backward(self, source):
        """(bytes, line, flags) of the copies of each of the program's threads but the first, by their sizes"""
        source = (
            "import os, threading, time\n"
            "from autograd import backward, start\n"
            "from cuda import up, here, peek\n"
            "peek()\n"
            'engine = start("pt_autograd_0")\n' + source
        )
        found = [self.backward_with(source, stacks) for stacks in ("line", "python", "full")]
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        return found[0]

    def backward_with(self, source, stacks):
        calls = self.record(source, SLIPSTREAM_TRACER_STACKS=stacks)
        main = calls[0].thread
        copies = [c for c in calls if c.function == "cudaMemcpyAsync"]
        self.assertEqual([c for c in copies if c.thread == main and (c.line != c.bytes or c.flags)], [])
        # What it does beside copies is put down to the same lines.
        for engine in {c.thread for c in copies} - {main}:
            whole = [(c.line, c.flags) for c in calls if c.thread == engine]
            self.assertEqual(set(whole), {(c.line, c.flags) for c in copies if c.thread == engine})
        return [(c.bytes, c.line, c.flags) for c in copies if c.thread != main]

    def test_every_copy_has_the_line_that_made_it(self):
        for settings in ({}, {"SLIPSTREAM_TRACER_STACKS": "python"}, {"SLIPSTREAM_TRACER_STACKS": "full"}, {"SLIPSTREAM_TRANSFER_H2D": "off"}, {"SLIPSTREAM_TRANSFER_START": "now"}):
            with self.subTest(settings):
                calls = self.record(TRAIN.format(threads=THREADS, rounds=ROUNDS), **settings)
                copies = [c for c in calls if c.function == "cudaMemcpyAsync"]
                # one() 3, step() 2 and 3 or 1, the lambda 1; and two at the top.
                self.assertEqual(len(copies), THREADS * ROUNDS * (3 + 2 + 2 + 1) + 2)
                wrong = [c for c in copies if c.bytes != FILES.get(c.file, 0) + c.line]
                self.assertEqual(wrong[:5], [])
                self.assertEqual({c.file for c in copies}, set(FILES))
                self.assertEqual(len({c.thread for c in copies}), THREADS + 1)
                # What happens before Python's own code calls is put down to nobody: there is none here.
                self.assertEqual([c for c in calls if c.line == 0], [])
                # A synchronization has the line of the copy before it.
                before = {}
                for call in calls:
                    if call.function == "cudaStreamSynchronize":
                        self.assertEqual((call.line, call.file), before[call.thread])
                    before[call.thread] = call.line, call.file

    def test_an_editable_pytorch_is_passed_over_and_a_folder_of_its_name_is_not(self):
        torch = self.root / "src" / "torch"
        torch.mkdir(parents=True)
        (torch / "cuda.py").write_text(CUDA)
        source = "from cuda import up, here\nup(here())\n"
        for is_pytorch in (False, True):
            if is_pytorch:
                for name in ("_tensor.py", "nn/modules/module.py", "autograd/function.py"):
                    (torch / name).parent.mkdir(parents=True, exist_ok=True)
                    (torch / name).touch()
            for stacks in ("line", "python"):
                calls = self.record(source, PYTHONPATH=str(torch), SLIPSTREAM_TRACER_STACKS=stacks)
                (copy,) = [c for c in calls if c.function == "cudaMemcpyAsync"]
                self.assertEqual(copy.bytes, 2)
                if is_pytorch:
                    self.assertEqual((copy.file, copy.line), ("train.py", 2))
                else:
                    self.assertEqual(copy.file, "cuda.py")

    def test_a_line_far_behind_frames_of_pytorchs(self):
        # Behind more than 128 of them nobody looks (docs/trace.md).
        depths = (0, 3, *range(5, 11), 20, 60, 120, 125, 126, 127, 160)
        source = "from cuda import deep, here\n" + "".join(f"deep(here(), {depth})\n" for depth in depths)
        for stacks in ("line", "python", "full"):
            with self.subTest(stacks):
                calls = self.record(source, SLIPSTREAM_TRACER_STACKS=stacks)
                copies = [c for c in calls if c.function == "cudaMemcpyAsync"]
                found = [c.line for c in copies]
                # The chain of `deep` has a frame more, and `up` is one.
                expected = [line if depth + 2 < 128 else 0 for line, depth in enumerate(depths, 2)]
                self.assertEqual(found, expected)
                self.assertEqual([c.bytes for c in copies], list(range(2, 2 + len(depths))))
                frames = [c.stack.split("|") for c in copies]
                # The program's own line makes it one more; what is deeper ends with what says that there is more.
                expected = [min(depth + 3, 129) for depth in depths] if stacks != "line" else [1] * len(depths)
                self.assertEqual([len(stack) for stack in frames], expected)
                cut = [stack[-1] == "..." for stack in frames]
                self.assertEqual(cut, [depth + 3 > 128 and stacks != "line" for depth in depths])

    def test_every_call_has_the_whole_stack_that_python_itself_has(self):
        # `peek_here` makes a call and writes down what Python says that the stack is.
        (self.root / "job" / "helper.py").write_text(HELPER + STACKS)
        calls = self.record(
            "import threading\n"
            "from cuda import peek\n"
            "from helper import peek_here, ways, save\n"
            "peek()\n"
            "def work():\n"
            "    for _ in range(20):\n"
            "        for way in ways:\n"
            "            way(peek_here)\n"
            "threads = [threading.Thread(target=work) for _ in range(3)]\n"
            "for thread in threads: thread.start()\n"
            "for thread in threads: thread.join()\n"
            "work()\n"
            "save()\n",
            HERE=str(self.root / "stacks.json"),
            SLIPSTREAM_TRACER_STACKS="python",
        )
        expected = json.loads((self.root / "stacks.json").read_text())
        found = collections.defaultdict(list)
        for call in calls[1:]:
            self.assertEqual(call.function, "cudaPeekAtLastError")
            found[call.thread].append([[int(n), f] for n, _, f in (frame.partition(":") for frame in call.stack.split("|"))])
        self.assertEqual(len(found), 4)
        self.assertGreater(len({json.dumps(stack) for stacks in found.values() for stack in stacks}), 10)
        self.assertEqual(sorted(found.values()), sorted(expected))
        # And the line of each is what it is without the stack: the innermost that is not PyTorch's or Python's own.
        for call in calls[1:]:
            inner = [frame for frame in call.stack.split("|") if "site-packages/torch" not in frame and "lib/python" not in frame]
            self.assertEqual(f"{call.line}:{call.file}", inner[0].partition(":")[0] + ":" + pathlib.Path(inner[0]).name)

    def test_stacks_line(self):
        calls = self.record(TRAIN.format(threads=1, rounds=1))  # the default
        copies = [c for c in calls if c.function == "cudaMemcpyAsync"]
        self.assertEqual([c for c in copies if c.bytes != FILES.get(c.file, 0) + c.line], [])
        self.assertEqual({c.stack for c in calls}, {"-"})

    def test_an_autograd_thread_has_the_line_of_backward(self):
        found = self.backward(
            "for step in range(4):\n"
            "    up(here())\n"
            "    backward(engine, here())\n"
            "    backward(engine, here())\n"
            "    up(here())\n"
        )
        self.assertEqual(found, [(line, line, BACKWARD) for _ in range(4) for line in (8, 9) for _ in range(3)])

    def test_a_backward_that_nothing_tells_of_has_no_line(self):
        found = self.backward(
            "up(here())\n"
            "backward(engine, here(), gradient=1)\n"  # and no call of its own
            "backward(engine, here())\n"
            "up(here())\n"
            "backward(engine, here(), gradient=1)\n"
        )
        lines = {7: 0, 8: 8, 10: 0}
        self.assertEqual(found, [(line, known, BACKWARD) for line, known in lines.items() for _ in range(3)])

    def test_two_threads_inside_backward_at_two_lines_have_none(self):
        found = self.backward(
            "inside, go = threading.Event(), threading.Event()\n"
            "def wait():\n"
            "    inside.set()\n"
            "    go.wait()\n"
            "def other():\n"
            '    backward(start("pt_autograd_1"), here(), wait=wait)\n'
            "thread = threading.Thread(target=other)\n"
            "thread.start()\n"
            "inside.wait()\n"
            "backward(engine, here())\n"
            "up(here())\n"  # out of it again
            "go.set()\n"
            # join() is back before the system's thread has ended, and with it what is known of it.
            'while os.path.exists(f"/proc/self/task/{thread.native_id}"): time.sleep(0.001)\n'
            "backward(engine, here())\n"
        )
        lines = {15: 0, 11: 11, 19: 19}
        self.assertEqual(found, [(line, known, BACKWARD) for line, known in lines.items() for _ in range(3)])

    def test_what_an_autograd_thread_does_in_the_programs_own_code_has_its_own_line(self):
        (self.root / "site-packages" / "torch" / "hooks.py").write_text(
            "from cuda import up\ndef of_torch():\n    up(9, again=False)\n"
        )
        found = self.backward(
            "import hooks\n"
            "def own():\n"
            "    up(here(), again=False)\n"
            "backward(engine, here(), function=hooks.of_torch)\n"
            "backward(engine, here(), function=own)\n"
        )
        self.assertEqual(found, [(9, 9, BACKWARD)] * 4 + [(10, 10, BACKWARD)] * 3 + [(8, 8, 0)])

    def test_a_thread_of_another_name_has_no_line(self):
        found = self.backward('backward(start("pt_nccl_watchdg"), here())\nup(here())\n')
        self.assertEqual(found, [(6, 0, 0)] * 3)

    def test_stacks_none(self):
        calls = self.record(TRAIN.format(threads=1, rounds=1), SLIPSTREAM_TRACER_STACKS="none")
        self.assertGreater(len(calls), 10)
        self.assertEqual({(c.line, c.file, c.stack) for c in calls}, {(0, "-", "-")})

    def test_a_window_of_steps_of_a_program_that_names_none(self):
        source = (
            "from cuda import up, cuda, local, ctypes\n"
            "def work():\n"
            "    assert cuda.cudaMemsetAsync(local.memory, 0, ctypes.c_size_t(16), local.stream) == 0\n"
            "for weight in range(20): up(5000)\n"
            "for step in range(10):\n"
            "    up(8000 + step)\n"
            "    up(9000 + step)\n"
            "    work()\n"
        )
        for window, steps in (("steps 4-5", [4, 5]), ("steps 0-3", [3]), ("steps 3,7-", [3, 7, 8, 9])):
            calls = self.record(source, SLIPSTREAM_TRACER_WINDOW=window)
            copies = [c.bytes for c in calls if c.function == "cudaMemcpyAsync"]
            # Step 2 is known as such behind its first upload.
            late = [9002] if window == "steps 0-3" else []
            self.assertEqual(copies, late + [size + step for step in steps for size in (8000, 9000)], window)
            self.assertEqual(sum(c.function == "cudaMemsetAsync" for c in calls), len(steps) + len(late), window)

    def test_the_trace_and_doctor_say_which_python_the_lines_are_of(self):
        python = f"CPython {platform.python_version()}"
        for stacks, says in (("line", f"read: {python}"), ("none", 'none: no stack is read (tracer.stacks = "none")')):
            self.record(TRAIN.format(threads=1, rounds=1), SLIPSTREAM_TRACER_STACKS=stacks)
            (spool,) = self.root.glob("slipstream-trace-*/*.spool")
            self.assertIn(says.encode(), spool.read_bytes())
        env = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES, "PYTHONPATH": f"{self.root}/site-packages/torch"}
        command = [SLIPSTREAM, "doctor", "--", sys.executable, "-B", str(self.root / "job" / "train.py")]
        done = subprocess.run(command, env=env, cwd=self.root, capture_output=True, text=True, timeout=120, check=False)
        self.assertIn(f"\n  Python lines   read, from {python}\n", done.stdout)

    def test_a_line_of_a_generator_a_comprehension_and_a_thread_without_python(self):
        # The first call of the process comes from a thread that Python did not make: lines are found all the same.
        source = (
            "from cuda import up, here, cuda, ctypes\n"
            "pthread = ctypes.CDLL(None)\n"
            "thread = ctypes.c_ulong()\n"
            "body = ctypes.cast(cuda.cudaPeekAtLastError, ctypes.c_void_p)\n"
            "assert pthread.pthread_create(ctypes.byref(thread), None, body, None) == 0\n"
            "assert pthread.pthread_join(thread, None) == 0\n"
            "def generate():\n"
            "    while True:\n"
            "        up(here())\n"
            "        yield\n"
            "generator = generate()\n"
            "[next(generator) for _ in range(3)]\n"
            "up(here())\n"
        )
        calls = self.record(source)
        self.assertEqual([c.line for c in calls if c.function == "cudaPeekAtLastError"], [0])
        copies = [c for c in calls if c.function == "cudaMemcpyAsync"]
        self.assertEqual([(c.bytes, c.line) for c in copies], [(9, 9), (9, 9), (9, 9), (13, 13)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
