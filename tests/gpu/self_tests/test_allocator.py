"""The checks of the pool pass where all is well, and fail at every kind of difference, idle pool and missing piece.

The races run in earnest: the real library on the simulated device, with and without its fences.
"""

import contextlib
import json
import os
import pathlib
import sys
import unittest
from unittest import mock

import support
from suite import allocator, harness, summary
from suite.harness import Failed, Result, Skipped

# slipstream run --quiet --summary FILE -- COMMAND...
SLIPSTREAM = """#!/bin/bash
cp "$DECISIONS" "$4"
shift 5
exec "$@"
"""
# Answers as pool_calls does; times by who it runs under.
POOL_CALLS = f"""#!{sys.executable}
import json, os, re, sys
calls = re.search(r"filter=.(\\w+)/", " ".join(sys.argv))[1]
by = {{"segments": "pooled"}}.get(os.environ.get("SLIPSTREAM_ALLOCATOR_MODE"), calls)
times = json.loads(os.environ["TIMES"])
rows = []
for state, counts in (("idle", (1, 2, 4, 8, 16)), ("behind", (1,))):
    for size in ("2MiB", "20MiB", "256MiB", "1GiB"):
        for threads in counts:
            p50 = times[by][state]
            rows.append({{"name": f"{{calls}}/{{state}}/{{size}}/iterations:1/manual_time/threads:{{threads}}",
                         "threads": threads, "p50_ns": p50, "p99_ns": 2 * p50}})
print(json.dumps({{"context": {{"clock_ns": "20.0"}}, "benchmarks": rows}}))
"""
# As driver_calls does: 150 ns of them for a pair, idle or behind work.
DRIVER_CALLS = f"""#!{sys.executable}
import json
times = {{"record_ask/real_time/threads:1": 150, "record/new": 60, "ask/pending": 50, "wait": 40, "memory_info": 4000}}
print(json.dumps({{"benchmarks": [{{"name": name, "real_time": ns}} for name, ns in times.items()]}}))
"""
GOOD_TIMES = {
    "malloc": {"idle": 47_000, "behind": 900_000},
    "async": {"idle": 500, "behind": 500},
    "pooled": {"idle": 400, "behind": 419},
}
ACTED = ("parked", "reused", "grown", "reclaimed", "trimmed", "freed.shared", "reused.behind")


def seen(*names):
    decisions = {f"allocator.{name}": {"count": 3, "bytes": 0, "time_ns": 0} for name in names}
    return {"totals": {"functions": [], "decisions": decisions}}


@contextlib.contextmanager
def suite_with(decisions=ACTED, times=None, programs=True):
    """A suite whose slipstream, pool_calls and driver_calls are scripts."""
    temporary = support.TemporarySuite()
    with temporary as suite, mock.patch.dict(os.environ):
        root = pathlib.Path(temporary.directory.name)
        (root / "bench" / "gpu").mkdir(parents=True)
        files = [(root / "slipstream", SLIPSTREAM)]
        if programs:
            files.append((root / "bench" / "gpu" / "pool_calls", POOL_CALLS))
            files.append((root / "bench" / "gpu" / "driver_calls", DRIVER_CALLS))
        for path, text in files:
            path.write_text(text)
            path.chmod(0o755)
        (root / "decisions").write_text(json.dumps(seen(*decisions)))
        os.environ.update(
            DECISIONS=str(root / "decisions"), TIMES=json.dumps(times or GOOD_TIMES), CUDA_HOME=str(root)
        )
        suite.build, suite.slipstream = root, root / "slipstream"
        yield suite


class Summary(unittest.TestCase):
    def test_the_pool_must_have_acted(self):
        self.assertIn("3 parked, 3 reused", summary.expect_pooled(seen("parked", "reused")))
        # What is below a name counts for it.
        summary.expect_pooled(seen("parked", "reused.behind"))
        for idle in (seen("grown"), seen("parked"), seen("reused"), {"totals": {"functions": []}}):
            with self.assertRaises(Failed):
                summary.expect_pooled(idle)
        with self.assertRaisesRegex(Failed, "allocator.trimmed"):
            summary.expect_pooled(seen("parked", "reused"), "parked", "trimmed")


class Names(unittest.TestCase):
    def test_runs_only_where_it_is_named(self):
        for only, wanted in (("", False), ("inert", False), ("allocator", True), ("allocator.race", True)):
            with support.TemporarySuite(only=only) as suite:
                self.assertEqual(wanted, suite.wanted("allocator.race"), only)

    def test_no_name_twice(self):
        with support.TemporarySuite() as suite:
            checks = allocator.races(suite) + allocator.side_by_side(suite) + allocator.measurements(suite)
            names = [name for name, _ in checks]
            self.assertEqual(len(names), len(set(names)))
            self.assertEqual({"allocator"}, {name.split(".")[0] for name in names})


