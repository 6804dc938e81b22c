"""What a training program starts has the library as the policy's [children] says, and goes as it goes without slipstream."""

import collections
import concurrent.futures
import re

from . import harness, outcomes
from .harness import GPU_TESTS, REPOSITORY, Failed, Skipped

POLICY = 'version = 1\n[children]\npreload = "python"\n'
# As /proc/self/exe has them: behind "sh" stands the shell that is meant.
KEPT = re.compile(r"python[\d.]*|(ba|da|z)?sh|env|nice")
# Itself: what it starts is what it is about.
STARTER = "slipstream"


def witness(suite):
    path = suite.build / "tests" / "gpu" / "libprogram_witness.so"
    if not path.exists():
        raise Skipped("libprogram_witness.so is not in the build folder")
    return path


def read(path):
    """(program, whether it had the library) for every program that was executed."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Failed(f"no program was written down: {error}") from None
    return [(name, has == "yes") for name, _, has in (line.rpartition(" ") for line in lines)]


def judge(programs, tools=1):
    """Python and shells have the library, and nobody else; at least so many others must have been executed."""
    programs = [(name, has) for name, has in programs if name != STARTER]
    wrong = sorted({f"{name} {'has' if has else 'lacks'} it" for name, has in programs if has != bool(KEPT.fullmatch(name))})
    if wrong:
        raise Failed("the library: " + ", ".join(wrong))
    if not any(has for _, has in programs):
        raise Failed("no program had the library")
    others = sorted({name for name, has in programs if not has})
    if len(others) < tools:
        raise Failed(f"only {others} were started beside Python and shells, which shows nothing")
    return others


def same(suite, name, argv, tools, *, env=None, timeout=150, may_not_work=False):
    def check(data):
        preload = witness(suite)
        policy = suite.policy("children", POLICY)

        def run(which, prefix):
            scratch = suite.scratch(f"children/{name}/{which}")
            private = {
                "LD_PRELOAD": preload,
                "PROGRAM_WITNESS": scratch / "programs.txt",
                "TMPDIR": scratch,
                "TORCHINDUCTOR_CACHE_DIR": scratch / "inductor",
                "TRITON_CACHE_DIR": scratch / "triton",
                "OMP_NUM_THREADS": "1",
                "PYTHONWARNINGS": "ignore",
                "TORCHINDUCTOR_COMPILE_THREADS": "2",
                **(env or {}),
            }
            result = suite.command(f"children.{name}", [*prefix, *argv], env=private, timeout=timeout, cwd=scratch)
            return result, scratch / "programs.txt"

        with concurrent.futures.ThreadPoolExecutor() as pool:
            bare = pool.submit(run, "bare", [])
            under = pool.submit(run, "slipstream", suite.run_prefix("--quiet", "--policy", policy))
            (bare, bare_programs), (under, under_programs) = bare.result(), under.result()
        if bare.status != 0 and may_not_work:
            raise Skipped(f"does not work here without slipstream either: {harness.last_line(bare.stderr)}")
        if bare.status != 0:
            raise Failed(f"bare, it left with {bare.status}: {harness.last_line(bare.stderr)}")
        outcomes.compare(bare, under, False)
        if any(has for _, has in read(bare_programs)):
            raise Failed("bare, a program had the library")
        programs = read(under_programs)
        data["programs"] = {f"{program} {'with' if has else 'without'}": count
                            for (program, has), count in sorted(collections.Counter(programs).items())}
        others = judge(programs, tools)
        return f"same output; without the library: {', '.join(others) or 'none was started'}"

    return check


def checks(suite):
    children = [suite.python, "-B", REPOSITORY / "tests" / "torch" / "children.py"]
    compiled = [suite.python, GPU_TESTS / "programs" / "compile_function.py", suite.device]
    return [
        # Loaders and processes by fork, spawn and forkserver.
        ("children.workers", harness.needs_gpu(suite, same(suite, "workers", [*children, "--workers"], tools=0))),
        # By fork and exec, subprocess, a shell, posix_spawn, torchrun; and a program that is called ptxas.
        ("children.programs", harness.needs_gpu(suite, same(suite, "programs", [*children, "--programs"], tools=1))),
        # Triton's helpers, ptxas and a C compiler.
        ("children.compile", same(suite, "compile", compiled, tools=1, timeout=180, may_not_work=True)),
    ]
