"""The device-memory pool (allocator.mode = "segments"): nothing a program computes changes, and what it gains.

Bare and pooled, which is the same command under slipstream with the pool on. What a pooled run shows is worth something
only where the pool acted, so every check reads that from the run's summary. In a rehearsal the C++ programs run on the
simulated device, where the build has one, and PyTorch runs on the CPU.
"""

import concurrent.futures
import json
import os
import re
import statistics
import time

import pairs

from . import harness, identity, sanitizer, speed
from .harness import GPU_TESTS, Failed, Skipped, gpus, needs_gpu
from .paced import Conversation, Paced, end_all
from .sanitizer import library_path
from .summary import decided, expect_pooled

BARE, OFF, POOLED, ASYNC = "bare", "off", "pooled", "async"
POOL = {"SLIPSTREAM_ALLOCATOR_MODE": "segments"}
# Where a ratio is to show the pool alone.
POOL_ALONE = POOL | {"SLIPSTREAM_TRANSFER_H2D": "off", "SLIPSTREAM_TRANSFER_D2H": "off"}
PROGRAMS = GPU_TESTS / "programs"
QUIET = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "4"}
GIB = 1 << 30

# T7: ns that a cudaMalloc and its cudaFree take beyond what the driver's calls for them take, less what reading the clock
# costs. On an idle device these are one fence and one question about it; behind pending work it cannot have passed, and the
# context is put behind it.
PAIR_OVER_NS = 250
PAIR_DRIVER_CALLS = {"idle": ("record_ask/threads:1",), "behind": ("record/new", "ask/pending", "wait")}
# A bare pair behind pending work that took less than this did not wait: nothing is shown.
LEAST_WAIT_NS = 100_000
SIZES = ("2MiB", "20MiB", "256MiB", "1GiB")
THREADS = (1, 2, 4, 8, 16)
PAIRS_SECONDS = 50
# Blocks that are given back beside a training, and their MiB; none is what the machine does by itself.
TRIMMED = ((0, 1), (200, 20), (40, 256))
TRIM_TURNS = 3
# T9: empty_cache() at every step / never.
MOST_EMPTY_CACHE = 1.01
# Near the memory limit no step may be slower than that.
MOST_STEP_TIME = 1.01
# What runs once in a process is compared process by process, and these are few.
MOST_ONCE = 1.10
ROUNDS = 7
LEAST_PAIRS = 5
ONCE_PAIRS = 3
# Seconds after which idle memory is the driver's again, and how much longer another process may wait for it.
DECAY = 2
DECAY_SLACK = 1.0
SHARE_OF_CARD = 0.85

RACE = re.compile(rb"(\d+) rounds, same address in (\d+), (all bytes as expected|\d+ WRONG BYTES)\n")


class Race(sanitizer.Program):
    """reuse_race: on the device, or in a rehearsal on the simulated one."""

    rehearses = True

    def __init__(self, suite):
        super().__init__(suite, "reuse_race", "allocator.race", trial=("--rounds", "1", "--bytes", "4096"))
        # Where a process sees several devices the pool puts nothing behind a wait of one.
        if suite.rehearsal:
            self.env = simulator(suite, "4GiB") | {"SIMCUDA_DEVICES": "1"}
        else:
            first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
            self.env = {**self.env, "CUDA_VISIBLE_DEVICES": first}

    def race(self, full, prefix=(), env=None):
        """(the process's result, in how many rounds the address was the same, whether all bytes were right)."""
        # Small on the simulated device, whose bytes the host moves.
        size = 4 << 20 if self.suite.rehearsal else 64 << 20
        arguments = ["--bytes", size, *(["--full"] if full else [])]
        result = self.run(prefix, arguments, timeout=60, env=env)
        if result.timed_out:
            raise Failed("did not end in time")
        match = RACE.fullmatch(result.stdout)
        if not match or result.status not in (0, 1) or (result.status == 0) != match[3].startswith(b"all"):
            raise Failed(
                f"exit status {result.status}, printed {result.stdout!r:.200}: {harness.last_line(result.stderr)}"
            )
        return result, int(match[2]), result.status == 0


def simulator(suite, memory):
    """Variables for a program on the simulated device, which runs nothing there that nobody waits for."""
    return {"LD_LIBRARY_PATH": str(suite.build / "sim"), "SIMCUDA_SEED": "0", "SIMCUDA_MEMORY": memory}


