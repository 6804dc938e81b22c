"""Cutting, taking and replaying of kept traces, with made-up ones. REPLAY_SLIPSTREAM is the command; what needs it is skipped without."""

import contextlib
import copy
import gzip
import io
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import again
import cut_spool
import kept
import replay
import take

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "trace_check"))

import spools  # noqa: E402  (the folder is known only now)

SLIPSTREAM = os.environ.get("REPLAY_SLIPSTREAM")
HOOKS = {0: "cudaMemcpyAsync", 1: "cudaLaunchKernel", 2: "cudaStreamSynchronize"}
BEGIN, STEP_NS, STEPS = 5_000_000_000, 1_000_000, 30
DEVICE_BASE, DEVICE_AHEAD = 700, 90_000
SITES = {
    1: ("/job/jane/repo/tests/gpu/faulty/x.py", 10, "main"),
    2: ("/job/jane/venv/lib/python3.11/site-packages/torch/nn.py", 20, "forward"),
    3: ("/job/jane/x.py", 30, "main"),
}
FACTS = {
    "pid": "77",
    "host": "janes-machine",
    "boot_id": "ce3fc05d-c152-44a6-aba8-acf393670477",
    "executable": "/job/jane/bin/python3",
    "runtime": "13000 /usr/lib/libcudart.so.13",
    "deviceWork": "cupti",
    "device.0": "uuid=51515151-5151-5151-5151-515151515100 bus=0000:18:00.0 total_memory=1000 multiprocessors=132 compute_major=9 "
    "compute_minor=0 warp_size=32 threads_per_block=1024 threads_per_multiprocessor=2048 blocks_per_multiprocessor=32 "
    "registers_per_block=65536 registers_per_multiprocessor=65536 shared_per_block=49152 shared_per_block_optin=232448 "
    "shared_per_multiprocessor=233472 name=A device",
}


def spool(dropped=0, steps=STEPS):
    """A loop that uploads, launches and waits; a kernel runs long after its launch. One copy is of no call of the trace."""
    made = spools.Spool(1000)
    made.facts(FACTS)
    made.names(spools.HOOKS, HOOKS)
    made.names(spools.DECISIONS, {1: "transfer.h2d.promoted.small"})
    made.names(spools.KERNELS, {1: "gemm"})
    made.names(spools.CALLERS, {1: "/job/jane/venv/lib/python3.11/site-packages/torch/lib/libc10.so"})
    made.sites(SITES)
    made.thread(1, 77, "main")
    calls, work = [], []
    for step in range(steps):
        at, number = BEGIN + 1000 + step * STEP_NS, step * 3 + 1
        for hook, (start, length) in enumerate(((0, 1000), (50_000, 2000), (600_000, 300_000))):
            calls.append(
                spools.record(
                    spools.CALL, at + start, at + start + length, bytes=4096 * (hook == 0), number=number + hook, site=hook + 1,
                    correlation=number + hook, hook=hook, device=0,
                )  # fmt: skip
            )
        late = at + 2 * STEP_NS + DEVICE_AHEAD
        kernel = (1, 1, 1, 1, 32 | 1 << 16, 1 | 8 << 16)
        work.append(spools.activity(spools.KERNEL, late, late + 5000, 0, 1, 7, number + 1, kernel))
        alone = at + 700_000 + DEVICE_AHEAD
        copied = (4096, 0, 1 | 1 << 8 | 3 << 16, 0xFFFFFFFF, 0xFFFFFFFF)
        work.append(spools.activity(spools.COPY, alone, alone + 100, 0, 1, 7, 0, copied))
    clocks = [
        spools.record(
            spools.DEVICE_CLOCK, at, at + 10, bytes=at + 5 + DEVICE_AHEAD + DEVICE_BASE, stream=DEVICE_BASE, status=reading
        )
        for at, reading in ((BEGIN, 1), (BEGIN + (steps + 5) * STEP_NS, 2))
    ]
    # What stands where a call has its correlation is none: it is that of a later call.
    decision = spools.record(spools.DECISION, BEGIN + 20, BEGIN + 20, decision=1, correlation=max(0, 3 * steps - 1))
    made.records(0, [*clocks, decision])
    made.records(1, calls)
    made.activities(work)
    made.thread_end(1, dropped)
    made.counters(spools.HOOKS, {hook: (steps, 0, 0, 0) for hook in HOOKS})
    made.end(dropped)
    return bytes(made.data)


