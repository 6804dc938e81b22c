"""Single copies from pageable memory to the device: how long the host waits (T5), and when the bytes are there (T3);
and back, into a new tensor behind one that was freed (T4).

T5 is measured twice: the two CUDA calls alone (tools/dev/bench/blocking_copies.cpp), held to the target, and the whole of
PyTorch's `.cuda()`, reported. Beside each stands the same for a pinned copy that waits for nothing, the least that one
costs on that machine and the measure of small ones; beside the calls also the driver's own copy of pageable memory, without the
synchronization behind it: what a small copy consists of under slipstream, which then only has to skip that.
Beside T3 and T4 stands what the host alone can do (tests/transfer/staging_rates.cpp). Bare and slipstream take turns. The
first turn of a size does not count; in it the engine tries both of its ways (transfer/path_chooser.h), three times each, and knows from then on which is the faster one.
"""

import json
import math
import statistics

from .harness import GPU_TESTS, Failed, Skipped
from .paced import Conversation, end_all
from .sanitizer import library_path

BARE, SLIPSTREAM, UNWAITED = "bare", "slipstream", "unwaited"
KIB, MIB = 1 << 10, 1 << 20
# T5: seconds of host time in a blocking .cuda() behind a long queue of kernels; of small ones, times the pinned copy's.
TARGETS = {4: None, 64 * KIB: None, 4 * MIB: 0.3e-3, 64 * MIB: 3e-3}
MOST_OF_PINNED = 2
# T3: of a pinned copy's rate.
COMPLETE = {4 * MIB: 0.50, 16 * MIB: 0.62, 64 * MIB: 0.72, 256 * MIB: 0.75}
# T4: a bare `.cpu()` takes so many times as long, behind one whose result was freed.
FETCH = (16 * MIB, 64 * MIB, 256 * MIB)
FETCH_TIMES = 20
# Behind how long a queue: a bare copy that returned sooner would show that there was none.
QUEUE_SECONDS = 0.064
TURNS = 4
# Of the turn that does not count, where a copy is one of those that may go either way.
LEARNING = 8
# What the host alone does of a copy: names in staging_rates, and whether by non-temporal stores.
HOST_WORK = {"complete": ("stage", 1), "fetch": ("fill", 0)}


def size_name(size):
    return f"{size // MIB}MiB" if size >= MIB else f"{size // KIB}KiB" if size >= KIB else f"{size}B"