def races(suite):
    """Memory that is freed under a kernel, and at once another's: bare, pooled, and with the fence removed."""
    race = Race(suite)
    # All memory is taken, and the pool shall keep a block even so.
    full_policy = POOL | {"SLIPSTREAM_ALLOCATOR_KEEP_FREE": "0B"}

    def policy_of(full):
        return full_policy if full else POOL

    def check(full):
        def run(data):
            _, same, right = race.race(full)
            data["bare_same_address"] = same
            if not right:
                raise Failed("wrong bytes without slipstream: the program shows nothing here")
            summary = suite.scratch("allocator.race") / f"{'full' if full else 'free'}.json"
            prefix = suite.run_prefix("--quiet", "--summary", summary)
            result, same, right = race.race(full, prefix, policy_of(full))
            data["pooled_same_address"] = same
            seen = harness.read_json(summary, "summary")
            data["decisions"] = seen["totals"].get("decisions", {})
            if not right:
                raise Failed(f"pooled: {result.stdout.decode().strip()}")
            if full and not same:
                raise Failed("with all memory taken no block was ever handed out again: nothing is shown")
            did = expect_pooled(seen, "parked", *(["reused.behind"] if full else []))
            return f"{result.stdout.decode().strip()}, as bare; {did}"

        return run

    def mutant(full, rule):
        """The same under the test library with one rule broken, and with none broken."""

        def run(data):
            library = suite.build / "preload" / "libslipstream_mutants.so"
            if not library.exists():
                raise Failed(f"{library} is not there: the build folder that travels must have it")
            env = policy_of(full) | {"LD_PRELOAD": library}
            _, _, right = race.race(full, env=env)
            if not right:
                raise Failed("the test library loses bytes with no rule broken")
            result, same, right = race.race(full, env=env | {"BROKEN_RULE": rule})
            data["same_address"] = same
            if right:
                raise Failed(f"with {rule} broken all bytes were as expected: the race cannot fail ({same} times reused)")
            return f"with {rule} broken: {result.stdout.decode().strip()}; with no rule broken as expected"

        return run

    return [
        ("allocator.race", check(False)),
        ("allocator.race_memory_full", check(True)),
        ("allocator.race_without_fence", mutant(False, "S30")),
        ("allocator.race_without_wait", mutant(True, "S30wait")),
    ]


# -- what a program computes


def examples(suite):
    """name -> (identity.Example, what the pool must have decided).

    Every step gives its memory back, so that the pool has something to do.
    """
    both = ("parked", "reused")
    if suite.rehearsal:
        tiny = ["--device", "cpu", "--steps", "6", "--batch", "4", "--empty-cache"]
        lm = [*tiny, *"--layers 2 --width 64 --heads 2 --length 32".split()]
        return {
            "resnet18": (identity.Example("train_resnet.py", [*tiny, "--size", "32", "--workers", "2"]), both),
            "lm": (identity.Example("train_lm.py", lm), both),
        }
    steps = ["--steps", "10" if suite.quick else "20", "--empty-cache"]
    return {
        "resnet18": (identity.Example("train_resnet.py", [*steps, "--batch", "32"]), both),
        "lm": (identity.Example("train_lm.py", steps), both),
        # What it replays has its memory for good: what comes back is from before the capture.
        "cuda_graph": (identity.pattern("cuda_graph", steps), ("parked",)),
    }


def needs_two(suite, check):
    def guarded(data):
        if gpus(suite) < 2:
            raise Skipped("needs two GPUs")
        return check(data)

    return needs_gpu(suite, guarded)


def bare_and_pooled(suite, name, argv, *, timeout=120, policy=None, env=None, parallel=True):
    """Results of the same command bare and pooled, and the pooled one's summary."""
    summary = suite.scratch(f"allocator/{name}") / "summary.json"

    def run(prefix=(), more=None):
        changes = QUIET | (env or {}) | (more or {})
        return suite.command(f"allocator.{name}", [*prefix, *argv], env=changes, timeout=timeout)

    def pooled():
        return run(suite.run_prefix("--quiet", "--summary", summary), policy or POOL)

    if parallel:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            first, second = pool.submit(run), pool.submit(pooled)
            bare, under = first.result(), second.result()
    else:
        bare, under = run(), pooled()
    bare.expect_success("bare")
    under.expect_success("pooled")
    if bare.stdout != under.stdout:
        raise Failed(f"stdout differs: bare {bare.stdout!r:.300}, pooled {under.stdout!r:.300}")
    if not bare.stdout:
        raise Failed("it printed nothing")
    return bare, under, None if suite.rehearsal else harness.read_json(summary, "summary")