@unittest.skipIf(os.environ.get("GPU_TEST_SANITIZER"), "a sanitized library is not preloaded into plain programs")
class Races(unittest.TestCase):
    """On the simulated device, under ctest."""

    @contextlib.contextmanager
    def races(self):
        build = pathlib.Path(os.environ["GPU_TEST_BUILD"])
        with support.TemporarySuite(build=str(build)) as suite:
            suite.rehearsal = True
            yield suite, dict(allocator.races(suite))

    def test_bare_pooled_and_without_fences(self):
        with self.races() as (_, checks):
            self.assertEqual(4, len(checks))
            for name, check in checks.items():
                with self.subTest(name):
                    check({})

    def test_a_rule_that_nobody_breaks_is_found_out(self):
        with self.races() as (_, checks):
            race = allocator.Race.race

            def unbroken(self, full, prefix=(), env=None):
                return race(self, full, prefix, {k: v for k, v in env.items() if k != "BROKEN_RULE"})

            with mock.patch.object(allocator.Race, "race", unbroken):
                for name in ("race_without_fence", "race_without_wait"):
                    with self.assertRaisesRegex(Failed, "the race cannot fail"):
                        checks[f"allocator.{name}"]({})

    def test_a_pool_that_loses_bytes(self):
        with self.races() as (suite, checks):
            # The broken library in the place of the good one, under `slipstream run`'s own preload.
            broken = {"LD_PRELOAD": str(suite.build / "preload" / "libslipstream_mutants.so")}
            race = allocator.Race.race

            def without_fence(self, full, prefix=(), env=None):
                if not prefix:
                    return race(self, full)
                result, same, right = race(self, full, env=env | broken | {"BROKEN_RULE": "S30"})
                race(self, full, prefix, env)  # for the summary
                return result, same, right

            with mock.patch.object(allocator.Race, "race", without_fence):
                for name in ("race", "race_memory_full"):
                    with self.assertRaisesRegex(Failed, "WRONG BYTES"):
                        checks[f"allocator.{name}"]({})

    def test_a_pool_that_is_off(self):
        with self.races() as (_, checks):
            off = {"SLIPSTREAM_ALLOCATOR_MODE": "off"}
            race = allocator.Race.race
            with mock.patch.object(
                allocator.Race, "race", lambda self, full, prefix=(), env=None: race(self, full, prefix, (env or {}) | off)
            ):
                with self.assertRaisesRegex(Failed, "did not act"):
                    checks["allocator.race"]({})

    def test_no_test_library_is_a_failure(self):
        with self.races() as (suite, checks):
            suite.build = suite.workdir
            for name in ("race_without_fence", "race_without_wait"):
                with self.assertRaisesRegex(Failed, "libslipstream_mutants.so is not there"):
                    checks[f"allocator.{name}"]({})

    def test_output_that_is_not_as_expected(self):
        with support.TemporarySuite() as suite:
            race = allocator.Race(suite)
            for output, status in (
                (b"", 0),
                (b"20 rounds, same address in 3, all bytes as expected\n", 1),
                (b"20 rounds, same address in 3, 7 WRONG BYTES\n", 0),
                (b"20 rounds, same address in 3, all bytes as expected\n", 139),
            ):
                race.run = lambda *_, output=output, status=status, **__: Result(status, output, b"", 1)
                with self.assertRaises(Failed):
                    race.race(False)


