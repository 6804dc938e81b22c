"""Runs the tests of one build folder with ctest, also when the folder was built elsewhere and carried here."""

import os
import pathlib
import re
import tempfile
import time

from cases import FAILED, Case, read_ctest_junit
from command import run

# What ctest says where it did not start all of its tests.
_OUT_OF_TIME = "The stop time has been passed"

# GoogleTest's output and a sanitizer's report must survive whole: reasons for skips are read from them.
_OUTPUT_LIMITS = ["--test-output-size-passed", "65536", "--test-output-size-failed", "262144"]


def cached(build, name):
    """The value of a variable in the folder's CMakeCache.txt, or None."""
    try:
        text = (build / "CMakeCache.txt").read_text(errors="replace")
    except OSError:
        return None
    match = re.search(rf"^{re.escape(name)}:[A-Z]+=(.*)$", text, re.MULTILINE)
    return match.group(1) if match else None


def _same_folder(one, other):
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _cmake_modules(scratch):
    """Where this machine's CMake keeps its modules; ctest's own scripts do not know."""
    script = scratch / "modules.cmake"
    script.write_text('message("${CMAKE_ROOT}/Modules")\n')
    return run(["cmake", "-P", script], scratch).output.strip()


def _how_it_ended(output):
    """{test: "Timeout", "Subprocess aborted", ...}, from ctest's own lines; its JUnit file does not say."""
    ended = {}
    for match in re.finditer(r"Test +#\d+: (.+?) \.{2,}(.*?)\*\*\*(.*?) +[\d.]+ sec$", output, re.MULTILINE):
        ended[match.group(1)] = " ".join(part.strip(" :") for part in match.groups()[1:] if part.strip(" :"))
    return ended


def relocated(build, source, scratch):
    """A copy, in `scratch`, of the folder's test files with this machine's paths in them.

    CMake writes absolute paths into them: of the build, of the source and of CMake's own modules. The build folder
    itself is not touched. The list of the tests of a GoogleTest program is made anew by asking the program.
    """
    old_build = cached(build, "CMAKE_CACHEFILE_DIR")
    old_source = cached(build, "CMAKE_HOME_DIRECTORY")
    modules = _cmake_modules(scratch)
    end = r"(?=[/\"\];\s]|$)"
    for file in build.rglob("*.cmake"):
        # Not what is for configuring or installing, and not the lists of GoogleTest tests, which are made anew.
        if "CMakeFiles" in file.parts or file.name == "cmake_install.cmake" or file.name.endswith("_tests.cmake"):
            continue
        text = file.read_text()
        text = re.sub(rf"{re.escape(old_build)}(/[^\"\n]*?\.cmake)\b", lambda match: f"{scratch}{match.group(1)}", text)
        text = re.sub(re.escape(old_build) + end, lambda _: str(build), text)
        text = re.sub(re.escape(old_source) + end, lambda _: str(source), text)
        text = re.sub(r'"/[^"]*/Modules/(GoogleTestAddTests\.cmake)"', lambda match: f'"{modules}/{match.group(1)}"', text)
        copy = scratch / file.relative_to(build)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
    return scratch


def test_environment():
    """This process's environment without what would change how slipstream behaves in its own tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    kept.pop("LD_PRELOAD", None)
    kept.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    # By default each program sleeps for a second before it ends: more than half of the time that all tests took.
    kept.setdefault("TSAN_OPTIONS", "atexit_sleep_ms=0")
    return kept


def run_tests(build, source, leg, jobs, name_filter=None, label=None, prefix=(), log=None, note=None,
              but_label=None, minutes=None):
    """Every test of the folder as cases. `prefix` is a command that ctest is run under; `note` takes a remark.

    After so many minutes the tests that run are ended and none is started any more, and both is a failure: whoever waits for
    the result then learns which tests they were, whatever hung.
    """
    build = pathlib.Path(build).resolve()
    if not (build / "CTestTestfile.cmake").exists():
        return [Case(leg, "ctest", FAILED, 0.0, f"{build} is no build folder with tests: no CTestTestfile.cmake in it")]
    with tempfile.TemporaryDirectory(prefix="slipstream-test-") as scratch:
        scratch = pathlib.Path(scratch)
        folder = build
        moved_from = cached(build, "CMAKE_CACHEFILE_DIR")
        if moved_from and not _same_folder(moved_from, build):
            folder = relocated(build, source, scratch)
            if note:
                note(f"built in {moved_from} and carried here: a test with that path compiled into it fails")
        junit = scratch / "ctest.xml"
        command = [*prefix, "ctest", "--test-dir", folder, "-j", jobs, "--output-junit", junit, *_OUTPUT_LIMITS]
        if name_filter:
            command += ["-R", name_filter]
        if label:
            command += ["-L", label]
        if but_label:
            command += ["-LE", but_label]
        if minutes is not None:
            # In whole seconds, and of tomorrow where it is not after now.
            command += ["--stop-time", time.strftime("%H:%M:%S", time.localtime(time.time() + 60 * minutes + 2))]
        result = run(command, source, test_environment(), log=log)
        cases = []
        if junit.exists():
            cases = read_ctest_junit(junit.read_text(errors="replace"), leg)
    ended = _how_it_ended(result.output)
    for case in cases:
        if case.outcome == FAILED:
            case.text = f"{case.text.rstrip()}\n{ended.get(case.name, 'Failed')}".lstrip()
    if _OUT_OF_TIME in result.output:
        cases.append(Case(leg, "ctest", FAILED, result.seconds, f"not all tests were started in {minutes:g} minutes"))
    # ctest has its own word on the whole: a list of tests that could not be made, a test that ran twice.
    if result.status != 0 and not any(case.outcome == FAILED for case in cases):
        cases.append(Case(leg, "ctest", FAILED, result.seconds, result.tail()))
    elif not cases and not name_filter:
        cases.append(Case(leg, "ctest", FAILED, result.seconds, "no test was run\n" + result.tail()))
    return cases
