"""The group peers: programs that stand in for a library's, and counts of the driver with every kind of difference."""

import contextlib
import copy
import json
import os
import pathlib
import sys
import unittest
from unittest import mock

import support
from suite import counts, harness, levels, nsight, peers
from suite.harness import Failed, Skipped

# slipstream policy check FILE; slipstream run --quiet --summary FILE -- COMMAND...
SLIPSTREAM = """#!/bin/bash
if [ "$1" = policy ]; then
  [ -n "$OLD_BUILD" ] && grep -q driver "$3" && { echo "$3:4:9: not in this version" >&2; exit 1; }
  exit 0
fi
calls=${CALLS:-5}
[ "$SLIPSTREAM_INTERCEPT_LEVEL" = driver ] && calls=${DRIVER_CALLS:-9}
echo "{\\"totals\\": {\\"functions\\": [{\\"name\\": \\"cudaMalloc\\", \\"calls\\": $calls}]}}" > "$4"
shift 5
UNDER=1 exec "$@"
"""
PROGRAM = """
import hashlib, os, sys, uuid
what = os.environ.get("MODE", "")
if what == "broken":
    sys.exit("no such device")
seed = "1" if what == "no seed" else sys.argv[1]
if what == "driver wrong" and os.environ.get("SLIPSTREAM_INTERCEPT_LEVEL") == "driver":
    seed += "wrong"
if what == "random":
    seed += uuid.uuid4().hex
if what == "status" and os.environ.get("UNDER"):
    sys.exit(3)
if what != "silent":
    print("first", hashlib.sha256(seed.encode()).hexdigest())
    print("second", hashlib.sha256(b"constant" if what == "half" else seed.encode()).hexdigest())
"""


@contextlib.contextmanager
def check_of(mode="", peer=None, **environment):
    temporary = support.TemporarySuite()
    with temporary as suite, mock.patch.dict(os.environ):
        root = pathlib.Path(temporary.directory.name)
        suite.slipstream = root / "slipstream"
        suite.slipstream.write_text(SLIPSTREAM)
        suite.slipstream.chmod(0o755)
        (root / "program.py").write_text(PROGRAM)
        os.environ.update(MODE=mode, **environment)
        peer = peer or peers.Peer((root / "program.py", peers.SEED))
        yield peers.check_of(suite, "stand_in", peer, levels.Refusals(suite, "peers"))


class Digests(unittest.TestCase):
    def test_as_bare(self):
        with check_of() as check:
            data = {}
            self.assertEqual("2 digests as bare: runtime (5 seen), driver (9 seen)", check(data))
            self.assertEqual({"runtime": {"calls_seen": 5}, "driver": {"calls_seen": 9}}, data["levels"])

    def test_a_level_that_this_build_does_not_know(self):
        with check_of(OLD_BUILD="1") as check:
            data = {}
            self.assertIn("not in this build: driver", check(data))
            self.assertEqual("not in this version", data["levels"]["driver"])

    def test_differences(self):
        for mode, text in (
            ("driver wrong", r"^driver: stdout differs"),
            ("status", r"^runtime: exit status differs: bare 0, slipstream 3.*; driver: exit status"),
            ("random", "two bare runs are not equal"),
            ("no seed", "another seed gave the same: first"),
            ("half", "another seed gave the same: second"),
            ("silent", "printed no digest"),
        ):
            with check_of(mode) as check, self.assertRaisesRegex(Failed, text):
                check({})

    def test_what_shows_nothing(self):
        with check_of(CALLS="0") as check, self.assertRaisesRegex(Failed, "runtime: slipstream saw no call"):
            check({})
        with check_of(DRIVER_CALLS="0") as check, self.assertRaisesRegex(Failed, "driver: slipstream saw no call"):
            check({})
        # Where the library has a runtime of its own, nothing can be seen at the runtime level.
        own = peers.Peer(
            ("-c", "import hashlib, sys; print(hashlib.sha256(sys.argv[1].encode()).hexdigest())", peers.SEED),
            shared_runtime=False,
        )
        with check_of(peer=own, CALLS="0") as check:
            self.assertIn("runtime (0 seen), driver (9 seen)", check({}))

    def test_skipped(self):
        with check_of("broken") as check, self.assertRaisesRegex(Skipped, "exit status 1: no such device"):
            check({})
        with check_of(peer=peers.Peer(("-c", "1"), package="cupy")) as check, self.assertRaisesRegex(
            Skipped, "no cupy"
        ):
            check({})
        with check_of(peer=peers.Peer(("-c", "1"), two_gpus=True)) as check, self.assertRaisesRegex(
            Skipped, "two GPUs"
        ):
            check({})

    def test_programs_are_there_and_named_once(self):
        with support.TemporarySuite() as suite:
            found = peers.side_by_side(suite) + peers.tools(suite)
            self.assertEqual(len(found), len({name for name, _ in found}))
            self.assertEqual({peers.GROUP}, {name.split(".")[0] for name, _ in found})
        for name, peer in peers.PEERS.items():
            scripts = [part for part in peer.arguments if isinstance(part, pathlib.Path)]
            self.assertTrue(scripts and all(script.exists() for script in scripts), name)
            for script in scripts:
                compile(script.read_text(encoding="utf-8"), str(script), "exec")
        self.assertIn(peers.GROUP, harness.ON_REQUEST)