def side_by_side(suite):
    def identical(name, example, needed):
        def acted(seen):
            return expect_pooled(seen, *needed)

        return identity.identical(suite, f"identity_{name}", example, "allocator", POOL, acted)

    def share(producer, consumer):
        """A producer and a consumer of device tensors, each bare or pooled."""

        def run(data):
            name = f"share_tensors_{producer}_{consumer}"
            directory = suite.scratch(f"allocator/{name}")
            counters = directory / "counters"
            counters.mkdir(exist_ok=True)
            # Names that the producer's environment may have and a bare consumer's must not.
            changes = {"LD_PRELOAD": None, "SLIPSTREAM_ALLOCATOR_MODE": None, "SLIPSTREAM_RUN_DIRECTORY": None}
            if consumer == POOLED:
                changes = POOL | {"LD_PRELOAD": str(suite.library), "SLIPSTREAM_RUN_DIRECTORY": str(counters)}
            argv = [suite.python, PROGRAMS / "share_tensors.py", suite.device, json.dumps(changes)]
            summary = directory / "summary.json"
            prefix, env = [], QUIET
            if producer == POOLED:
                prefix, env = suite.run_prefix("--quiet", "--summary", summary), QUIET | POOL
            result = suite.command(f"allocator.{name}", [*prefix, *argv], env=env, timeout=100)
            if result.status != 0 and b"wrong bytes" not in result.stdout and producer == consumer == BARE:
                raise Skipped(f"sharing does not work here without slipstream: {harness.last_line(result.stderr)}")
            result.expect_success("it")
            lines = result.stdout.decode().splitlines()
            wanted = [f"round {number} wrong bytes 0 0 0 dropped" for number in range(3)] + ["status 0"]
            if lines != wanted:
                raise Failed(f"printed {lines}")
            loaded = json.loads(result.stderr.decode().strip().splitlines()[-1])
            if loaded != {"producer": producer == POOLED, "consumer": consumer == POOLED}:
                raise Failed(f"slipstream was in {loaded}")
            if producer == BARE or suite.rehearsal:
                return "all bytes as expected in 3 rounds"
            seen = harness.read_json(summary, "summary")
            data["decisions"] = seen["totals"].get("decisions", {})
            return f"all bytes as expected in 3 rounds; {expect_pooled(seen, 'grown', 'freed.shared')}"

        return run

    def ddp(data):
        argv = [suite.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
        backend = "gloo" if suite.rehearsal else "nccl"
        program = [PROGRAMS / "ddp_steps.py", backend]
        # One after the other: each takes both devices' links.
        bare, _, seen = bare_and_pooled(suite, "ddp", [*argv, *program], timeout=100, parallel=False)
        equal = f"2 ranks, {len(bare.stdout)} bytes of losses and hashes equal"
        if suite.rehearsal:
            return equal
        data["decisions"] = seen["totals"].get("decisions", {})
        # NCCL's use of other processes' memory may make every free a real one.
        return f"{equal}; {expect_pooled(seen, 'grown')}"

    def ddp_where_possible(data):
        if not suite.rehearsal and gpus(suite) < 2:
            raise Skipped("needs two GPUs")
        return ddp(data)

    def peer_copies(data):
        bare, under, seen = bare_and_pooled(
            suite, "peer_copies", [suite.python, PROGRAMS / "peer_copies.py"], timeout=100, parallel=False
        )
        data["decisions"] = seen["totals"].get("decisions", {})
        reused = harness.last_line(under.stderr)
        return f"{bare.stdout.decode().strip()} bare and pooled, {reused}; {expect_pooled(seen, 'parked')}"

    def memcheck(data):
        program = sanitizer.Program(suite, log="allocator.memcheck")
        return sanitizer.watched(suite, program, data, POOL, expect_pooled)

    return [
        *(
            (f"allocator.identity_{name}", identical(name, example, needed))
            for name, (example, needed) in examples(suite).items()
        ),
        ("allocator.share_tensors_pooled_bare", share(POOLED, BARE)),
        ("allocator.share_tensors_bare_pooled", share(BARE, POOLED)),
        ("allocator.share_tensors_pooled_pooled", share(POOLED, POOLED)),
        ("allocator.share_tensors_bare_bare", share(BARE, BARE)),
        ("allocator.ddp", ddp_where_possible),
        ("allocator.peer_copies", needs_two(suite, peer_copies)),
        ("allocator.memcheck", needs_gpu(suite, memcheck)),
    ]


# -- T7


def pair_of(row):
    """(calls, state, size, threads) of a row of pool_calls."""
    calls, state, size = row["name"].split("/")[:3]
    return calls, state, size, int(row["threads"])


def pairs_of_report(report):
    """{(calls, state, size, threads): {"p50": ns, "p99": ns}}, less what reading the clock costs."""
    clock = float(report["context"]["clock_ns"])
    found = {}
    for row in report["benchmarks"]:
        if row.get("error_occurred"):
            raise Failed(f"{row['name']}: {row.get('error_message')}")
        if row.get("run_type") == "aggregate":
            continue
        found[pair_of(row)] = {"p50": row["p50_ns"] - clock, "p99": row["p99_ns"] - clock}
    return found


def medians(reports):
    """Of several reports, key by key; one that is missing in any is an error."""
    keys = set(reports[0])
    if any(set(report) != keys for report in reports):
        raise Failed("two runs of pool_calls measured different things")
    return {
        key: {what: statistics.median(report[key][what] for report in reports) for what in ("p50", "p99")}
        for key in keys
    }


def pair_checks(suite):
    """pool_calls by every variant in turn; one check for each figure that has a target, the rest is reported."""
    measured, driver = {}, {}
    variants = {
        # name -> (prefix?, variables, calls, pairs of a thread): few where each takes long.
        BARE: (False, {}, "malloc", 40),
        OFF: (True, {"SLIPSTREAM_ALLOCATOR_MODE": "off"}, "malloc", 40),
        POOLED: (True, POOL, "malloc", 1000),
        "pooled_uncounted": (True, POOL | {"SLIPSTREAM_TRACER_COUNTERS": "off"}, "malloc", 1000),
        ASYNC: (False, {}, "async", 1000),
    }

    def measure(data):
        program = suite.build / "bench" / "gpu" / "pool_calls"
        if not program.exists():
            raise Failed(f"{program} is not there: the build folder that travels must have it")
        env = simulator(suite, "128GiB") if suite.rehearsal else {"LD_LIBRARY_PATH": library_path(suite) or None}
        if suite.rehearsal and not (suite.build / "sim").exists():
            raise Skipped("a rehearsal, and the build has no simulated device")
        reports = {variant: [] for variant in variants}
        summary = suite.scratch("allocator/pairs") / "summary.json"
        turns = 1 if suite.quick or suite.rehearsal else 2
        start = time.monotonic()
        for turn in range(turns):
            if turn and time.monotonic() - start > PAIRS_SECONDS / 2:
                turns = turn  # One turn is enough for a figure; the others need their time.
                break
            for variant, (under, policy, calls, count) in sorted(variants.items(), reverse=bool(turn % 2)):
                prefix = suite.run_prefix("--quiet", "--summary", summary) if under else []
                argv = [program, "--benchmark_format=json", f"--benchmark_filter=^{calls}/"]
                argv += ["--pairs", 2, "--piece", 1 << 20] if suite.rehearsal else ["--pairs", count]
                result = suite.command("allocator.pairs", [*prefix, *argv], env=env | policy, timeout=45)
                result.expect_success(variant)
                try:
                    reports[variant].append(pairs_of_report(json.loads(result.stdout)))
                except (ValueError, KeyError) as error:
                    raise Failed(f"{variant}: unexpected output of pool_calls: {error!r}") from None
                if variant == POOLED:
                    data["pool"] = expect_pooled(harness.read_json(summary, "summary"))
        for variant, found in reports.items():
            measured[variant] = medians(found)
            for key, values in sorted(measured[variant].items()):
                suite.add_benchmark(
                    {
                        "name": "/".join(map(str, key)),
                        "variant": f"pair.{variant}",
                        "unit": "ns",
                        "target": PAIR_OVER_NS if variant == POOLED else None,
                        "turns": [report[key] for report in found],
                        "summary": values,
                    }
                )
        return f"{turns} turns of {', '.join(variants)}; pooled: {data['pool']}"

    def driver_calls(data):
        """What the pool decides by; reported."""
        program = suite.build / "bench" / "gpu" / "driver_calls"
        if not program.exists():
            raise Failed(f"{program} is not there: the build folder that travels must have it")
        if suite.rehearsal and not (suite.build / "sim").exists():
            raise Skipped("a rehearsal, and the build has no simulated device")
        env = simulator(suite, "128GiB") if suite.rehearsal else {"LD_LIBRARY_PATH": library_path(suite) or None}
        argv = [program, "--benchmark_format=json"]
        argv += ["--calls", 3, "--piece", 1 << 20] if suite.rehearsal else []
        result = suite.command("allocator.driver_calls", argv, env=env, timeout=30)
        result.expect_success("driver_calls")
        for row in json.loads(result.stdout)["benchmarks"]:
            name = re.sub(r"/(?:iterations:\d+|real_time|manual_time)", "", row["name"])
            driver[name] = data[name] = row.get("ns", row["real_time"])
            suite.add_benchmark({"name": name, "variant": "driver", "unit": "ns", "ns": data[name]})
        return ", ".join(f"{name} {ns:.0f} ns" for name, ns in data.items()) + "; reported, not asserted"

    def figure(variant, state, size, threads=1):
        calls = variants[variant][2]
        try:
            return measured[variant][calls, state, size, threads]
        except KeyError:
            raise Failed("not measured (allocator.pairs failed, or --only left it out)") from None

    def text(variant, state, size, threads=1):
        values = figure(variant, state, size, threads)
        return f"{variant} {values['p50']:.0f} ns (p99 {values['p99']:.0f})"

    def judged(state, size):
        def check(data):
            shown = "; ".join(text(variant, state, size) for variant in variants)
            if suite.rehearsal:
                return shown + "; a rehearsal: not asserted"
            if state == "behind" and figure(BARE, state, size)["p50"] < LEAST_WAIT_NS:
                raise Failed(f"the bare free did not wait for the device: nothing is shown; {shown}")
            calls = PAIR_DRIVER_CALLS[state]
            if not driver.keys() >= set(calls):
                raise Failed(f"what the driver's calls take is not measured (allocator.driver_calls); {shown}")
            of_driver = sum(driver[call] for call in calls)
            data["target_ns"] = target = of_driver + PAIR_OVER_NS
            shown += f"; the driver's {' + '.join(calls)} {of_driver:.0f} ns, target {target:.0f} ns"
            if figure(POOLED, state, size)["p50"] > target:
                raise Failed(f"over the target; {shown}")
            return shown

        return check

    def threads(data):
        parts = []
        for count in THREADS:
            values = {variant: figure(variant, "idle", "20MiB", count) for variant in variants}
            data[str(count)] = values
            parts.append(
                f"{count}: {values[POOLED]['p50']:.0f} ({values[BARE]['p50']:.0f} bare, "
                f"{values[ASYNC]['p50']:.0f} stream-ordered)"
            )
        return f"20 MiB, ns a pair by threads: {', '.join(parts)}; reported, not asserted"

    return [
        ("allocator.pairs", measure),
        ("allocator.driver_calls", driver_calls),
        *((f"allocator.pair_{state}_{size}", judged(state, size)) for state in ("idle", "behind") for size in SIZES),
        ("allocator.pair_threads", threads),
    ]


# -- loops


def take_turns(processes, workload, steps, lead, rounds, deadline):
    """Blocks of all processes, round by round, in rotating order: [{name: seconds}]. The first round does not count."""
    names = list(processes)
    measured = []
    for number in range(-1, rounds):
        if time.monotonic() > deadline:
            raise Failed(f"its time was over after {max(number, 0)} of {rounds} pairs")
        order = [names[(number + place) % len(names)] for place in range(len(names))]
        found = {name: processes[name].block(workload, lead, steps, timeout=45) for name in order}
        if number >= 0:
            measured.append(found)
    return measured


def ratio_benchmark(suite, name, variant, rounds, a, b, steps, most):
    """Adds the ratio b / a of the rounds to the results and returns its summary."""
    values = [(r[a] / steps, r[b] / steps) for r in rounds]
    limits = (None, most) if most else None
    suite.add_benchmark(speed.benchmark(name, variant, "s", steps, values, limits))
    return pairs.summarize([values])


def judge(suite, summary, most, text):
    if suite.rehearsal:
        return text + "; a rehearsal: not asserted"
    if summary["pairs"] < LEAST_PAIRS:
        raise Failed(f"only {summary['pairs']} pairs; {text}")
    if problem := speed.verdict(summary, (None, most)):
        raise Failed(f"{problem}; {text}")
    return text


def started(suite, name, variants, program, arguments, warm_up, deadline, environment=None):
    """{variant: Paced} of variants {name: (pooled variables or None, more arguments)}, all ready; and the summaries."""
    processes, summaries = {}, {}
    try:
        for variant, (policy, more) in variants.items():
            prefix = []
            if policy is not None:
                summaries[variant] = suite.scratch(f"allocator/{name}") / f"{variant}.json"
                prefix = suite.run_prefix("--quiet", "--summary", summaries[variant])
            specification = {
                name: {"program": str(GPU_TESTS / program), "arguments": [*arguments, *more], "warm_up": warm_up}
            }
            log = f"allocator.{name}.{variant}"
            processes[variant] = Paced(suite, log, prefix, specification, (environment or {}) | (policy or {}))
        for process in processes.values():
            process.read(min(80, deadline - time.monotonic()))
    except BaseException:
        end_all(processes.values())
        raise
    return processes, summaries


def empty_cache(suite):
    """T9. Four processes: bare and pooled, each with empty_cache() at every step and never."""

    def check(data):
        deadline = time.monotonic() + min(70, suite.remaining())
        arguments = "--model resnet50 --batch 64 --autocast --workers 0 --in-memory 8".split()
        rounds, warm_up = ROUNDS, 15
        if suite.rehearsal:
            arguments = "--device cpu --model mobilenet_v2 --batch 2 --size 32 --workers 0 --in-memory 2".split()
            rounds, warm_up = 2, 1
        variants = {
            "bare_never": (None, []),
            "bare_every": (None, ["--empty-cache"]),
            "pooled_never": (POOL, []),
            "pooled_every": (POOL, ["--empty-cache"]),
        }
        processes, summaries = started(suite, "empty_cache", variants, "train_resnet.py", arguments, warm_up, deadline)
        try:
            probe = 2 if suite.rehearsal else 6
            seconds = processes["bare_never"].block("empty_cache", 2, probe) / probe
            steps = data["block_steps"] = speed.steps_of_block(0.05 if suite.rehearsal else 0.6, seconds, 1)
            found = take_turns(processes, "empty_cache", steps, 3, rounds, deadline)
        finally:
            end_all(processes.values())

        def ratio(variant, a, b, most=None):
            summary = ratio_benchmark(suite, "empty_cache", f"step.{variant}", found, a, b, steps, most)
            data[variant] = summary
            return summary

        pooled = ratio("pooled_every_to_never", "pooled_never", "pooled_every", MOST_EMPTY_CACHE)
        bare = ratio("bare_every_to_never", "bare_never", "bare_every")
        rest = ratio("pooled_to_bare_never", "bare_never", "pooled_never")
        text = (
            f"empty_cache() every step / never: pooled {speed.spread(pooled)}, bare {speed.spread(bare)}; pooled / bare "
            f"without it {speed.spread(rest)}; {pooled['a_median'] * 1e3:.2f} ms a step, {pooled['pairs']} pairs"
        )
        if not suite.rehearsal:
            text += "; " + expect_pooled(harness.read_json(summaries["pooled_every"], "summary"))
        return judge(suite, pooled, MOST_EMPTY_CACHE, text)

    return check


def lengths(suite):
    """Sentences of random lengths near the memory limit, where PyTorch's allocator gives memory back and asks again."""

    def check(data):
        deadline = time.monotonic() + min(80, suite.remaining())
        cycle, rounds, arguments = 24, LEAST_PAIRS, ["--deterministic"]
        # What PyTorch's own message advises where memory is short: large blocks are not cut, so they come and go.
        split = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}
        if suite.rehearsal:
            cycle, rounds = 4, 2
            arguments += "--device cpu --layers 2 --width 32 --heads 2 --length 16 --shortest 4 --batch 2".split()
        arguments += ["--cycle", str(cycle)]
        variants = {BARE: (None, []), POOLED: (POOL_ALONE, [])}
        processes, summaries = started(
            suite, "lengths", variants, "train_lengths.py", arguments, cycle, deadline, split
        )
        try:
            before = {name: process.report("lengths") for name, process in processes.items()}
            found = take_turns(processes, "lengths", cycle, 0, rounds, deadline)
            reports = {name: process.report("lengths") for name, process in processes.items()}
        finally:
            end_all(processes.values())
        losses = {name: report.pop("losses") for name, report in reports.items()}
        data["reports"] = reports
        if len(losses[BARE]) < cycle * rounds or losses[BARE] != losses[POOLED]:
            raise Failed("the losses differ, bare and pooled, or are too few")
        summary = ratio_benchmark(suite, "lengths", "step.pooled", found, BARE, POOLED, cycle, MOST_STEP_TIME)
        data["summary"] = summary
        # Of the steps that were timed.
        def of_timed(what):
            return {name: report[what] - before[name][what] for name, report in reports.items()}

        retries, frees = of_timed("retries"), of_timed("driver_frees")
        text = (
            f"{len(losses[BARE])} losses equal; {summary['a_median'] * 1e3:.2f} ms a step bare, ratio "
            f"{speed.spread(summary)}, {summary['pairs']} pairs; num_alloc_retries {retries[BARE]} bare, "
            f"{retries[POOLED]} pooled; segments freed {frees[BARE]} bare, {frees[POOLED]} pooled"
        )
        if suite.rehearsal:
            return text + "; a rehearsal: not asserted"
        if not all(retries.values()) or not all(frees.values()):
            raise Failed(f"PyTorch's allocator had no retry or gave nothing back: nothing is shown; {text}")
        text += "; " + expect_pooled(harness.read_json(summaries[POOLED], "summary"))
        return judge(suite, summary, MOST_STEP_TIME, text)

    return check