def percentile(values, share):
    """The smallest value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1]


def short(seconds):
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def summary_of(values):
    return {"repetitions": len(values), "median": statistics.median(values), "p90": percentile(values, 0.9)}


def start(suite, variant, prefix):
    argv = [*prefix, suite.python, GPU_TESTS / "programs" / "timed_copies.py", suite.device]
    env = {"OMP_NUM_THREADS": "4", "PYTHONWARNINGS": "ignore", "SLIPSTREAM_TRANSFER_D2H": "on"}
    return Conversation(suite, f"transfer.{variant}", argv, env)


def take_turns(processes, what, size, repetitions, turns, warm_up=0):
    """{variant: seconds}, and with "pinned" those of a pinned copy in the bare process. The first turn warms up."""
    values = {BARE: [], SLIPSTREAM: [], "pinned": []}
    request = {"what": what, "bytes": size, "repetitions": repetitions}
    for turn in range(turns + 1):
        order = (BARE, SLIPSTREAM, "pinned") if turn % 2 else ("pinned", SLIPSTREAM, BARE)
        for name in order:
            process = processes[BARE if name == "pinned" else name]
            more = {"pinned": name == "pinned"}
            if not turn:
                more["repetitions"] = max(warm_up, repetitions)
            seconds = process.ask({**request, **more}, timeout=60)["seconds"]
            if turn:
                values[name] += seconds
    return values


def host_alone(suite, what, size):
    """What staging_rates says of the most threads that it ran, which had slept; None where it is not in the build."""
    program = suite.build / "bench" / "staging_rates"
    if not program.exists():
        return None
    work, streaming = HOST_WORK[what]
    wanted = f"{work}/MiB:{size // MIB}/.*/streaming:{streaming}/"
    argv = [program, "--benchmark_format=json", f"--benchmark_filter={wanted}"]
    result = suite.command("transfer.host", argv, timeout=60)
    result.expect_success("staging_rates")
    return json.loads(result.stdout)["benchmarks"][-1]


def checks(suite):
    turns = 1 if suite.rehearsal else TURNS
    scale = 1 << 10 if suite.rehearsal else 1  # smaller copies where there is no device
    measured = {}

    def measure(data):
        processes = {}
        try:
            for variant in (BARE, SLIPSTREAM):
                processes[variant] = start(suite, variant, suite.run_prefix("--quiet") if variant == SLIPSTREAM else [])
            for process in processes.values():
                process.read(90)
            for size in TARGETS:
                # At least 15 of each, 16 where a turn is short.
                repetitions = 4 if size < 64 * MIB else 3
                values = take_turns(processes, "blocking", max(1, size // scale), repetitions, turns)
                add("blocking", size, values)
            for what, sizes in (("complete", COMPLETE), ("fetch", FETCH)):
                for size in sizes:
                    values = take_turns(processes, what, size // scale, 3, min(turns, 3), LEARNING)
                    add(what, size, values, host_alone(suite, what, size))
        finally:
            end_all(processes.values())
        data["measured"] = sorted(f"{what} {size_name(size)}" for what, size in measured)
        return f"{len(measured)} kinds of copies, {turns} turns each"

    def add(what, size, values, alone=None):
        summaries = {name: summary_of(found) for name, found in values.items()}
        if alone is not None:
            summaries["host"] = {"repetitions": alone["iterations"], "median": alone["p50_ns"] * 1e-9}
        measured[what, size] = summaries
        suite.add_benchmark(
            {
                "name": f"{what} {size_name(size)}",
                "variant": f"copy.{what}",
                "unit": "s",
                "bytes": size,
                "target": target_of(size, summaries) if what in ("blocking", "calls") else None,
                "values": values,
                "summary": summaries,
            }
        )

    def target_of(size, found):
        return TARGETS[size] or MOST_OF_PINNED * found["pinned"]["median"]

    def of(what, size, data):
        if (what, size) not in measured:
            raise Failed("not measured (transfer.measure failed, or --only left it out)")
        data.update(measured[what, size])
        return measured[what, size]

    def host_text(found, does):
        if "host" not in found:
            return ""
        return f"; the host alone {does} in {short(found['host']['median'])} of {short(found[SLIPSTREAM]['median'])}"

    def blocking(size):
        def check(data):
            found = of("blocking", size, data)
            bare, under = found[BARE], found[SLIPSTREAM]
            data["target_seconds"] = target = target_of(size, found)
            text = (
                f"{short(under['median'])} (p90 {short(under['p90'])}) under slipstream, target {short(target)}; "
                f"bare {short(bare['median'])} (p90 {short(bare['p90'])}); "
                f"pinned and not waiting {short(found['pinned']['median'])}; {under['repetitions']} repetitions"
            )
            if suite.rehearsal:
                return text + "; a rehearsal: not asserted"
            if bare["median"] < QUEUE_SECONDS / 2:
                raise Failed(f"the bare copy did not wait for the queue: nothing is shown; {text}")
            return text + "; reported, not asserted"

        return check

    def measure_calls(data):
        program = suite.build / "bench" / "gpu" / "blocking_copies"
        if not program.exists():
            raise Skipped(f"{program} is not there")
        values = {BARE: {}, SLIPSTREAM: {}, "pinned": {}, UNWAITED: {}}
        own = {"pinned": ["--pinned"], UNWAITED: ["--unwaited"]}
        env = {"LD_LIBRARY_PATH": library_path(suite)}
        if suite.rehearsal:
            raise Skipped("a rehearsal: there is no CUDA runtime")
        for turn in range(4):
            for variant in list(values)[:: -1 if turn % 2 else 1]:
                prefix = suite.run_prefix("--quiet") if variant == SLIPSTREAM else []
                options = ["--repetitions", 5, *own.get(variant, [])]
                result = suite.command("transfer.calls", [*prefix, program, *options], env=env, timeout=60)
                result.expect_success(variant)
                for size, seconds in json.loads(result.stdout).items():
                    values[variant].setdefault(int(size), []).extend(seconds)
        for size in TARGETS:
            add("calls", size, {variant: values[variant][size] for variant in values})
        result = suite.command("transfer.calls", [program, "--parts", "--repetitions", 20], env=env, timeout=60)
        result.expect_success("parts")
        data["parts"] = {name: statistics.median(seconds) for name, seconds in json.loads(result.stdout).items()}
        parts = ", ".join(f"{name} {short(median)}" for name, median in data["parts"].items())
        return f"{len(values[BARE][4])} repetitions of each; driver calls around a copy of 4 B, each by itself: {parts}"

    def calls(size):
        def check(data):
            found = of("calls", size, data)
            bare, under = found[BARE], found[SLIPSTREAM]
            data["target_seconds"] = target = target_of(size, found)
            text = (
                f"{short(under['median'])} (p90 {short(under['p90'])}) under slipstream, target {short(target)}; "
                f"bare {short(bare['median'])} (p90 {short(bare['p90'])}), without the wait {short(found[UNWAITED]['median'])}; "
                f"pinned and not waiting, the least on this machine, {short(found['pinned']['median'])}; "
                f"{under['repetitions']} repetitions"
            )
            if bare["median"] < QUEUE_SECONDS / 2:
                raise Failed(f"the bare copy did not wait for the queue: nothing is shown; {text}")
            if under["median"] > target:
                raise Failed(f"over the target; {text}")
            return text

        return check

    def complete(size):
        def check(data):
            found = of("complete", size, data)

            def rate(name):
                return f"{size / found[name]['median'] / 1e9:.1f} GB/s"

            share = found["pinned"]["median"] / found[SLIPSTREAM]["median"]
            return (
                f"{rate(SLIPSTREAM)} under slipstream, {rate(BARE)} bare, {rate('pinned')} pinned; "
                f"{share:.2f} of pinned (target {COMPLETE[size]:.2f}){host_text(found, 'stages them')}; reported, not asserted"
            )

        return check

    def fetch(size):
        def check(data):
            found = of("fetch", size, data)
            rates = ", ".join(
                f"{size / found[name]['median'] / 1e9:.1f} GB/s {text}"
                for name, text in ((SLIPSTREAM, "under slipstream"), (BARE, "bare"), ("pinned", "into pinned memory"))
            )
            times = found[BARE]["median"] / found[SLIPSTREAM]["median"]
            host = host_text(found, "fills such memory")
            return f"{rates}; bare takes {times:.1f} times as long (target {FETCH_TIMES}){host}; reported, not asserted"

        return check

    return [
        ("transfer.measure_calls", measure_calls),
        *((f"transfer.calls_{size_name(size)}", calls(size)) for size in TARGETS),
        ("transfer.measure", measure),
        *((f"transfer.blocking_{size_name(size)}", blocking(size)) for size in TARGETS),
        *((f"transfer.complete_{size_name(size)}", complete(size)) for size in COMPLETE),
        *((f"transfer.fetch_{size_name(size)}", fetch(size)) for size in FETCH),
    ]
