"""The legs of tools/test. Each takes a Context and returns its cases; a leg that could not build is a failed case."""

import dataclasses
import os
import pathlib
import re
import time
import typing

import slowest
import tidy
from cases import FAILED, PASSED, SKIPPED, Case
from command import run
from ctest import run_tests, test_environment
from sources import is_cpp, tracked

CLANG_FORMAT = "clang-format-14"
# The library under its CMake name; the leg without a toolkit builds this and no more.
LIBRARY_TARGET = "slipstream_shared"
# What makes the headers that sources include.
GENERATED_TARGETS = ("slipstream_generated", "slipstream_commit")
# tests/torch and tests/wheel, which the legs of those names run, and no other.
TORCH_LABEL = "^torch$"
WHEEL_LABEL = "^wheel$"
OF_OTHER_LEGS = "^(torch|wheel)$"
# For the tests of one build folder: about twice what they take on 2 cores. Something hangs in one that takes longer.
TEST_MINUTES = 25
# A network that is so slow costs the tests of what it was to bring, not the whole run.
FETCH_SECONDS = 300
_OF_CUDA = re.compile(r"cuda|cupti|nvtx|nvToolsExt", re.IGNORECASE)


class Deadline:
    """When all legs together must be over, if ever."""

    def __init__(self, minutes=None):
        self._end = None if minutes is None else time.monotonic() + 60 * minutes

    def seconds(self):
        """How many are left, or None."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def minutes(self, at_most):
        """How long a leg's tests may run that would be given so many minutes."""
        return at_most if self._end is None else min(at_most, self.seconds() / 60)


class NeedsRoot(Exception):
    """tools/setup found packages missing and may not install them; its text says what to run."""


@dataclasses.dataclass
class Context:
    root: pathlib.Path
    jobs: int
    name_filter: typing.Optional[str]
    tidy_minutes: float
    note: typing.Callable[[str], None]
    built: typing.Callable[[pathlib.Path], None] = lambda folder: None  # is told of each folder that was built
    unity: bool = False  # sources of a target are compiled together
    deadline: Deadline = dataclasses.field(default_factory=Deadline)

    def log(self, leg):
        return self.root / "build" / "logs" / f"{leg}.log"


def set_up(context, leg="setup", hide_toolkit=False):
    environment = dict(os.environ)
    if hide_toolkit:
        environment["SLIPSTREAM_HIDE_CUDA_TOOLKIT"] = "1"
    result = run([context.root / "tools" / "setup"], context.root, environment, log=context.log(leg))
    if result.status == 2:
        raise NeedsRoot(result.output)
    for line in result.output.splitlines():
        if "skipped" in line:
            context.note(line)
    outcome = PASSED if result.status == 0 else FAILED
    return Case(leg, "setup", outcome, result.seconds, "" if outcome == PASSED else result.tail())


def setup_leg(context):
    return [set_up(context)]


def format_leg(context):
    files = [path for path in tracked(context.root) if is_cpp(path)]
    if not files:
        return [Case("format", "clang-format", FAILED, 0.0, "no C++ file is tracked")]
    result = run([CLANG_FORMAT, "--dry-run", "-Werror", *files], context.root)
    context.note(f"{len(files)} files")
    if result.status == 0:
        return [Case("format", "clang-format", PASSED, result.seconds)]
    wrong = list(dict.fromkeys(re.findall(r"^(\S+?):\d+:\d+: error", result.output, re.MULTILINE)))
    text = result.tail(80) + (f"\nto repair: {CLANG_FORMAT} -i {' '.join(wrong)}" if wrong else "")
    return [Case("format", "clang-format", FAILED, result.seconds, text)]


def _build(context, leg, configure, folder, targets=()):
    """None, or the case that says how the build failed."""
    start = time.time()
    for name, command in (("configure", configure), ("build", ["ninja", "-C", folder, "-j", context.jobs, *targets])):
        result = run(command, context.root, test_environment(), context.deadline.seconds(), log=context.log(leg))
        if result.status != 0:
            # ninja prints what else was running after the failure itself.
            at = result.output.find("FAILED: ")
            if at > 0:
                result.output = result.output[at:]
                lines = result.output.splitlines()
                result.output = "\n".join(lines[:80])
            return Case(leg, name, FAILED, result.seconds, result.tail(80))
        context.note(f"{name} {result.seconds:.0f} s")
    context.built(pathlib.Path(folder))
    warning = slowest.warning(slowest.sources(pathlib.Path(folder), start))
    if warning:
        context.note(warning)
    return None


def _out_of_time(context, leg):
    return None if context.deadline.minutes(1) > 0 else Case(leg, leg, FAILED, 0.0, "not run: the time of all legs was over")


def _randomization_off(context):
    """A ThreadSanitizer of GCC 12 cannot map its shadow where the kernel randomizes addresses by more than 28 bits."""
    command = ["setarch", os.uname().machine, "-R"]
    return command if run([*command, "true"], context.root).status == 0 else []


def _configure(context, preset):
    return ["cmake", "--preset", preset, f"-DSLIPSTREAM_UNITY={'ON' if context.unity else 'OFF'}"]


def preset_leg(context, preset):
    folder = context.root / "build" / preset
    failure = _out_of_time(context, preset) or _build(context, preset, _configure(context, preset), folder)
    if failure:
        return [failure]
    prefix = _randomization_off(context) if preset == "tsan" else []
    return run_tests(folder, context.root, preset, context.jobs, context.name_filter, prefix=prefix,
                     log=context.log(preset), but_label=OF_OTHER_LEGS, minutes=context.deadline.minutes(TEST_MINUTES))


