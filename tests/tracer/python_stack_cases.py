"""Stacks of this Python as it sees them itself, compared with what tracer/python_stack reads. Run by python_stacks.py.

    python_stack_cases.py PROBE MODE

MODE: compare (all cases; the last line is how many stacks were compared), off REASON (there must be none), or exit (prints
what a walk says while Python ends and after it has). Keeps to what Python 3.8 understands.
"""

import asyncio
import contextlib
import ctypes
import functools
import gc
import multiprocessing
import os
import random
import signal
import sys
import threading

BUFFER = 1 << 19
ROOM = 400


def text(name):
    """As UTF-8 can say it, and as much as is kept."""
    clean = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in name)
    return clean.encode()[:4096].decode(errors="ignore")


class Mismatch(Exception):
    pass


class Probe:
    def __init__(self, path):
        self.path = path
        self.free = ctypes.CDLL(path)
        self.held = ctypes.PyDLL(path)
        for library in (self.free, self.held):
            for name in ("ProbeWalk", "ProbeWalkOnNewThread", "ProbeSites", "ProbeUnknown"):
                getattr(library, name).restype = ctypes.c_size_t
            for name in ("ProbeWalk", "ProbeWalkOnNewThread"):
                getattr(library, name).argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t)
        self.local = threading.local()
        self.compared = 0  # counted by the main thread, and by each of the others for itself
        self.turn = 0

    def buffer(self):
        if not hasattr(self.local, "buffer"):
            self.local.buffer = ctypes.create_string_buffer(BUFFER)
        return self.local.buffer

    def parse(self, buffer, size):
        if size == 0:
            raise Mismatch("the text was larger than the buffer")
        rows = [row.split("\x1f")[:-1] for row in ctypes.string_at(buffer, size).decode().split("\x1e")[:-1]]
        head, frames = rows[0], rows[1:]
        return head[0], head[1] == "1", int(head[2]), [(f, n, int(l), int(i), int(s)) for f, n, l, i, s in frames]

    def walk(self, library, room=ROOM):
        buffer = self.buffer()
        return self.parse(buffer, library.ProbeWalk(buffer, BUFFER, room))

    def check(self, room=ROOM):
        """Compares the caller's stack, this function included; returns the sites of the callers."""
        self.turn += 1
        library = self.free if self.turn % 4 else self.held
        buffer = self.buffer()
        size, line = library.ProbeWalk(buffer, BUFFER, room), sys._getframe().f_lineno
        status, cut, _, got = self.parse(buffer, size)
        expected = []
        frame = sys._getframe()
        while frame is not None:
            code = frame.f_code
            name = getattr(code, "co_qualname", code.co_name)
            expected.append((text(code.co_filename), text(name), line or 0, frame.f_lasti))
            frame = frame.f_back
            line = frame and frame.f_lineno
        if status != "ok" or cut != (len(expected) > room) or len(got) != min(room, len(expected)):
            raise Mismatch("%s, cut %s: %d frames of %d" % (status, cut, len(got), len(expected)))
        for i, (mine, theirs) in enumerate(zip(got, expected)):
            # The innermost, this function, has moved on.
            if mine[:3] != theirs[:3] or (i != 0 and mine[3] != theirs[3]) or mine[4] == 0:
                raise Mismatch("frame %d of %d: %r instead of %r" % (i, len(expected), mine, theirs))
        self.compared += 1
        return tuple(frame[4] for frame in got[1:])


# ---- ways to call: each calls k somewhere in it, with frames of its own in between


def via_call(k):
    return k()


def via_arguments(k, *args, **kw):
    return (lambda *a, **b: a[0]())(
        k,
        *args,
        **kw
    )


def via_list(k):
    return [k() for _ in (1,)][0]


def via_nested_comprehension(k):
    return {a: {id(b) for b in (k(), 2)} for a in [1]}


def via_generator(k):
    def inner():
        yield 1
        yield k()

    def outer():
        yield from inner()

    return list(outer())


def via_generator_expression(k):
    return sum(1 for _ in (1, 2) if k() or True)


def via_sorted(k):
    return sorted([1], key=lambda x: k() or x)


def via_map(k):
    return list(map(lambda _: k(), (1,)))