# -- memory that runs out, or that another process needs


def out_of_memory(suite):
    def check(data):
        argv = [suite.python, PROGRAMS / "halve_batch.py", suite.device]
        # One after the other: each takes the whole device.
        bare, _, seen = bare_and_pooled(suite, "out_of_memory", argv, timeout=60, parallel=False)
        found = bare.stdout.decode()
        data["stdout"] = found
        if found.count("out of memory with") < 6 or found.count(" batch ") < 3:
            raise Failed(f"the batch was not halved as expected: {found!r:.300}")
        text = f"{found.count('out of memory with')} errors caught, batches and losses equal"
        if suite.rehearsal:
            return text
        data["decisions"] = seen["totals"].get("decisions", {})
        return f"{text}; {expect_pooled(seen, 'parked', 'reclaimed')}"

    return check


def second_process(suite):
    """The second process is bare both times: what differs is who has just given the memory back."""

    def seconds_to_take(name, prefix, policy):
        def program(which, first, variables):
            argv = [*first, suite.python, PROGRAMS / "share_of_card.py", suite.device]
            return Conversation(suite, f"allocator.second_process.{name}.{which}", argv, QUIET | variables)

        processes = []
        try:
            processes = [program("first", prefix, policy), program("second", [], {})]
            owner, other = processes
            for process in processes:
                process.read(60)
            if not owner.ask({"take": SHARE_OF_CARD, "within": 1})["taken"]:
                raise Failed(f"{name}: the first process did not get its share of the device")
            if not suite.rehearsal and other.ask({"take": SHARE_OF_CARD, "within": 0.1})["taken"]:
                raise Failed(f"{name}: both processes had {SHARE_OF_CARD:.0%} of the device: nothing is shown")
            owner.ask({"release": True})
            answer = other.ask({"take": SHARE_OF_CARD, "within": DECAY + 8}, timeout=60)
            other.ask({"release": True})
            return answer
        finally:
            end_all(processes)

    def check(data):
        summary = suite.scratch("allocator/second_process") / "summary.json"
        policy = POOL | {"SLIPSTREAM_ALLOCATOR_DECAY": str(DECAY)}
        prefix = suite.run_prefix("--quiet", "--summary", summary)
        bare = data[BARE] = seconds_to_take(BARE, [], {})
        pooled = data[POOLED] = seconds_to_take(POOLED, prefix, policy)
        text = (
            f"{SHARE_OF_CARD:.0%} of the device taken {bare['seconds']:.2f} s after a bare process gave it back, "
            f"{pooled['seconds']:.2f} s after a pooled one ({pooled['attempts']} attempts)"
        )
        if not bare["taken"]:
            raise Failed(f"not even after a bare process: nothing is shown; {text}")
        if not pooled["taken"]:
            raise Failed(f"never after the pooled one; {text}")
        if suite.rehearsal:
            return text + "; a rehearsal: not asserted"
        if pooled["seconds"] > DECAY + DECAY_SLACK:
            raise Failed(f"more than {DECAY + DECAY_SLACK} s; {text}")
        return f"{text}; {expect_pooled(harness.read_json(summary, 'summary'), 'parked', 'trimmed')}"

    return check


