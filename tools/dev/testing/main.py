"""tools/test: the tests of the release build; with --all, every test that this machine can run.

Prints a line a leg, then failures with their output, every skipped test with its reason, and what took longest, and ends with
"N passed, N failed, N skipped". Writes one JUnit file. Exit status: 0 all passed, 1 something failed or nothing ran,
2 packages are missing and this is not root.
"""

import argparse
import os
import pathlib
import re
import signal
import sys
import time

import ctest
import legs
import slowest
from cases import FAILED, PASSED, SKIPPED, Case, write_junit

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Of a failure, at its beginning (where a sanitizer says what is wrong) and at its end (where a program says how it ended).
_SHOWN_CHARACTERS = 8000
# Of a failed test, once more at the end. GoogleTest's, a sanitizer's, CTest's and unittest's words for it.
_REASON_LINES, _REASON_COLUMNS = 4, 200
_SAYS_WHAT_IS_WRONG = re.compile(r": Failure$|^(FAIL|ERROR): |WARNING: ThreadSanitizer|ERROR: \w+Sanitizer|Timeout|: error: ")


def say(*words):
    print(*words, flush=True)


def duration(seconds):
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f} min {rest:.0f} s" if minutes else f"{rest:.1f} s"


def count(cases):
    return [sum(case.outcome == outcome for case in cases) for outcome in (PASSED, FAILED, SKIPPED)]


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="tools/test", description="Run the tests of the release build, after the set-up that they need.")
    parser.add_argument("--build", metavar="DIR", type=pathlib.Path,
                        help="run the tests of this prepared build folder only: no set-up, no compiling, no network")
    parser.add_argument("--all", action="store_true",
                        help="every leg: PyTorch on the simulated device, lint, a build without a CUDA toolkit and sanitizers too")
    parser.add_argument("--only", metavar="LEG,...", help=f"these legs only, of {','.join(legs.LEGS)}")
    parser.add_argument("--junit", metavar="FILE", type=pathlib.Path,
                        help="where the JUnit file goes (default build/junit.xml)")
    parser.add_argument("--jobs", metavar="N", type=int, default=len(os.sched_getaffinity(0)),
                        help="compilers and tests at a time (default: the cores this process may use)")
    parser.add_argument("--filter", metavar="REGEX", help="of the tests in build folders, those whose names match")
    parser.add_argument("--tidy-minutes", metavar="N", type=float, default=10, help="time for clang-tidy (default 10)")
    parser.add_argument("--minutes", metavar="N", type=float,
                        help="for all legs together: what has not run by then has failed (default: no limit)")
    parser.add_argument("--unity", action="store_true",
                        help="compile several sources of a target together: faster for who builds everything once")
    options = parser.parse_args(arguments)
    if options.minutes is not None and options.minutes <= 0:
        parser.error("--minutes must be more than 0")
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    if options.build and (options.only or options.all):
        parser.error("--build runs no legs, so --only and --all have no meaning with it")
    if options.only and options.all:
        parser.error("--only names legs, and --all means each")
    if options.build and not options.build.is_dir():
        parser.error(f"--build: there is no folder {options.build}")
    chosen = options.only.split(",") if options.only else list(legs.LEGS if options.all else legs.EVERYDAY)
    unknown = [leg for leg in chosen if leg not in legs.LEGS]
    if unknown:
        parser.error(f"--only: no leg {', '.join(unknown)}; there are {', '.join(legs.LEGS)}")
    # Set-up comes first whatever was chosen: where all is there it takes no time.
    options.legs = [leg for leg in legs.LEGS if leg in chosen or leg == "setup"]
    return options