HOOKED = {"cudaMalloc", "cudaLaunchKernel"}


def row(
    function, calls, inside=None, runtime=None, first="libcublasLt.so.13", caller="libcublasLt.so.13", behind=False
):
    return {
        "function": function,
        "inside": inside,
        "runtime": runtime,
        "shared_runtime": bool(runtime and runtime.startswith("libcudart.so")),
        "first": first,
        "caller": caller,
        "behind_hook": behind,
        "at_mark": None,
        "at_exit": calls,
    }


SHARED, FIXED, OURS = "libcudart.so.13", "libcublasLt.so.13", "libslipstream.so"
ROWS = [
    # Launches of PyTorch's by the shared runtime, which its hook has counted, and of cuBLAS's by its own.
    row("cuLaunchKernel", 100, "cudaLaunchKernel_v7000", SHARED, OURS, SHARED, True),
    row("cuLaunchKernel", 30, "cudaLaunchKernel_v7000", FIXED, OURS, FIXED),
    # At the runtime's start no callback says where the thread is, but the stack does.
    row("cuMemAlloc_v2", 2, None, None, SHARED, SHARED, True),
    # Where no frame of the hook shows, the runtime function does.
    row("cuMemAlloc_v2", 3, "cudaMalloc_v3020", SHARED, SHARED, SHARED),
    # A function that is not hooked, in the shared runtime.
    row("cuMemAlloc_v2", 4, "cudaMallocPitch_v3020", SHARED, OURS, SHARED),
    row("cuEventQuery", 7, None, None, OURS, "libtorch_cuda.so"),
]