# -- what happens once in a process


def in_pairs(suite, name, argv, policy, pairs_, deadline):
    """What the command prints as JSON, bare and pooled in turn: [(bare, pooled)]; and the last pooled run's summary."""
    summary = suite.scratch(f"allocator/{name}") / "summary.json"

    def run(which, prefix, more):
        timeout = max(1.0, min(60, deadline - time.monotonic()))
        result = suite.command(f"allocator.{name}", [*prefix, *argv], env=QUIET | more, timeout=timeout)
        result.expect_success(which)
        try:
            return json.loads(result.stdout)
        except ValueError:
            raise Failed(f"{which}: printed {result.stdout!r:.200}") from None

    found = pairs.run_alternating(
        pairs_,
        lambda: run(BARE, [], {}),
        lambda: run(POOLED, suite.run_prefix("--quiet", "--summary", summary), policy),
    )
    return found, summary


def once(suite, name, argv, key, same, policy, seconds, acted):
    """Asserted: `key` is at most MOST_ONCE of bare, by the median of a few pairs, and `same` is the same in all."""

    def check(data):
        deadline = time.monotonic() + min(seconds, suite.remaining())
        count = 1 if suite.rehearsal else ONCE_PAIRS
        found, summary_path = in_pairs(suite, name, argv, policy, count, deadline)
        data["runs"] = found
        if len({json.dumps([run[what] for what in same]) for pair in found for run in pair}) != 1:
            raise Failed(f"{' and '.join(same)} differ between the runs")
        values = [(bare[key], pooled[key]) for bare, pooled in found]
        suite.add_benchmark(speed.benchmark(name, f"once.{key}", "s", 1, values, (None, MOST_ONCE)))
        summary = data["summary"] = pairs.summarize([values])
        text = (
            f"{key}: {summary['a_median']:.3f} s bare, {summary['b_median']:.3f} s pooled, ratio "
            f"{speed.spread(summary)}, {summary['pairs']} pairs"
        )
        if suite.rehearsal:
            return text + "; a rehearsal: not asserted"
        seen = harness.read_json(summary_path, "summary")
        data["decisions"] = seen["totals"].get("decisions", {})
        text += f"; {acted(seen)}"
        if problem := speed.verdict(summary, (None, MOST_ONCE)):
            raise Failed(f"{problem}; {text}")
        return text

    return check