def run_leg(name, work):
    """(cases, seconds) of one leg, shown as it goes. `work` takes a function that prints a remark."""
    say(f"{name} ...")
    start = time.monotonic()
    remarks = []
    try:
        cases = work(remarks.append)
    except legs.NeedsRoot:
        raise
    except Exception as error:  # a fault of the runner is a failure of the leg, and the other legs still run
        import traceback

        cases = [Case(name, "runner", FAILED, 0.0, f"{error}\n{traceback.format_exc()}")]
    seconds = time.monotonic() - start
    passed, failed, skipped = count(cases)
    verdict = "FAILED" if failed else "ok"
    say(f"  {verdict}: {passed} passed, {failed} failed, {skipped} skipped, in {duration(seconds)}"
        + (f" ({'; '.join(remarks)})" if remarks else ""))
    for case in cases:
        if case.outcome == FAILED:
            text = case.text.rstrip()
            left_out = len(text) - 2 * _SHOWN_CHARACTERS
            if left_out > 0:
                text = f"{text[:_SHOWN_CHARACTERS]}\n... {left_out} characters ...\n{text[-_SHOWN_CHARACTERS:]}"
            say(f"  ---- {name}: {case.name} failed")
            say("\n".join("  | " + line for line in text.splitlines()) or "  | (no output)")
    return cases, seconds


def why(text):
    """Of a failed test's output, in a few short lines, where it says what is wrong; else its end."""
    lines = [line for line in text.splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if _SAYS_WHAT_IS_WRONG.search(line)), max(0, len(lines) - _REASON_LINES))
    return [line[:_REASON_COLUMNS] for line in lines[first : first + _REASON_LINES]]


def report(cases, seconds_of_leg, junit, compiled=()):
    """Prints the end and returns the exit status."""
    if not any(case.outcome != SKIPPED for case in cases):
        cases.append(Case("tools/test", "any", FAILED, 0.0, "no test was run"))
        say("no test was run, which is a failure")
    try:
        write_junit(junit, cases, seconds_of_leg)
    except OSError as error:
        # Whoever reads the file would read an older one.
        cases.append(Case("tools/test", "junit", FAILED, 0.0, f"{junit}: {error.strerror}"))
        say(f"the JUnit file could not be written: {junit}: {error.strerror}")
    failures = [case for case in cases if case.outcome == FAILED]
    reasons = {}
    for case in cases:
        if case.outcome == SKIPPED:
            reasons.setdefault((case.name, case.text), []).append(case.leg)
    if reasons:
        say("skipped:")
        for (name, reason), in_legs in reasons.items():
            say(f"  {name} ({', '.join(in_legs)}): {reason}")
    for line in slowest.lines(cases, compiled):
        say(line)
    if len(seconds_of_leg) > 1:
        say("legs: " + ", ".join(f"{name} {duration(seconds)}" for name, seconds in seconds_of_leg.items()))
    say(f"results: {junit}; total {duration(sum(seconds_of_leg.values()))}")
    # Behind all that is long: whoever keeps only the end of the output still learns which tests failed.
    if failures:
        say("failed:")
        for case in failures:
            say(f"  {case.leg}: {case.name}")
            for line in why(case.text):
                say(f"    | {line}")
    passed, failed, skipped = count(cases)
    say(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def main(arguments):
    options = parse(arguments)
    junit = options.junit or (options.build.resolve() if options.build else ROOT / "build") / "junit.xml"
    cases, seconds_of_leg, folders = [], {}, []
    start = time.time()
    deadline = legs.Deadline(options.minutes)
    if options.build:
        found, seconds_of_leg["prepared"] = run_leg(
            "prepared",
            lambda note: ctest.run_tests(options.build, ROOT, "prepared", options.jobs, options.filter, note=note))
        return report(found, seconds_of_leg, junit)
    for name in options.legs:
        try:
            found, seconds_of_leg[name] = run_leg(
                name, lambda note: legs.LEGS[name](
                    legs.Context(ROOT, options.jobs, options.filter, options.tidy_minutes, note, folders.append, options.unity,
                                 deadline)))
        except legs.NeedsRoot as needs:
            cases.append(Case(name, "setup", FAILED, 0.0, str(needs)))
            report(cases, seconds_of_leg, junit)
            # Last but for the count: what the reader has to do.
            print(needs, file=sys.stderr, flush=True)
            return 2
        cases += found
        if name == "setup" and any(case.outcome == FAILED for case in found):
            say("the other legs need what set-up could not bring, so they were not run")
            break
    compiled = [each for folder in dict.fromkeys(folders) for each in slowest.sources(folder, start)]
    return report(cases, seconds_of_leg, junit, compiled)


if __name__ == "__main__":
    # As an interrupt does: what was started ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