class Pairs(unittest.TestCase):
    def run_checks(self, of_driver=True, **settings):
        """The check of 20 MiB on an idle device and behind work, and of the threads."""
        with suite_with(**settings) as suite:
            checks = dict(allocator.pair_checks(suite))
            with contextlib.redirect_stdout(None):
                checks["allocator.pairs"]({})
                if of_driver:
                    checks["allocator.driver_calls"]({})
            self.assertTrue((suite.out / "results.json").exists())
            names = ("pair_idle_20MiB", "pair_behind_20MiB", "pair_threads")
            return [checks[f"allocator.{name}"]({}) for name in names]

    def test_within_the_target(self):
        idle, behind, threads = self.run_checks()
        self.assertIn("pooled 380 ns (p99 780)", idle)
        self.assertIn("the driver's record_ask/threads:1 150 ns, target 400 ns", idle)
        self.assertIn("bare 899980 ns", behind)
        self.assertIn("the driver's record/new + ask/pending + wait 150 ns, target 400 ns", behind)
        self.assertIn("16: 380 (46980 bare, 480 stream-ordered)", threads)

    def test_over_the_target(self):
        for state in ("idle", "behind"):
            slow = {**GOOD_TIMES, "pooled": {**GOOD_TIMES["pooled"], state: 421}}
            with self.assertRaisesRegex(Failed, "over the target"):
                self.run_checks(times=slow)

    def test_without_the_drivers_times_nothing_is_shown(self):
        with self.assertRaisesRegex(Failed, "driver's calls take is not measured"):
            self.run_checks(of_driver=False)

    def test_a_bare_free_that_did_not_wait_shows_nothing(self):
        with self.assertRaisesRegex(Failed, "nothing is shown"):
            self.run_checks(times={**GOOD_TIMES, "malloc": {"idle": 47_000, "behind": 50_000}})

    def test_an_idle_pool(self):
        with self.assertRaisesRegex(Failed, "did not act"):
            self.run_checks(decisions=())

    def test_no_program(self):
        with self.assertRaisesRegex(Failed, "must have it"):
            self.run_checks(programs=False)

    def test_not_measured(self):
        with suite_with() as suite, self.assertRaisesRegex(Failed, "not measured"):
            dict(allocator.pair_checks(suite))["allocator.pair_idle_2MiB"]({})

    def test_reports(self):
        row = {"name": "malloc/idle/2MiB/iterations:1/manual_time/threads:4", "threads": 4, "p50_ns": 50, "p99_ns": 90}
        report = {"context": {"clock_ns": "20.0"}, "benchmarks": [row]}
        key = ("malloc", "idle", "2MiB", 4)
        self.assertEqual({key: {"p50": 30.0, "p99": 70.0}}, allocator.pairs_of_report(report))
        with self.assertRaises(Failed):
            allocator.pairs_of_report({**report, "benchmarks": [{**row, "error_occurred": True}]})
        with self.assertRaises(Failed):
            allocator.medians([{key: {}}, {}])


class Answers:
    """A process that takes turns, as suite.paced.Paced; its steps take so long."""

    def __init__(self, seconds, report=None):
        self.seconds = seconds
        self.reports = 0
        self._report = report

    def read(self, timeout):
        del timeout

    def block(self, workload, lead, steps, timeout=0):
        del workload, lead, timeout
        return self.seconds * steps

    def report(self, workload):
        """At first there were two retries, afterwards as many more as it was told."""
        del workload
        self.reports += 1
        more = self.reports > 1
        return {**self._report, **{key: 2 + (self._report[key] if more else 0) for key in ("retries", "driver_frees")}}

    def ask_to_end(self):
        pass

    def end(self, timeout):
        del timeout


class Loops(unittest.TestCase):
    def run_check(self, function, processes, decisions=ACTED):
        with suite_with(decisions) as suite:
            (suite.workdir / "s.json").write_text(json.dumps(seen(*decisions)))
            summaries = {name: suite.workdir / "s.json" for name in processes}
            with mock.patch.object(allocator, "started", lambda *_: (processes, summaries)):
                data = {}
                return function(suite)(data), data

    def empty_cache(self, pooled_every, **more):
        steps = {"bare_never": 0.01, "bare_every": 0.013, "pooled_never": 0.01, "pooled_every": pooled_every}
        return self.run_check(allocator.empty_cache, {name: Answers(value) for name, value in steps.items()}, **more)

    def test_empty_cache(self):
        text, data = self.empty_cache(0.01005)
        self.assertIn("pooled 1.0050", text)
        self.assertIn("bare 1.3000", text)
        self.assertEqual(allocator.ROUNDS, data["pooled_every_to_never"]["pairs"])
        with self.assertRaisesRegex(Failed, "1.0200, and at most 1.01"):
            self.empty_cache(0.0102)
        with self.assertRaisesRegex(Failed, "did not act"):
            self.empty_cache(0.01, decisions=("grown",))

    def lengths(self, pooled=0.01, retries=(4, 4), change=None, count=200, **more):
        losses = [float(number).hex() for number in range(count)]
        other = [*losses[:-1], change] if change else losses
        processes = {
            "bare": Answers(0.01, {"losses": losses, "retries": retries[0], "driver_frees": 9}),
            "pooled": Answers(pooled, {"losses": other, "retries": retries[1], "driver_frees": 9}),
        }
        return self.run_check(allocator.lengths, processes, **more)

    def test_lengths(self):
        self.assertIn("200 losses equal", self.lengths()[0])
        for problem, settings in (
            ("1.0200, and at most", {"pooled": 0.0102}),
            ("nothing is shown", {"retries": (4, 0)}),
            ("nothing is shown", {"retries": (0, 4)}),
            ("losses differ", {"change": (-1.0).hex()}),
            ("losses differ", {"count": 3}),
            ("did not act", {"decisions": ()}),
        ):
            with self.subTest(problem), self.assertRaisesRegex(Failed, problem):
                self.lengths(**settings)

    def test_when_the_time_is_over_nothing_counts(self):
        with self.assertRaisesRegex(Failed, "after 0 of 7 pairs"):
            allocator.take_turns({"x": Answers(1)}, "w", 1, 0, 7, 0)

    def test_the_first_round_does_not_count_and_the_order_rotates(self):
        asked = []

        class Named(Answers):
            def block(self, *_, **__):
                asked.append(self.seconds)
                return len(asked)

        found = allocator.take_turns({"a": Named("a"), "b": Named("b")}, "w", 1, 0, 2, float("inf"))
        self.assertEqual(["b", "a", "a", "b", "b", "a"], asked)
        self.assertEqual([{"a": 3, "b": 4}, {"a": 6, "b": 5}], found)