class Driver(unittest.TestCase):
    def test_names(self):
        self.assertEqual("cuMemAlloc", peers.driver_name("cuMemAlloc_v2"))
        self.assertEqual("cuMemcpyHtoDAsync_ptsz", peers.driver_name("cuMemcpyHtoDAsync_v2_ptsz"))
        self.assertEqual("cuLaunchKernelEx", peers.driver_name("cuLaunchKernelEx"))
        runtime, driver = peers.split({"cudaMalloc": 2, "cuMemAlloc_v2": 3, "cuMemAlloc": 1, "__cudaLaunchKernel": 4})
        self.assertEqual({"cudaMalloc": 2, "__cudaLaunchKernel": 4}, runtime)
        self.assertEqual({"cuMemAlloc": 4}, driver)

    def test_what_the_runtimes_hooks_have_counted_is_left_out(self):
        self.assertEqual({"cuLaunchKernel": 30, "cuMemAlloc": 4, "cuEventQuery": 7}, peers.driver_calls(ROWS, HOOKED))
        self.assertEqual({"libcublasLt.so.13": 30, "libtorch_cuda.so": 7, SHARED: 4}, peers.callers_of(ROWS, HOOKED))
        own = peers.driver_calls(
            [row("cuEventQuery", 7, None, None, OURS, "libtorch_cuda.so"), *ROWS[:4]], set(), own=True
        )
        self.assertEqual({"cuEventQuery": 7, "cuLaunchKernel": 30}, own)

    def compare(self, ours, theirs, own=None, hooked=("cuLaunchKernel", "cuMemAlloc_v2")):
        return peers.compare_driver(ours, theirs, own or {}, hooked)

    def test_equal(self):
        rows, problems = self.compare({"cuLaunchKernel": 30, "cuMemAlloc": 4}, {"cuLaunchKernel": 30, "cuMemAlloc": 4})
        self.assertEqual([], problems)
        self.assertEqual({"slipstream": 4, "cupti": 4, "slipstreams_own": 0}, rows["cuMemAlloc"])

    def test_each_difference_is_found(self):
        good = {"cuLaunchKernel": 30, "cuMemAlloc": 4}
        for ours, text in (
            ({**good, "cuLaunchKernel": 130}, "cuLaunchKernel: slipstream +130, CUPTI +30"),  # counted twice
            ({**good, "cuMemAlloc": 3}, "cuMemAlloc: slipstream +3, CUPTI +4"),
            ({"cuLaunchKernel": 30}, "cuMemAlloc: slipstream +0, CUPTI +4"),  # hooked, and never counted
            ({**good, "cuMemFree": 1}, "cuMemFree: slipstream +1, CUPTI +0"),
        ):
            problems = self.compare(ours, good)[1]
            self.assertEqual(1, len(problems), problems)
            self.assertIn(text, problems[0])
        self.assertIn("shows nothing", self.compare({"cuMemAlloc": 4}, {"cuMemAlloc": 4})[1][0])
        # What nobody hooks is nobody's difference.
        self.assertEqual([], self.compare(good, {**good, "cuCtxGetCurrent": 9})[1])

    def test_slipstreams_own_calls(self):
        theirs, own = {"cuLaunchKernel": 30, "cuMemAlloc": 6}, {"cuMemAlloc": 2}
        for mine, wrong in ((4, False), (6, False), (5, True), (3, True), (8, True)):
            problems = self.compare({"cuLaunchKernel": 30, "cuMemAlloc": mine}, theirs, own)[1]
            self.assertEqual(wrong, bool(problems), mine)

    def outcome(self, change=None, refused=None):
        """calls_of on canned counts; change(level, steps, ours, record) makes them wrong."""

        def counted(_suite, _name, _target, _arguments, steps, _libcupti, where, changes):
            self.assertEqual("1", changes["CUPTI_COUNT_DRIVER"])
            level = "driver" if changes.get("SLIPSTREAM_INTERCEPT_LEVEL") == "driver" else "runtime"
            self.assertTrue(where.endswith(level))
            ours = {"cudaMalloc": 4, "cudaLaunchKernel": 100 + 10 * steps}
            theirs = [row("cuLaunchKernel", 3 * steps, "cudaLaunchKernel_v7000", FIXED), *ROWS[2:4]]
            if level == "driver":
                ours |= {"cuLaunchKernel": 3 * steps, "cuInit": 1, "cuGetProcAddress_v2": 440}
            record = {
                "schema": "cupti-count-1",
                "pid": 7,
                "error": "",
                "attribution": {},
                "modules": [
                    {
                        "path": f"/x/{SHARED}",
                        "shared_runtime": True,
                        "functions": {
                            "cudaMalloc_v3020": {"at_mark": 4, "at_exit": 4},
                            "cudaLaunchKernel_v7000": {"at_mark": None, "at_exit": 100 + 10 * steps},
                        },
                    }
                ],
                "driver": theirs,
            }
            record = copy.deepcopy(record)
            if change:
                change(level, steps, ours, record)
            return ours, counts.CuptiCounts(record)

        with support.TemporarySuite() as suite, mock.patch.object(counts, "counted_run", counted), mock.patch.multiple(
            counts, hook_table=lambda: list(HOOKED), driver_hook_table=lambda: ["cuLaunchKernel"]
        ):
            refusals = mock.Mock(reason=lambda level: refused)
            data = {}
            return peers.calls_of(suite, "lm", "program", [], refusals)(data), data

    def test_the_whole_check(self):
        text, data = self.outcome()
        self.assertIn("in 8 steps 1 functions of the driver, 24 calls", text)
        self.assertEqual({"runtime": 4 + 240, "driver": 4 + 240 + 42 + 1}, data["totals"])
        json.dumps(data)

    def test_the_whole_check_finds_what_is_wrong(self):
        def twice(level, steps, ours, _record):
            if level == "driver":
                ours["cuLaunchKernel"] += 10 * steps

        def runtime_lost(level, steps, ours, _record):
            if level == "driver":
                ours["cudaLaunchKernel"] -= steps

        def no_more(_level, steps, ours, record):
            for name in ("cuLaunchKernel", "cuInit"):  # look-ups are no calls
                ours.pop(name, None)
            record["driver"] = []

        def at_runtime_level(level, steps, ours, _record):
            if level == "runtime":
                ours["cuMemAlloc_v2"] = 1

        def old_counter(_level, _steps, _ours, record):
            del record["driver"]

        for change, text in (
            (twice, r"cuLaunchKernel: slipstream \+104, CUPTI \+24"),
            (runtime_lost, r"cudaLaunchKernel: slipstream \+72, CUPTI \+80"),
            (no_more, "no launch by a static runtime.*244 calls at the driver level, 244 at the runtime level"),
            (at_runtime_level, "counted at the runtime level: cuMemAlloc"),
            (old_counter, "of another build"),
        ):
            with self.assertRaisesRegex(Failed, text):
                self.outcome(change)
        with self.assertRaisesRegex(Skipped, "not in this version"):
            self.outcome(refused="not in this version")


class Tools(unittest.TestCase):
    def test_each_level_has_its_policy(self):
        seen = []

        def watched(_suite, _program, _data, policy=None):
            seen.append(policy)
            return "no error"

        def compute(_suite, _program, level):
            return lambda data: seen.append(level.environment())

        with support.TemporarySuite() as suite, mock.patch.object(peers.sanitizer, "watched", watched):
            with mock.patch.object(nsight, "compute", compute):
                with mock.patch.object(levels.Refusals, "reason", lambda self, level: None):
                    for _, check in peers.tools(suite):
                        check({})
                driver = {"SLIPSTREAM_INTERCEPT_LEVEL": "driver"}
                self.assertEqual([{}, {}, driver, driver], seen)
                with mock.patch.object(levels.Refusals, "reason", lambda self, level: "not here"):
                    for _, check in peers.tools(suite):
                        with self.assertRaisesRegex(Skipped, "not here"):
                            check({})


if __name__ == "__main__":
    sys.exit(unittest.main())