def slipstream(*words):
    return subprocess.run([SLIPSTREAM, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def needs_slipstream(test):
    return unittest.skipUnless(SLIPSTREAM, "REPLAY_SLIPSTREAM does not say where slipstream is")(test)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rows(self, data, query):
        path = self.folder / "a.spool"
        path.write_bytes(data)
        done = slipstream("export", path, "--sqlite", self.folder / "a.sqlite", "--force")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        with contextlib.closing(sqlite3.connect(self.folder / "a.sqlite")) as database:
            return database.execute(query).fetchall()


class Cut(Folder):
    def test_records_are_cut_at_a_moment(self):
        made = cut_spool.cut(spool(), 1000 + 20 * STEP_NS)
        chunks = cut_spool.chunks(made)
        calls = list(filter(cut_spool.is_call, cut_spool.all_records(chunks)))
        self.assertEqual(60, len(calls))
        self.assertEqual(BEGIN + 1000 + 19 * STEP_NS + 600_000, cut_spool.begin(calls[-1]))
        (kernels,) = [cut_spool.records(payload)[1] for kind, _, _, payload in chunks if kind == spools.ACTIVITIES]
        # 20 kernels of launches before it, though three run later; 20 copies of no call that began before it.
        self.assertEqual([2 + 3 * step for step in range(20)], [number for each in kernels if (number := cut_spool.correlation(11, each))])
        self.assertEqual(40, len(kernels))
        heads = [cut_spool.records(payload)[0] for kind, _, _, payload in chunks if kind in (spools.RECORDS, spools.ACTIVITIES)]
        self.assertEqual([(0, 0, 3), (1, 0, 60), (0, 3, 40)], [(head[0], head[2], head[3]) for head in heads])
        ends = {kind: payload for kind, _, _, payload in chunks if kind in (spools.THREAD_END, spools.END)}
        self.assertEqual((1, 0, 60, 0), cut_spool.THREAD_END.unpack(ends[spools.THREAD_END]))
        self.assertEqual((1, 0, 103, 0), cut_spool.END.unpack_from(ends[spools.END]))
        self.assertNotIn(spools.COUNTERS, [kind for kind, *_ in chunks])

    def test_chunks_are_whole(self):
        made, at = cut_spool.cut(spool(), 20 * STEP_NS), 32
        for number in range(len(cut_spool.chunks(made))):
            _, checksum, length, _, _, counted, _ = cut_spool.CHUNK_HEADER.unpack_from(made, at)
            self.assertEqual((number, spools.crc32c(made[at + 8 : at + 32 + length])), (counted, checksum))
            at += 32 + (length + 7) // 8 * 8
        self.assertEqual(len(made), at)

    def test_names_of_a_machine_go(self):
        for data in (cut_spool.cut(spool()), cut_spool.cut(spool(), 5 * STEP_NS)):
            for word in (b"jane", b"ce3fc05d", b"51515151"):
                self.assertNotIn(word, data)
            for word in (
                b"/repository/tests/gpu/faulty/x.py",
                b"/usr/lib/python3/site-packages/torch/nn.py",
                b"/usr/lib/python3/site-packages/torch/lib/libc10.so",
                b"/elsewhere/x.py",
                b"13000 /usr/lib/libcudart.so.13",
            ):
                self.assertIn(word, data)

    def test_what_is_cut_once_stays(self):
        once = cut_spool.cut(spool(), 7 * STEP_NS)
        self.assertEqual(once, cut_spool.cut(once, 7 * STEP_NS))
        self.assertEqual(once, cut_spool.cut(once))

    def test_what_is_not_whole_is_refused(self):
        for data, why in (
            (b"", "no spool file"),
            (spool()[:-20], "ends within|no chunk"),
            (spool(dropped=3), "dropped"),
            (spool(steps=0)[:32], "no records"),
        ):
            with self.assertRaisesRegex(cut_spool.Unusable, why):
                cut_spool.cut(data, STEP_NS)

    def test_files_are_packed_as_they_are_called(self):
        for name in ("a.spool", "a.spool.gz", "a.spool.xz"):
            cut_spool.write(self.folder / name, b"abc" * 1000)
            self.assertEqual(b"abc" * 1000, cut_spool.read(self.folder / name))
        self.assertLess((self.folder / "a.spool.gz").stat().st_size, 100)
        self.assertLess((self.folder / "a.spool.xz").stat().st_size, 200)

    @needs_slipstream
    def test_slipstream_names_its_rules(self):
        self.assertIn("item-synchronize", kept.rules(SLIPSTREAM))

    @needs_slipstream
    def test_slipstream_reads_the_same_of_what_is_left(self):
        whole, until = spool(), 1000 + 20 * STEP_NS
        made = cut_spool.cut(whole, until)
        for table, columns in (
            ("CUPTI_ACTIVITY_KIND_RUNTIME", "start, end, correlationId"),
            ("CUPTI_ACTIVITY_KIND_KERNEL", "start, end, correlationId"),
            # Of no call: the number is one that slipstream gives it.
            ("CUPTI_ACTIVITY_KIND_MEMCPY", "start, end, bytes"),
        ):
            query = f"SELECT {columns} FROM {table} ORDER BY 1"
            before = self.rows(whole, query)
            calls_of_it = {2 + 3 * step for step in range(20)}
            if table.endswith("KERNEL"):
                expected = [row for row in before if row[2] in calls_of_it]
            else:
                expected = [row for row in before if row[0] < until]
            self.assertTrue(0 < len(expected) < len(before), table)
            self.assertEqual(expected, self.rows(made, query), table)
        steps = "SELECT start FROM SLIPSTREAM_STEPS ORDER BY 1"
        self.assertEqual([(1000 + step * STEP_NS,) for step in range(20)], self.rows(made, steps))
        done = slipstream("export", self.folder / "a.spool", "--check")
        # The copies of no call are missed, as in the whole.
        self.assertIn("20 kernels, copies and sets", done.stdout)
        self.assertNotIn("contradicts", done.stdout)


def found(*rules, steps=30, nothing=()):
    """What `slipstream advise --json` says, of (rule, cost, line)."""
    advice = [{"rule": rule, "cost_per_step_ns": cost, "places": [{"file": "x.py", "line": line}]} for rule, cost, line in rules]
    return {"steps": steps, "step_time_median_ns": 1_000_000, "advice": advice, "nothing_found": list(nothing)}


ENTRY = {"file": "a.spool.xz", "first": "a", "line": 7, "absent": [], "tuned": False, "gain_ns": None}


class Judged(unittest.TestCase):
    def test_what_must_stand_first(self):
        problems = lambda findings, **changed: kept.problems_of({**ENTRY, **changed}, findings)
        self.assertEqual([], problems(found(("a", None, 7), ("b", 1, 8))))
        self.assertIn("does not stand first", problems(found(("b", 1, 7), ("a", 1, 7)))[0])
        self.assertIn("nothing is found", problems(found())[0])
        self.assertIn("without line 7", problems(found(("a", 1, 8)))[0])
        self.assertEqual([], problems(found(("a", 71, 7)), gain_ns=100))
        self.assertIn("the repair gained 100", problems(found(("a", 69, 7)), gain_ns=100)[0])
        self.assertIn("the repair gained 100", problems(found(("a", None, 7)), gain_ns=100)[0])
        self.assertIn("no steps", problems(found(("a", 1, 7), steps=0))[0])

    def test_what_must_be_found_wherever_it_stands(self):
        problems = lambda findings, **changed: kept.problems_of({**ENTRY, "first": None, "found": "a", **changed}, findings)
        self.assertEqual([], problems(found(("a", None, 7))))
        self.assertEqual([], problems(found(("b", 1, 8), ("a", None, 7))))
        self.assertEqual(["a is not found: b"], problems(found(("b", 1, 7))))
        self.assertEqual(["a is not found: nothing is found"], problems(found()))
        self.assertEqual(["a without line 7"], problems(found(("b", 1, 7), ("a", 1, 8))))
        self.assertEqual([], problems(found(("a", 1, 8)), line=None))
        self.assertEqual(["a is not found: b"], problems(found(("b", 1, 7)), line=None))

    def test_what_must_not_be_found(self):
        problems = lambda findings, **changed: kept.problems_of({**ENTRY, "first": None, "line": None, **changed}, findings)
        self.assertEqual([], problems(found(("b", 1, 7)), absent=["a"]))
        self.assertEqual(["a is found"], problems(found(("b", 1, 7), ("a", 1, 7)), absent=["a"]))
        self.assertEqual([], problems(found(("b", 29_000, 7)), tuned=True))
        self.assertEqual(["told to change b"], problems(found(("b", 31_000, 7)), tuned=True))

    def test_every_rule_has_both_traces_or_a_reason(self):
        manifest = {"traces": [], "rules": {"a": {"positive": "1", "negative": "2"}}, "without_trace": {"b": "why"}}
        findings = {"1": found(("a", 1, 7)), "2": found(nothing=["a"])}
        problems = lambda changed=None, rules=("a", "b"): kept.problems_of_rules(changed or manifest, rules, findings)
        self.assertEqual([], problems())
        self.assertEqual(["c has no positive and no negative trace, and is not in without_trace"], problems(rules=("a", "b", "c")))
        # A reason without its rule does no harm; traces without it do.
        self.assertEqual([], problems(rules=("a",)))
        self.assertEqual(["there is no rule a"], problems(rules=("b",)))
        changed = copy.deepcopy(manifest)
        changed["rules"]["a"]["negative"] = None
        self.assertEqual(["a has no negative trace, and is not in without_trace"], problems(changed))
        changed["without_trace"]["a"] = "why"
        self.assertEqual([], problems(changed))
        changed["rules"]["a"]["negative"] = "2"
        self.assertEqual(["a has its traces, and is in without_trace"], problems(changed))
        changed = copy.deepcopy(manifest)
        changed["rules"]["a"] = {"positive": "2", "negative": "1"}
        self.assertEqual(["a is not found in 2", "a is found, or cannot be told, in 1"], problems(changed))
        changed["rules"]["a"] = {"positive": "3", "negative": "2"}
        self.assertEqual(["a: 3 is no trace of the manifest"], problems(changed))


# Says of a file what its number of records makes of it: 45 us a step are lost below MOST records, and a step has three.
STAND_IN = """#!{python}
import json, struct, sys
sys.path.insert(0, {here!r})
import cut_spool
if sys.argv[1:] == ["advise", "--list", "--json"]:
    print(json.dumps({{"rules": [{{"rule": "explicit-synchronize"}}, {{"rule": "stalls"}}]}}))
    sys.exit(0)
spools = [word for word in sys.argv[2:] if word.endswith(".spool")]
spool = spools[0]
chunks = cut_spool.chunks(cut_spool.read(spool))
calls = len(list(filter(cut_spool.is_call, cut_spool.all_records(chunks))))
if sys.argv[1] == "report":
    starts = [{{"start_ns": 1000 + step * {step}}} for step in range(calls // 3)]
    print(json.dumps({{"shown_process": 0, "processes": [{{"steps": {{"steps": starts}}}}]}}))
    sys.exit(0)
faulty = b"gemm" in cut_spool.read(spool) and calls >= {least} and len(spools) == {ranks}
place = {{"file": "/repository/tests/gpu/faulty/timed_by_hand.py", "line": {line}}}
found = {{"rule": "explicit-synchronize", "cost_per_step_ns": {cost}, "places": [place]}}
print(json.dumps({{"steps": calls // 3, "step_time_median_ns": 1000000, "advice": [found] if {faulty} and faulty else [], "cannot_be_told": [],
                   "nothing_found": ["stalls"] + ([] if {faulty} and faulty else ["explicit-synchronize"])}}))
"""


class Taken(Folder):
    def setUp(self):
        super().setUp()
        _, lines = kept.advice.faults(kept.advice.SCRIPTS / "timed_by_hand.py")
        self.line = lines[0]
        self.out, self.kept = self.folder / "out", self.folder / "kept"
        self.out.mkdir()
        self.kept.mkdir()
        self.without = {"stalls": "no reason", "explicit-synchronize": "not recorded yet"}
        kept.write_manifest(self.kept, {**kept.EMPTY, "without_trace": dict(self.without)})

    def stand_in(self, faulty="True", cost=450_000, least=0, ranks=1):
        path = self.folder / "slipstream"
        words = dict(python=sys.executable, here=str(kept.HERE), step=STEP_NS, line=self.line, cost=cost, faulty=faulty, least=least, ranks=ranks)
        path.write_text(STAND_IN.format(**words), encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def suite(self, measured=500_000, first=True, fixed=True):
        """Leaves what the GPU suite would."""
        names = ["timed_by_hand"] + (["timed_by_hand-fixed"] if fixed else [])
        for name in names:
            (self.out / f"advice-{name}.spool.gz").write_bytes(gzip.compress(spool()))
        place = {"file": "timed_by_hand.py", "line": self.line}
        advice = [{"rule": "explicit-synchronize" if first else "stalls", "cost_per_step_ns": 450_000, "places": [place]}]
        row = {"rule": "explicit-synchronize", "stands_first": first, "measured_ns": measured, "ratio": 450_000 / measured if first else None}
        data = {"row": row, "findings": {"advice": advice}}
        checks = [{"name": "advice.timed_by_hand", "data": data}, {"name": "advice.table", "data": {}}, {"name": "inert.bash"}]
        (self.out / "results.json").write_text(json.dumps({"checks": checks}), encoding="utf-8")

    def suite_of_rules(self, *traces, name="x", line=None):
        """Leaves what the group rules would."""
        for trace in traces:
            (self.out / f"rules-{trace}.spool.gz").write_bytes(gzip.compress(spool()))
        data = {"said": {"rule": "explicit-synchronize", "line": line}, "findings": {}}
        checks = [{"name": f"rules.{name}", "data": data}, {"name": "rules.skipped"}, {"name": "rules.failed", "data": {}}]
        (self.out / "results.json").write_text(json.dumps({"checks": checks}), encoding="utf-8")

    def take(self, command, most=take.MOST):
        return take.take(command, self.out, self.kept, most, self.folder)

    def entries(self):
        return {entry["file"]: entry for entry in kept.read_manifest(self.kept)["traces"]}

    def test_a_fault_is_taken_with_its_line_and_its_gain(self):
        self.suite(fixed=False)
        left = self.take(self.stand_in())
        self.assertEqual(["timed_by_hand-fixed"], list(left))
        entry = dict(ENTRY, file="timed_by_hand.spool.xz", first="explicit-synchronize", line=self.line, gain_ns=500_000)
        self.assertEqual({entry["file"]: entry}, self.entries())
        self.assertEqual(take.LEAST_STEPS * 3, self.calls())

    def test_a_rule_that_was_shown_is_taken(self):
        self.suite_of_rules("x", line=self.line)
        self.assertEqual({}, self.take(self.stand_in()))
        entry = dict(ENTRY, file="x.spool.xz", first=None, found="explicit-synchronize", line=self.line)
        self.assertEqual({"x.spool.xz": entry}, self.entries())
        self.assertEqual("x.spool.xz", kept.read_manifest(self.kept)["rules"]["explicit-synchronize"]["positive"])
        self.assertEqual(["x.spool.xz"], [path.name for path in (self.kept / "traces").iterdir()])

    def test_a_rule_that_is_not_found_again_is_left_out(self):
        self.suite_of_rules("x")
        self.assertIn("is not found", self.take(self.stand_in(faulty="False"))["x"])
        self.suite_of_rules(name="y")
        self.assertEqual({"y": "its trace is not there"}, self.take(self.stand_in()))
        self.assertEqual({}, self.entries())

    def test_two_ranks_have_two_files(self):
        self.suite_of_rules("x.0", "x.1")
        command = self.stand_in(ranks=2)
        size = len(cut_spool.pack(cut_spool.cut(spool())))
        self.assertEqual({}, self.take(command, 2 * size - 100))
        self.assertEqual(["x.*.spool.xz"], list(self.entries()))
        paths = sorted((self.kept / "traces").iterdir())
        self.assertEqual(["x.0.spool.xz", "x.1.spool.xz"], [path.name for path in paths])
        calls = [len(list(filter(cut_spool.is_call, cut_spool.all_records(cut_spool.chunks(cut_spool.read(path)))))) for path in paths]
        self.assertEqual(calls[0], calls[1])
        self.assertTrue(take.LEAST_STEPS * 3 <= calls[0] < STEPS * 3, calls)
        self.assertLessEqual(sum(path.stat().st_size for path in paths), 2 * size - 100)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual([], replay.check(command, self.kept))
            paths[1].rename(self.kept / "traces" / "y.1.spool.xz")
            problems = replay.check(command, self.kept)
            self.assertIn("x.*.spool.xz: explicit-synchronize is not found: nothing is found", problems)
            self.assertIn("y.1.spool.xz is not in the manifest", problems)
            paths[0].unlink()
            self.assertIn("x.*.spool.xz: it is not there", replay.check(command, self.kept))

    def test_ranks_are_asked_again(self):
        self.suite_of_rules("data_parallel", "stragglers.0", "stragglers.1")
        said = io.StringIO()
        argv = ["again.py", str(self.out), "--slipstream", self.stand_in(ranks=2), "--to", str(self.kept)]
        with mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(said):
            self.assertEqual(0, again.main())
        self.assertIn("data_parallel: data-parallel is not found: there is nothing to say; 30 steps of 1.00 ms: nothing", said.getvalue())
        self.assertIn("30 steps of 1.00 ms: explicit-synchronize 0.45 ms", said.getvalue())
        self.assertIn("idle_sms: not recorded", said.getvalue())
        results = json.loads((self.kept / "results.json").read_text(encoding="utf-8"))
        data = {check["name"]: check["data"] for check in results["checks"]}
        self.assertEqual(["rules.data_parallel", "rules.stragglers"], list(data))
        self.assertEqual({"rule": "stragglers", "line": None}, data["rules.stragglers"]["said"])

    def test_rules_get_their_traces(self):
        self.suite()
        original = kept.findings
        self.addCleanup(setattr, kept, "findings", original)
        calls = iter((found(("explicit-synchronize", 450_000, self.line), nothing=["stalls"]), found(nothing=["stalls", "explicit-synchronize"])))
        kept.findings = lambda *_: next(calls)
        self.assertEqual({}, self.take(self.stand_in()))
        manifest = kept.read_manifest(self.kept)
        both = {"positive": "timed_by_hand.spool.xz", "negative": "timed_by_hand-fixed.spool.xz"}
        self.assertEqual(both, manifest["rules"]["explicit-synchronize"])
        self.assertIsNone(manifest["rules"]["stalls"]["positive"])
        self.assertEqual({"stalls": "no reason"}, manifest["without_trace"])

    def test_a_trace_that_is_taken_again_may_show_less(self):
        self.suite(fixed=False)
        manifest = kept.read_manifest(self.kept)
        manifest["traces"] = [{**ENTRY, "file": "timed_by_hand.spool.xz"}]
        manifest["rules"] = {rule: {"positive": None, "negative": "timed_by_hand.spool.xz"} for rule in ("stalls", "explicit-synchronize")}
        kept.write_manifest(self.kept, manifest)
        self.take(self.stand_in())
        rules = kept.read_manifest(self.kept)["rules"]
        self.assertEqual("timed_by_hand.spool.xz", rules["stalls"]["negative"])
        self.assertIsNone(rules["explicit-synchronize"]["negative"])

    def calls(self):
        data = cut_spool.read(self.kept / "traces" / "timed_by_hand.spool.xz")
        return len(list(filter(cut_spool.is_call, cut_spool.all_records(cut_spool.chunks(data)))))

    def test_a_trace_has_as_few_steps_as_show_it(self):
        self.suite(fixed=False)
        self.take(self.stand_in(least=take.LEAST_STEPS * 3 + 1))
        self.assertEqual(int(take.LEAST_STEPS * take.MORE_STEPS) * 3, self.calls())
        self.take(self.stand_in(least=STEPS * 3))
        self.assertEqual(STEPS * 3, self.calls())

    def test_a_trace_that_has_no_room_is_left_out(self):
        self.suite(fixed=False)
        self.assertIn(f"bytes with {take.LEAST_STEPS} steps", self.take(self.stand_in(), 1000)["timed_by_hand"])
        self.assertEqual({}, self.entries())

    def test_what_would_not_stand_first_any_more_is_left_out(self):
        self.suite(fixed=False)
        left = self.take(self.stand_in(least=STEPS * 3), 1500)
        self.assertEqual({}, self.entries())
        self.assertIn("timed_by_hand", left)

    def test_a_cost_that_is_another_one_is_not_kept(self):
        self.suite(fixed=False)
        self.take(self.stand_in(cost=100_000))
        self.assertIsNone(self.entries()["timed_by_hand.spool.xz"]["gain_ns"])

    def test_a_fault_that_did_not_stand_first_is_left_out(self):
        self.suite(first=False, fixed=False)
        self.assertIn("did not stand first", self.take(self.stand_in())["timed_by_hand"])

    def test_traces_that_are_kept_stay(self):
        self.suite(fixed=False)
        manifest = kept.read_manifest(self.kept)
        manifest["traces"] = [{**ENTRY, "file": "old.spool.xz"}, {**ENTRY, "file": "timed_by_hand.spool.xz"}]
        kept.write_manifest(self.kept, manifest)
        self.take(self.stand_in())
        self.assertEqual(["old.spool.xz", "timed_by_hand.spool.xz"], list(self.entries()))
        self.assertEqual(self.line, self.entries()["timed_by_hand.spool.xz"]["line"])

    def test_what_was_taken_is_replayed(self):
        self.suite(fixed=False)
        command = self.stand_in()
        self.take(command)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual([], replay.check(command, self.kept))
        self.assertIn("1 traces, 2 rules", said.getvalue())
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertIn("does not stand first", replay.check(self.stand_in(faulty="False"), self.kept)[0])
            (self.kept / "traces" / "more.spool.xz").write_bytes(b"")
            self.assertIn("more.spool.xz is not in the manifest", replay.check(command, self.kept))
            (self.kept / "traces" / "timed_by_hand.spool.xz").write_bytes(b"no xz")
            self.assertIn("timed_by_hand.spool.xz: ", replay.check(command, self.kept)[0])


if __name__ == "__main__":
    unittest.main()
