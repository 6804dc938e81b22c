"""The conformance tests of device allocators and their fuzzer (tests/conformance), on this machine's GPU.

Over the driver alone (bare), over the library passing through (off), and over its pool (segments), with legacy and
per-thread default streams. Each fills the device's memory, so one runs at a time. ctest runs the same programs on the
simulated device; a rehearsal leaves them out.
"""

import os

from .harness import Failed, Skipped, needs_gpu
from .sanitizer import library_path

UNDERNEATH = ("bare", "off", "segments")
# What tests/conformance builds: runtime and default stream.
KINDS = ((12, "legacy"), (13, "legacy"), (13, "ptds"))
# Seconds that one suite of tests may take, and all of a program's: the slowest takes 27 of them, bare too.
SUITE_SECONDS = 40
PROGRAM_SECONDS = 180
FUZZ = {
    "fuzz": ("--steps", 3000),
    # Threads that end with work in their default streams.
    "fuzz.unordered": ("--steps", 300, "--threads", 8, "--ordered", 0),
}
QUICK = ("--steps", 300)
# What a run over the pool must have decided, or it shows nothing about it.
DECISIONS = {
    "tests": "parked,reused,reused.behind,grown,reclaimed,retried,freed.capture,freed.cap",
    "fuzz": "parked,reused",
    "fuzz.unordered": "parked,reused",
}


def has_runtime(folders, version):
    return any(os.path.exists(os.path.join(folder, f"libcudart.so.{version}")) for folder in folders.split(":"))


def checks(suite):
    folder = suite.build / "conformance"

    def one(version, streams, underneath, what):
        def check(data):
            libraries = library_path(suite)
            if not has_runtime(libraries, version):
                raise Skipped(f"no libcudart.so.{version}: LD_LIBRARY_PATH and the CUDA toolkits' folders have none")
            kind = "conformance" if what == "tests" else "conformance_fuzz"
            program, runner = folder / f"{kind}{version}_{streams}", folder / "run_conformance"
            for file in (program, runner):
                if not file.exists():
                    raise Failed(f"{file} is not there: the build folder that travels must have it")
            argv = [runner, "--program", program, "--limit", SUITE_SECONDS]
            if underneath != "bare":
                argv += ["--library", suite.library, "--allocator", underneath]
            if underneath == "segments":
                argv += ["--require", DECISIONS[what]]
            if what != "tests":
                argv += ["--", "--seed", version, *FUZZ[what], *(QUICK if suite.quick else ())]
            env = {"LD_LIBRARY_PATH": libraries}
            result = suite.command(f"conformance.{version}.{streams}", argv, env=env, timeout=PROGRAM_SECONDS)
            lines = result.stdout.decode(errors="replace").strip().splitlines()
            counts = [line for line in lines if line.endswith(" crashed")]
            data["lines"] = lines[-400:]
            if result.timed_out:
                raise Failed("did not end in time")
            if result.status != 0 or not counts:
                failed = [line.strip() for line in lines if "FAILED" in line or " ended with " in line]
                said = "; ".join([*counts, *failed[:6]]) or f"exit status {result.status}"
                raise Failed(said)
            decided = ", ".join(line.removeprefix("allocator.") for line in lines if line.startswith("allocator."))
            return "; ".join(filter(None, (f"processes: {counts[-1]}", decided)))

        return needs_gpu(suite, check)

    return [
        (
            f"conformance.{version}.{streams}.{underneath}{'' if what == 'tests' else '.' + what}",
            one(version, streams, underneath, what),
        )
        for version, streams in KINDS
        for underneath in reversed(UNDERNEATH)
        for what in ("fuzz.unordered", "fuzz", "tests")
        if what != "fuzz.unordered" or underneath == "segments"
    ]