class SecondProcess(unittest.TestCase):
    def run_check(self, pooled_seconds, taken=True, both=False, decisions=ACTED):
        class Process:
            def __init__(self, suite, log, argv, environment):
                del suite, argv
                self.kind = log.split(".")[-2:]
                self.pooled = "SLIPSTREAM_ALLOCATOR_MODE" in environment

            def read(self, timeout):
                del timeout

            def ask(self, request, timeout=0):
                del timeout
                name, which = self.kind
                if request.get("release"):
                    return {"seconds": 0.0}
                if request["within"] < 1:
                    return {"taken": both, "seconds": 0.1, "attempts": 2}
                pooled = which == "second" and name == "pooled"
                return {
                    "taken": taken if pooled else True,
                    "seconds": pooled_seconds if pooled else 0.05,
                    "attempts": 1,
                }

            def ask_to_end(self):
                pass

            def end(self, timeout):
                del timeout

        with suite_with(decisions) as suite, mock.patch.object(allocator, "Conversation", Process):
            directory = suite.scratch("allocator/second_process")
            (directory / "summary.json").write_text(json.dumps(seen(*decisions)))
            return allocator.second_process(suite)({})

    def test_in_time(self):
        self.assertIn("2.40 s after a pooled one", self.run_check(2.4))

    def test_differences(self):
        for problem, settings in (
            ("more than 3.0 s", {"pooled_seconds": 3.1}),
            ("never", {"pooled_seconds": 9.0, "taken": False}),
            ("nothing is shown", {"pooled_seconds": 1.0, "both": True}),
            ("did not act", {"pooled_seconds": 1.0, "decisions": ("parked",)}),
        ):
            with self.subTest(problem), self.assertRaisesRegex(Failed, problem):
                self.run_check(**settings)


class Once(unittest.TestCase):
    def run_check(self, bare, pooled, decisions=ACTED):
        """What a program prints, bare and pooled."""
        code = (
            "import os; pooled = 'SLIPSTREAM_ALLOCATOR_MODE' in os.environ;"
            f"print({json.dumps(pooled)!r} if pooled else {json.dumps(bare)!r})"
        )
        with suite_with(decisions) as suite, contextlib.redirect_stdout(None):
            return allocator.once(
                suite,
                "x",
                [sys.executable, "-c", code],
                "seconds",
                ("sum",),
                allocator.POOL,
                60,
                lambda found: summary.expect_pooled(found, "grown"),
            )({})

    def test_same_and_not_slower(self):
        self.assertIn("ratio 1.1000", self.run_check({"seconds": 1.0, "sum": 1}, {"seconds": 1.1, "sum": 1}))

    def test_differences(self):
        good = {"seconds": 1.0, "sum": 1}
        for problem, arguments in (
            ("ratio 1.2000", (good, {"seconds": 1.2, "sum": 1})),
            ("differ", (good, {"seconds": 1.0, "sum": 2})),
            ("did not act", (good, good, ("parked",))),
        ):
            with self.subTest(problem), self.assertRaisesRegex(Failed, problem):
                self.run_check(*arguments)