def _bring(context, leg, option, what):
    """None, or the case that says why what `option` of tools/setup brings is not here."""
    setup = run([context.root / "tools" / "setup", option], context.root, timeout=FETCH_SECONDS, log=context.log(leg))
    lines = setup.output.splitlines() or [f"tools/setup {option} said nothing"]
    if setup.timed_out:
        text = f"{what} was not there after {FETCH_SECONDS / 60:g} minutes; tools/setup {option} brings it"
        return Case(leg, "setup", SKIPPED, setup.seconds, text)
    if setup.status == 3:
        return Case(leg, "setup", SKIPPED, setup.seconds, lines[-1])
    if setup.status != 0:
        return Case(leg, "setup", FAILED, setup.seconds, setup.tail())
    context.note(f"set-up {setup.seconds:.0f} s")
    return None


def _labeled_leg(context, leg, label):
    """The release build's tests that other legs leave out."""
    folder = context.root / "build" / "release"
    failure = _build(context, leg, _configure(context, "release"), folder)
    if failure:
        return [failure]
    return run_tests(folder, context.root, leg, context.jobs, context.name_filter, label, log=context.log(leg),
                     minutes=context.deadline.minutes(TEST_MINUTES))


def torch_leg(context):
    """Real PyTorch on the simulated device: brought where it can be, else one skipped case that says why not."""
    missing = _bring(context, "torch", "--torch", "PyTorch")
    return [missing] if missing else _labeled_leg(context, "torch", TORCH_LABEL)


def wheel_leg(context):
    """Builds the wheel, and runs the tests that install it."""
    leg = "wheel"
    missing = _out_of_time(context, leg) or _bring(context, leg, "--wheel", "the compiler for it")
    if missing:
        return [missing]
    made = run([context.root / "tools" / "wheel"], context.root, timeout=context.deadline.seconds(), log=context.log(leg))
    if made.status != 0:
        return [Case(leg, "tools/wheel", FAILED, made.seconds, made.tail(80))]
    context.note(f"wheel {made.seconds:.0f} s")
    return [Case(leg, "tools/wheel", PASSED, made.seconds), *_labeled_leg(context, leg, WHEEL_LABEL)]


def headers_leg(context):
    """Configures, builds and checks the library as a machine without a CUDA toolkit does."""
    leg = "headers"
    setup = set_up(context, leg, hide_toolkit=True)
    if setup.outcome == FAILED:
        return [setup]
    folder = context.root / "build" / "headers"
    configure = ["cmake", "-S", context.root, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                 "-DSLIPSTREAM_HIDE_CUDA_TOOLKIT=ON", "-DSLIPSTREAM_BUILD_BENCHMARKS=OFF"]
    failure = _build(context, leg, configure, folder, [LIBRARY_TARGET])
    if failure:
        return [failure]
    cases = [setup, _headers_used(context, leg, folder)]
    # Nothing but the library is built, so only what inspects it or the sources can run.
    return cases + run_tests(folder, context.root, leg, context.jobs, context.name_filter, "^checks$",
                             log=context.log(leg))


def strange_headers(files, root):
    """(CUDA headers among `files`, those of them that did not come from build/cuda-headers).

    A hidden toolkit can still be seen: some machines have links to its headers in /usr/local/include, where every
    compiler looks.
    """
    allowed = (root / "build" / "cuda-headers").resolve()
    real = {file.resolve() for file in files if not file.resolve().is_relative_to(root / "build" / "headers")}
    fetched = {file for file in real if file.is_relative_to(allowed)}
    ours = {file for file in real if file.is_relative_to(root)}
    strangers = {file for file in real - fetched - ours if _OF_CUDA.search(str(file))}
    return fetched | strangers, sorted(strangers)


def _headers_used(context, leg, folder):
    """A header that came from a hidden toolkit would hide what tools/setup forgot."""
    listing = run(["ninja", "-C", folder, "-t", "deps"], context.root)
    files = [pathlib.Path(folder, line.strip()) for line in listing.output.splitlines() if line.startswith("    ")]
    used, strangers = strange_headers(files, context.root)
    if strangers:
        text = "with the toolkit hidden, the build read " + ", ".join(map(str, strangers))
    else:
        text = "" if used else "the build read no CUDA header at all"
    return Case(leg, "only-fetched-headers", FAILED if text else PASSED, listing.seconds, text)


def tidy_leg(context):
    # Each source alone, with the headers that the build generates.
    folder = context.root / "build" / "tidy"
    configure = ["cmake", "--preset", "release", "-B", folder, "-DSLIPSTREAM_UNITY=OFF"]
    failure = _out_of_time(context, "tidy") or _build(context, "tidy", configure, folder, GENERATED_TARGETS)
    if failure:
        return [failure]
    return tidy.check(folder, context.root, context.jobs, context.deadline.minutes(context.tidy_minutes), context.note)


LEGS = {
    "setup": setup_leg,
    "format": format_leg,
    "release": lambda context: preset_leg(context, "release"),
    "torch": torch_leg,
    "wheel": wheel_leg,
    "tidy": tidy_leg,
    "headers": headers_leg,
    "asan": lambda context: preset_leg(context, "asan"),
    "tsan": lambda context: preset_leg(context, "tsan"),
}
# What tools/test runs unless told otherwise; the others are slower, or bring PyTorch or another compiler.
EVERYDAY = ("setup", "format", "release")