def decorate(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(
            *args)

    return wrapper


@decorate
@decorate
def via_decorator(k):
    return k()


def via_partial(k):
    return functools.partial(via_call, k)()


def via_cache(k):
    return functools.lru_cache()(lambda: k())()


class Strange:
    def __init__(self, k):
        self.k = k

    def __getattr__(self, name):
        return object.__getattribute__(self, "k")()

    def __call__(self):
        return self.k()

    def __lt__(self, other):
        self.k()
        return True

    @property
    def value(self):
        return self.k()

    @classmethod
    def made(cls, k):
        return cls(k)()

    @staticmethod
    def bare(k):
        return k()

    def __enter__(self):
        self.k()

    def __exit__(self, *_):
        self.k()
        return True

    def __iter__(self):
        yield self.k()


def via_attribute(k):
    return Strange(k).missing


def via_object(k):
    Strange(k)()
    Strange.made(k)
    return Strange.bare(k) or Strange(k).value


class Made:
    def __init__(self, k):
        self.k = (
            k())


def via_init(k):
    """3.12 and later put a frame of their own around such a call, once it is hot."""
    for _ in range(3):
        Made(k)
    return Made(k)


def via_operator(k):
    return Strange(k) < Strange(k)


def via_with(k):
    with Strange(k), \
            Strange(k):
        raise ValueError


def via_manager(k):
    @contextlib.contextmanager
    def manager():
        yield k()

    with manager():
        k()


def via_unpacking(k):
    (a,) = Strange(k)
    return a


def via_except(k):
    try:
        raise KeyError
    except KeyError:
        k()
        try:
            1 / 0
        except ZeroDivisionError:
            return k()
        finally:
            k()


def via_class_body(k):
    class Body:
        value = k()

    return Body


def via_eval(k):
    return eval("(lambda:\n\n k())()", {"k": k})


def via_exec(k):
    exec("def f():\n  if 1:\n    k(\n)\nf()", {"k": k})


def via_import_hook(k):
    exec(compile("\n" * 70000 + "def f():\n" + "\n" * 70000 + " k()\nf()", "r\u00e9sum\u00e9.py", "exec"), {"k": k})


def via_names(k):
    source = "def gr\u00fc\u00dfe():\n  def \u8a13\u7df4():\n    k()\n  \u8a13\u7df4()\ngr\u00fc\u00dfe()"
    for name in ("na\u00efve.py", "\u8a13\u7df4.py", "\U0001f600 \u00e9.py", "bad\udcff.py", "", "x" * 5000, "\u8a13" * 2000):
        exec(compile(source, name, "exec"), {"k": k})


class Name(str):
    pass


def via_own_string(k):
    exec(compile("k()", Name("own\u00e9.py"), "exec"), {"k": k})


def via_coroutine(k):
    async def inner():
        await asyncio.sleep(0)
        return k()

    async def many():
        for i in range(2):
            yield await inner()

    async def outer():
        result = [i async for i in many()]
        await asyncio.gather(inner(), inner())
        return result

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(outer())
    finally:
        loop.close()


def via_send(k):
    async def awaited():
        return k()

    try:
        awaited().send(None)
    except StopIteration as stop:
        return stop.value


CALLBACK = ctypes.CFUNCTYPE(None)


def via_c(k):
    PROBE.free.ProbeCall(CALLBACK(lambda: k() and None))


def via_c_with_gil(k):
    PROBE.held.ProbeCall(CALLBACK(lambda: k() and None))


CHEAP = [via_call, via_arguments, via_list, via_nested_comprehension, via_generator, via_generator_expression, via_sorted,
         via_map, via_decorator, via_partial, via_cache, via_attribute, via_operator, via_unpacking, via_eval, via_exec,
         via_own_string, via_send, via_c, via_c_with_gil, via_class_body]
MANY = [via_init, via_object, via_with, via_manager, via_except, via_names, via_import_hook]


# ---- cases


def raising(k):
    """A callback of ctypes prints what is raised in it and goes on: kept here until the case is over."""

    def wrapped():
        try:
            return k()
        except Mismatch as problem:
            PROBLEMS.append(problem)
            return None

    return wrapped


PROBLEMS = []


def each_way(check):
    for way in CHEAP + MANY + [via_coroutine]:
        before = PROBE.compared
        way(check)
        if PROBE.compared == before:
            raise Mismatch("%s compared nothing: %s" % (way.__name__, PROBLEMS[:1]))


def random_ways(check, seed, count):
    generator = random.Random(seed)

    def nest(k, way):
        return lambda: way(k)

    for _ in range(count):
        k = check
        for way in generator.choices(CHEAP, k=generator.randrange(1, 25)):
            k = nest(k, way)
        if generator.random() < 0.1:
            k = nest(k, generator.choice(MANY[:5]))
        k()


def recursion(check):
    def down(n):
        if n == 0:
            return check()
        if n % 3 == 0:
            return down(n - 1)
        return [
            down(n - 1)
        ][0]

    for depth in range(120):
        down(depth)


def little_room():
    def down(n, room):
        return PROBE.check(room) if n == 0 else down(n - 1, room)

    for depth in range(0, 20):
        for room in range(1, 24):
            down(depth, room)


def one_place_one_site():
    """A place that is run again and again, and specialized meanwhile, stays one site."""
    seen = set()
    for i in range(3000):
        seen.add(PROBE.check()[0])
    if len(seen) != 1:
        raise Mismatch("one line became the sites %r" % sorted(seen))


def reused_addresses():
    """Code objects that live shortly: each must be seen as itself, also where another one was before."""
    addresses = set()
    reused = 0
    for i in range(3000):
        # Of one shape each time, so that all parts of it fit where the last one's were; only texts and lines differ, or, in
        # the second half, lines alone.
        name = "generated_%04d.py" % min(i, 1500)
        source = "%sdef f%d(check):\n%s  check()\nf%d(check)" % (
            "\n" * (i % 5), min(i, 1500) % 10, "\n" * (i % 7), min(i, 1500) % 10)
        code = compile(source, name, "exec")
        for constant in code.co_consts:
            if hasattr(constant, "co_code"):
                reused += id(constant) in addresses
                addresses.add(id(constant))
        exec(code, {"check": PROBE.check})
        del code, constant
        if i % 100 == 0:
            gc.collect()
    if reused < 100:
        raise Mismatch("only %d addresses were used again: this proved nothing" % reused)
    # The same text all over again is nothing new.
    sites = PROBE.free.ProbeSites()
    for _ in range(300):
        exec(compile("def f():\n check()\nf()", "again.py", "exec"), {"check": PROBE.check})
    if PROBE.free.ProbeSites() > sites + 10:
        raise Mismatch("the same text became %d sites" % (PROBE.free.ProbeSites() - sites))


def traced():
    def trace(frame, event, argument):
        return trace

    sys.settrace(trace)
    try:
        each_way(raising(PROBE.check))
    finally:
        sys.settrace(None)
    sys.setprofile(lambda *_: None)
    try:
        each_way(raising(PROBE.check))
    finally:
        sys.setprofile(None)


def signals():
    """A handler's frames are on top of what it interrupted."""
    before = signal.signal(signal.SIGUSR1, lambda *_: raising(PROBE.check)() and None)

    def down(n):
        if n == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
            return sum(range(100))
        return [down(n - 1) for _ in (1,)][0]

    try:
        compared = PROBE.compared
        for depth in range(60):
            down(depth)
        if PROBE.compared - compared != 60:
            raise Mismatch("60 signals compared %d stacks" % (PROBE.compared - compared))
    finally:
        signal.signal(signal.SIGUSR1, before)


def threads():
    """Each thread sees its own stack, whoever has the GIL."""
    results = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def work(seed):
        mine = Probe(PROBE.path)
        try:
            random_ways(mine.check, seed, 60)
            for _ in range(200):
                mine.check()
            results.append(mine.compared)
        except BaseException as problem:
            PROBLEMS.append(problem)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.setswitchinterval(interval)
    PROBE.compared += sum(results)


def in_child(seed, results):
    before = PROBE.compared
    each_way(raising(PROBE.check))
    random_ways(raising(PROBE.check), seed, 50)
    results.put((PROBE.compared - before, [str(problem) for problem in PROBLEMS]))


def forked():
    """By multiprocessing, and by os.fork while other threads run."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=in_child, args=(100 + i, results)) for i in range(3)]
    for child in children:
        child.start()
    for _ in children:
        compared, problems = results.get(timeout=100)
        PROBE.compared += compared
        PROBLEMS.extend(problems)
    for child in children:
        child.join()

    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        print("not forked while other threads run: AddressSanitizer's allocator does not outlive that")
        return
    stop = threading.Event()

    def busy():
        mine = Probe(PROBE.path)
        while not stop.is_set():
            random_ways(mine.check, 3, 1)

    others = [threading.Thread(target=busy) for _ in range(2)]
    for other in others:
        other.start()
    failed = 0
    for i in range(10):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                before = PROBE.compared
                random_ways(PROBE.check, i, 10)
                status = 0 if PROBE.compared - before >= 10 else 2
            finally:
                os._exit(status)
        failed += os.waitpid(child, 0)[1] != 0
    stop.set()
    for other in others:
        other.join()
    if failed:
        raise Mismatch("%d of 10 children saw something else" % failed)


def foreign_threads():
    """Threads that Python did not start: none of its frames, or those of a callback only."""
    buffer = PROBE.buffer()
    for library in (PROBE.free, PROBE.held):
        status, cut, _, frames = PROBE.parse(buffer, library.ProbeWalkOnNewThread(buffer, BUFFER, ROOM))
        if (status, cut, frames) != ("no_thread", False, []):
            raise Mismatch("a thread without Python: %s, %r" % (status, frames))
    for way in CHEAP:
        before = PROBE.compared
        PROBE.free.ProbeCallOnNewThread(CALLBACK(lambda: way(raising(PROBE.check)) and None))
        if PROBE.compared == before:
            raise Mismatch("a callback on a new thread compared nothing")


def chosen():
    """The site of a call is the innermost frame outside of the standard library and PyTorch."""
    call = eval(compile("lambda f, *a: f(*a)", "/usr/lib/python3.11/site-packages/torch/optim.py", "eval"))
    buffer = PROBE.buffer()
    line, size = sys._getframe().f_lineno, call(call, PROBE.free.ProbeWalk, buffer, BUFFER, ROOM)
    _, _, site, frames = PROBE.parse(buffer, size)
    (found,) = [frame for frame in frames if frame[4] == site]
    if frames.index(found) != 2 or found[:3] != (__file__, "chosen", line):
        raise Mismatch("%r instead of line %d of this function" % (found, line))


def sub_interpreters():
    if sys.version_info >= (3, 13):
        import _interpreters as module
        create = functools.partial(module.create, "legacy")  # ctypes cannot be in an isolated one
    else:
        import _xxsubinterpreters as module
        create = functools.partial(module.create, isolated=False)
    new = create()
    path = os.path.abspath(__file__)
    if sys.version_info >= (3, 12):
        program = (
            "import sys; sys.path.insert(0, %r); sys.argv = ['', %r, 'sub']\n"
            "import python_stack_cases as c\n"
            "c.PROBE = c.Probe(%r)\n"
            "c.random_ways(c.raising(c.PROBE.check), 9, 100)\n"
            "assert c.PROBE.compared >= 100 and not c.PROBLEMS, (c.PROBE.compared, c.PROBLEMS)\n"
        ) % (os.path.dirname(path), PROBE.path, PROBE.path)
    else:
        # Only the frames that lead into it: the last of them is this function, at the call.
        program = (
            "import sys; sys.path.insert(0, %r); sys.argv = ['', %r, 'sub']\n"
            "import python_stack_cases as c\n"
            "status, cut, site, frames = c.Probe(%r).walk(c.Probe(%r).free)\n"
            "assert status == 'ok' and frames[0][1].endswith('sub_interpreters'), (status, frames)\n"
        ) % (os.path.dirname(path), PROBE.path, PROBE.path, PROBE.path)
    failed = module.run_string(new, program)  # up to 3.12 it raises
    if failed is not None:
        raise Mismatch(failed.formatted)
    module.destroy(new)
    PROBE.check()


def compare():
    check = raising(PROBE.check)
    cases = [each_way, recursion]
    for case in cases:
        case(check)
    random_ways(check, 1, 1500)
    for case in (little_room, one_place_one_site, reused_addresses, traced, signals, threads, forked, foreign_threads, chosen,
                 sub_interpreters):
        before = PROBE.compared
        case()
        print("%s: %d" % (case.__name__, PROBE.compared - before), flush=True)
    PROBE.check()  # after everything, it still works
    if PROBE.free.ProbeUnknown() != 0:
        raise Mismatch("%d frames had no site" % PROBE.free.ProbeUnknown())
    if PROBLEMS:
        raise Mismatch("%d problems, first: %s" % (len(PROBLEMS), PROBLEMS[0]))
    print("stacks %d" % PROBE.compared)


def off(reason):
    for _ in range(3):
        got = PROBE.walk(PROBE.free), PROBE.walk(PROBE.held)
        if any(result != (reason, False, 0, []) for result in got):
            raise Mismatch("%r instead of %s" % (got, reason))
    print("off %s" % reason)


def at_exit():
    PROBE.free.ProbeAtExit()
    threading.Thread(target=PROBE.free.ProbeWaitForExit, daemon=True).start()

    class Last:
        """Goes when Python clears its modules, on its way out; all that it needs then it has with it."""

        def __del__(self, walk=PROBE.free.ProbeWalk, buffer=PROBE.buffer(), size=BUFFER, write=os.write):
            got = walk(buffer, size, 8)
            write(1, b"while_ending " + buffer.raw[:got].split(b"\x1f")[0] + b"\n")

    sys.the_last = Last()


if sys.argv[2] != "sub":
    PROBE = Probe(sys.argv[1])
    if sys.argv[2] == "compare":
        compare()
    elif sys.argv[2] == "off":
        off(sys.argv[3])
    else:
        at_exit()