class OutOfMemory(unittest.TestCase):
    LINES = "".join(f"{n} out of memory with 8\n{n} out of memory with 4\n{n} batch 2 [1]\n" for n in range(3))

    def run_check(self, bare, pooled, decisions=ACTED):
        with suite_with(decisions) as suite:
            suite.python = suite.workdir / "python"
            (suite.workdir / "bare").write_text(bare)
            (suite.workdir / "pooled").write_text(pooled)
            suite.python.write_text(
                f'#!/bin/bash\ncat {suite.workdir}/$([ -n "$SLIPSTREAM_ALLOCATOR_MODE" ] && echo pooled || echo bare)\n'
            )
            suite.python.chmod(0o755)
            return allocator.out_of_memory(suite)({})

    def test_same(self):
        self.assertIn("6 errors caught", self.run_check(self.LINES, self.LINES))

    def test_differences(self):
        for problem, arguments in (
            ("stdout differs", (self.LINES, self.LINES.replace("batch 2", "batch 1"))),
            ("not halved", ("0 batch 8 [1]\n", "0 batch 8 [1]\n")),
            ("printed nothing", ("", "")),
            ("did not act", (self.LINES, self.LINES, ("parked",))),
        ):
            with self.subTest(problem), self.assertRaisesRegex(Failed, problem):
                self.run_check(*arguments)


class Trims(unittest.TestCase):
    def run_check(self, trimmed, longest=(9.0, 7.0, 8.0)):
        with suite_with(()) as suite:
            turns = iter(longest * len(allocator.TRIMMED))

            def command(_log, argv, **_):
                *_, blocks, _mib = argv
                path = suite.scratch(f"allocator/trim_beside_training.{blocks}x{argv[-1]}MiB") / "summary.json"
                decisions = {"allocator.trimmed": {"count": trimmed(blocks)}}
                path.write_text(json.dumps({"totals": {"decisions": decisions}}))
                found = {"step_ms": 1.5, "lost_ms": blocks / 8, "longest_ms": next(turns)}
                return harness.Result(0, json.dumps(found).encode(), b"", 1.0)

            suite.command = command
            return allocator.trim_beside_training(suite)({})

    def test_what_it_says(self):
        text = self.run_check(lambda blocks: blocks)
        self.assertIn("40 blocks of 256 MiB: 5.0 ms lost (5.0 to 5.0), longest step ", text)
        self.assertTrue(text.startswith("reported, not asserted: 0 blocks"))

    def test_where_nothing_was_given_back_nothing_is_shown(self):
        with self.assertRaisesRegex(Failed, "39 blocks were given back, not 40"):
            self.run_check(lambda blocks: min(blocks, 39) if blocks == 40 else blocks)


class Guards(unittest.TestCase):
    def test_what_needs_two_devices(self):
        with support.TemporarySuite() as suite:
            checks = dict(allocator.side_by_side(suite))
            for name in ("allocator.peer_copies", "allocator.ddp"):
                with self.assertRaisesRegex(Skipped, "needs two GPUs"):
                    checks[name]({})
            suite.rehearsal = True
            with self.assertRaisesRegex(Skipped, "needs a GPU"):
                checks["allocator.peer_copies"]({})

    def test_sharing(self):
        lines = "".join(f"round {number} wrong bytes 0 0 0 dropped\n" for number in range(3)) + "status 0\n"

        def run(stdout, loaded, status=0, decisions=ACTED):
            with suite_with(decisions) as suite:
                suite.python = suite.workdir / "python"
                (suite.workdir / "stdout").write_text(stdout)
                (suite.workdir / "stderr").write_text(json.dumps(loaded) + "\n")
                suite.python.write_text(
                    f"#!/bin/bash\ncat {suite.workdir}/stdout; cat {suite.workdir}/stderr >&2; exit {status}\n"
                )
                suite.python.chmod(0o755)
                return dict(allocator.side_by_side(suite))["allocator.share_tensors_pooled_bare"]({})

        right = {"producer": True, "consumer": False}
        self.assertIn("all bytes as expected", run(lines, right))
        for problem, arguments in (
            ("exit status 1", (lines.replace("bytes 0", "bytes 4"), right, 1)),
            ("printed", (lines.replace("bytes 0", "bytes 4"), right)),
            ("printed", (lines.replace("status 0\n", ""), right)),
            ("slipstream was in", (lines, {"producer": False, "consumer": False})),
            ("did not act", (lines, right, 0, ("grown",))),
        ):
            with self.subTest(problem), self.assertRaisesRegex(Failed, problem):
                run(*arguments)


class OnRequest(unittest.TestCase):
    def test_the_groups_are_known(self):
        script = support.load_script(support.REPOSITORY / "tools" / "gpu-suite")
        with support.TemporarySuite() as suite:
            groups = {name.split(".")[0] for checks, _ in script.check_groups(suite) for name, _ in checks}
        self.assertLessEqual(set(harness.ON_REQUEST), groups)


if __name__ == "__main__":
    unittest.main()
