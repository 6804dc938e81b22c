"""failures.py cuda|libc SLIPSTREAM LIBRARY TYPICAL FAILING_LIBC: every call that the library itself makes fails, at every place.

A program runs bare, then under the library while one function fails where the library calls it: at its first call, its n-th, or from the
n-th on. Output and exit status must be the bare run's, and the trace must be one that can be read.

    cuda    functions of the driver and of CUPTI (SIMCUDA_FAIL=own:..., tests/sim/README.md)
    libc    functions of the C library: memory, threads, files (failing_libc.cpp)

    --sample N      N cases drawn by --seed, each function at least once (default 120)
    --every         all of them, which takes a long time
    --only TEXT     cases whose name contains the text
    --programs A,B  only these programs: names of parts, of switches, or PART/SWITCHES
    --list          says which there are
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile

PARTS = ["copies", "bursts", "steps", "threads", "graphs", "memory", "pressure", "pinned", "devices"]
# The pool keeps what it can of the little memory that there is. Staging memory is so little that it is used again and again.
POOL = {"SLIPSTREAM_ALLOCATOR_KEEP_FREE": "8MiB", "SLIPSTREAM_ALLOCATOR_MAX_IDLE": "150MiB"}
ENGINES = POOL | {"SLIPSTREAM_TRANSFER_START": "now", "SLIPSTREAM_TRANSFER_MAX_PINNED": "8MiB"}
SWITCHES = {
    "engines": ENGINES,
    "background": POOL | {"SLIPSTREAM_ALLOCATOR_PRE_RESERVE": "40MiB"},
    "verify": ENGINES | {"SLIPSTREAM_TRANSFER_VERIFY": "true"},
    "recorded": ENGINES | {"SLIPSTREAM_TRACER_RECORD": "on", "SLIPSTREAM_TRACER_STACKS": "full", "SLIPSTREAM_TRACER_DEVICE": "cupti"},
}
UNKNOWN, OUT_OF_MEMORY = 999, 2
LIMIT_S = 120


# The functions that are known to be called; one that is not any more makes a hole in this test.
LEAST = {"cuda": 50, "libc": 25}


def codes_of(kind, function):
    if kind == "libc":
        return [0]  # the interposer has one error for each
    return [OUT_OF_MEMORY, UNKNOWN] if "Alloc" in function or "Create" in function or "Register" in function else [UNKNOWN]


def positions_of(calls, every):
    """Where a function fails that is called so often: (nth, and all later ones)."""
    if every:
        single = list(range(1, 13)) + [int(12 * 1.5 ** i) for i in range(1, 20)] + [calls]
    else:
        single = [1, 2, 3, 5, 8, calls // 4, calls // 2, calls]
    single = sorted({n for n in single if 1 <= n <= calls})
    later = sorted({n for n in (1, 2, 3, calls // 4, calls // 2, calls) if 1 <= n <= calls})
    return [(n, False) for n in single] + [(n, True) for n in later]


class Runs:
    def __init__(self, arguments):
        self.arguments = arguments
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "LD_PRELOAD"))}
        # With a seed that runs nothing by itself and one that lets unrelated work overtake.
        self.environment = clean | {"SIMCUDA_MEMORY": "200MiB"}
        self.bare = {}

    def variables(self, switches, seed, more):
        libraries = [self.arguments.library] if self.arguments.kind == "cuda" else [self.arguments.failing_libc, self.arguments.library]
        preload = {"LD_PRELOAD": ":".join(libraries)}
        sanitized = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
        return preload | sanitized | {"SIMCUDA_SEED": str(seed)} | SWITCHES[switches] | more

    def run(self, part, variables):
        command = [self.arguments.typical, part]
        try:
            done = subprocess.run(command, env=self.environment | variables, capture_output=True, timeout=LIMIT_S, check=False)
            return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            return "no end", "", ""

    def command_of(self, part, variables):
        words = [f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items()) if name != "ASAN_OPTIONS"]
        return " ".join(["SIMCUDA_MEMORY=200MiB", *words, self.arguments.typical, part])

    def bare_run(self, part, seed):
        if (part, seed) not in self.bare:
            self.bare[part, seed] = self.run(part, {"SIMCUDA_SEED": str(seed)})
        return self.bare[part, seed]

    def own_calls(self, part, switches, folder):
        """How often the library calls each function in this program, and what is wrong without any failure."""
        path = folder / f"{part}-{switches}"
        more = {"SIMCUDA_OWN_CALLS" if self.arguments.kind == "cuda" else "FAIL_LIBC_CALLS": str(path)} | self.recording(switches, folder / f"{part}-{switches}-run")
        result = self.run(part, self.variables(switches, 0, more))
        calls = dict(line.split() for line in path.read_text().splitlines()) if path.exists() else {}
        wrong = None if result[:2] == self.bare_run(part, 0)[:2] else f"without any failure: {result}"
        return {name: int(count) for name, count in calls.items()}, wrong

    def recording(self, switches, run):
        if switches != "recorded" and self.arguments.kind == "cuda":
            return {}
        run.mkdir(mode=0o700)
        return {"SLIPSTREAM_RUN_DIRECTORY": str(run)}

    def try_case(self, case, folder):
        part, switches, function, code, nth, later, seed = case
        run = folder / case_name(case).replace("/", "-").replace(":", "-")
        place = f"{nth}{'+' if later else ''}"
        failure = {"SIMCUDA_FAIL": f"own:{function}:{code}@{place}"} if self.arguments.kind == "cuda" else {"FAIL_LIBC": f"{function}@{place}"}
        more = failure | self.recording(switches, run)
        variables = self.variables(switches, seed, more)
        got, wanted = self.run(part, variables), self.bare_run(part, seed)
        wrong = []
        if got[0] != wanted[0]:
            wrong.append(f"exit status {got[0]}, bare {wanted[0]}")
        if self.comparable(function, later, got[1]) != self.comparable(function, later, wanted[1]):
            wrong.append(f"it printed\n{indent(got[1])}and bare\n{indent(wanted[1])}")
        # A difference that verification finds is said; it would be a wrong copy, or a reading that failed. Where there is no memory
        # for the start, or no log, the library says so.
        if got[2] != "" and (self.arguments.kind == "cuda" or not all(line.startswith("slipstream") for line in got[2].splitlines())):
            wrong.append(f"on standard error\n{indent(got[2])}")
        if switches == "recorded" and not wrong:
            wrong += self.wrong_trace(run)
        return f"{case_name(case)}\n    {self.command_of(part, variables)}\n" + indent("\n".join(wrong)) if wrong else None

    @staticmethod
    def comparable(function, later, text):
        # Memory of freed blocks that the driver does not take back is lost, and so is that of idle ones of which it does not say whose
        # they are by now: to free them could free somebody else's; or, with no event any more, whether work on them has run, and
        # whether a capture forbids to ask. The program then has less, and is told so when there is none.
        lossy = function in ("cuMemFree_v2", "cuMemFreeAsync", "cuPointerGetAttribute", "cuMemUnmap", "cuMemRelease")
        lossy = lossy or later and function in ("cuEventCreate", "cuCtxRecordEvent", "cuEventSynchronize", "cuStreamIsCapturing")
        return re.sub(r"\d+ blocks of", "some blocks of", text) if lossy else text

    def wrong_trace(self, run):
        if self.arguments.kind == "libc" and not list(run.glob("*.spool")):
            return []
        report = subprocess.run([self.arguments.slipstream, "report", str(run), "--json"], env=self.environment, capture_output=True, timeout=LIMIT_S,
                                check=False)
        if report.returncode != 0:
            return [f"slipstream report: {report.returncode}\n{report.stderr.decode()}"]
        json.loads(report.stdout)
        return []


def indent(text):
    return "".join(f"        {line}\n" for line in text.splitlines())


def case_name(case):
    part, switches, function, code, nth, later, seed = case
    return f"{part}/{switches}/{function}:{code}@{nth}{'+' if later else ''}/seed{seed}"


def draw(cases, count, seed):
    """One case of each function, and others up to `count`."""
    chance = random.Random(seed)
    chance.shuffle(cases)
    first = {case[2]: case for case in reversed(cases)}
    drawn = list(first.values())
    taken = set(drawn)
    rest = [case for case in cases if case not in taken]
    return drawn + rest[:max(0, count - len(drawn))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["cuda", "libc"])
    parser.add_argument("slipstream")
    parser.add_argument("library")
    parser.add_argument("typical")
    parser.add_argument("failing_libc")
    parser.add_argument("--sample", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--programs", type=lambda text: text.split(","), default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    runs = Runs(arguments)
    failed = []
    with tempfile.TemporaryDirectory(prefix="slipstream-faults-") as temporary, \
            concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        folder = pathlib.Path(temporary)
        programs = [(part, switches) for switches in SWITCHES for part in PARTS]
        if arguments.programs:
            programs = [each for each in programs if {*each, "/".join(each)} & {*arguments.programs}]
        cases = []
        functions = set()
        for (part, switches), (calls, wrong) in zip(programs, pool.map(lambda each: runs.own_calls(*each, folder), programs)):
            if wrong:
                failed.append(f"{part}/{switches} {wrong}")
            functions |= calls.keys()
            for function, count in sorted(calls.items()):
                cases += [(part, switches, function, code, nth, later, seed) for code in codes_of(arguments.kind, function)
                          for nth, later in positions_of(count, arguments.every) for seed in (nth % 2,)]
        # What the library may call and what nobody has seen it call would be a hole in this test.
        print(f"{len(functions)} functions, {len(cases)} cases")
        if not programs or not arguments.programs and len(functions) < LEAST[arguments.kind]:
            failed.append(f"only {len(functions)} functions: {sorted(functions)}")
        cases = [case for case in cases if arguments.only in case_name(case)]
        if not cases:
            failed.append("no case has that name")
        cases = draw(cases, len(cases) if arguments.every else arguments.sample, arguments.seed)
        if arguments.list:
            print("\n".join(map(case_name, cases)))
            return 0
        for number, wrong in enumerate(pool.map(lambda case: runs.try_case(case, folder), cases), 1):
            if wrong:
                failed.append(wrong)
                print(f"FAILED {wrong}", flush=True)
            if number % 500 == 0:
                print(f"{number} of {len(cases)}, {len(failed)} failed", flush=True)
    print(f"{len(cases)} cases, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