def start_up(suite):
    size = 1 << 20 if suite.rehearsal else 24 * GIB
    argv = [suite.python, PROGRAMS / "build_model.py", suite.device, size]
    return once(
        suite,
        "start_up",
        argv,
        "seconds",
        ("bytes", "checksum"),
        POOL_ALONE,
        60,
        lambda seen: expect_pooled(seen, "grown"),
    )


def trim_beside_training(suite):
    """What it costs a training that the pool gives idle memory back: few large blocks, many small ones, and none."""

    def once(blocks, mib):
        name = f"trim_beside_training.{blocks}x{mib}MiB"
        summary = suite.scratch(f"allocator/{name}") / "summary.json"
        program = [suite.python, PROGRAMS / "trim_beside_training.py", blocks, mib]
        prefix = suite.run_prefix("--quiet", "--summary", summary)
        result = suite.command(f"allocator.{name}", [*prefix, *program], env=POOL, timeout=60)
        found = json.loads(result.expect_success(name).stdout)
        found["trimmed"] = decided(harness.read_json(summary, "summary"), "allocator.trimmed")
        if found["trimmed"] < blocks:
            raise Failed(f"{found['trimmed']} blocks were given back, not {blocks}: nothing is shown")
        return found

    def check(data):
        runs = {blocks: [] for blocks in TRIMMED}
        for _ in range(TRIM_TURNS):
            for blocks in runs:
                runs[blocks].append(once(*blocks))
        data["runs"] = {f"{blocks} x {mib} MiB": found for (blocks, mib), found in runs.items()}

        def of(choose):
            return lambda key, found: choose(run[key] for run in found)

        median, least, most = of(statistics.median), of(min), of(max)
        return "reported, not asserted: " + "; ".join(
            f"{blocks} blocks of {mib} MiB: {median('lost_ms', found):.1f} ms lost ({least('lost_ms', found):.1f} to "
            f"{most('lost_ms', found):.1f}), longest step {median('longest_ms', found):.1f} ms of {median('step_ms', found):.2f}"
            for (blocks, mib), found in runs.items()
        )

    return check


def measurements(suite):
    """What must have the machine to itself; the most important first, since time may run out."""
    return [
        *pair_checks(suite),
        ("allocator.empty_cache", empty_cache(suite)),
        ("allocator.out_of_memory", out_of_memory(suite)),
        ("allocator.second_process", second_process(suite)),
        ("allocator.lengths", lengths(suite)),
        ("allocator.start_up", start_up(suite)),
        ("allocator.trim_beside_training", needs_gpu(suite, trim_beside_training(suite))),
    ]
