"""Is this version slower than an earlier one? `--older DIR` names a build folder of that one, with its slipstream and
libslipstream.so.

Programs: sets of processes, one under each version, which take turns as in steady; the control is the earlier version
against itself. Where the program can be tuned by hand, that takes its turns too, without slipstream: how many of its samples
a second this version makes is reported. One of them with every call recorded, and with the devices' work too. Single copies
(tools/dev/bench/copy_calls.cpp, one thread and eight; `.cpu()` into fresh memory, and until what was copied to an idle device
is there, programs/timed_copies.py): processes in turn, bare too, and the median of the ratios of turns next to each other.
"""

import dataclasses
import json
import re
import time

import pairs

from . import speed, steady, transfer, workloads
from .harness import Failed, Skipped, needs_gpu
from .paced import end_all
from .sanitizer import library_path

GROUP = "older"
OLDER, NEWER, BARE = "older", "newer", "bare"
HAND_TUNED = speed.HAND_TUNED
SETS, TURNS = 6, 5
# Two versions are equally fast by this.
MOST = 1.02
PROGRAM_SECONDS = 200
LOADERS = ("resnet50", "mobilenet_v2")
MOVING = ("offload", "checkpoint")
# With fewer sets; slower only where that is shown.
LOOPS = (
    "vision_uint8",
    "vision_uint8_workers",
    "vision_float32",
    "vision_float32_workers",
    "lm",
    "small_tensors",
    "nested",
    "item",
)
SETS_OF_LOOPS = 3
SIZES = ("4B", "64KiB", "1MiB", "4MiB", "64MiB", "256MiB")
KINDS = ("h2d/blocking", "d2h/blocking", "h2d/pinned")
# Of copy_calls: every kind and size by one thread, and those up to 4 MiB by eight.
ONE_THREAD = f"(event/record|({'|'.join(KINDS)})/({'|'.join(SIZES)}))/.*threads:1"
EIGHT_THREADS = f"(event/record|({'|'.join(KINDS)})/({'|'.join(SIZES[:4])}))/.*threads:8"
BENCHMARKS = f"^({ONE_THREAD}|{EIGHT_THREADS})$"
# Of timed_copies: what is measured -> bytes of a copy.
SINGLE = {
    "fetch": (1 << 20, 16 << 20, 64 << 20, 256 << 20),
    "complete": (1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20),
}


def examples(suite):
    """name -> Example: what moves much, and what gains nothing."""
    of_loaders = speed.loaders(suite)
    moving = {name: example for wave in workloads.waves(suite) for name, example in wave.items()}
    found = {name: of_loaders[name] for name in LOADERS if name in of_loaders}
    found |= {name: moving[name] for name in (*MOVING, *LOOPS) if name in moving}
    others = () if suite.rehearsal else ("prefetch_stream", "lm_pinned")
    return found | {name: speed.other_examples(suite)[name] for name in others}


def recorded_examples(suite):
    """name -> Example: one that is bound by its launches, with every call recorded, and with the devices' work too."""
    if suite.rehearsal:
        return {}
    plain = dataclasses.replace(speed.other_examples(suite)["lm_pinned"], hand_tuned=False)
    found = {}
    for name, device in {"lm_recorded": "off", "lm_devices_recorded": "cupti"}.items():
        found[name] = dataclasses.replace(plain, env={**plain.env, "SLIPSTREAM_TRACER_DEVICE": device})
    return found


def sides(suite, *options):
    """What stands in front of a command for each version."""
    if not suite.older:
        raise Skipped("no earlier version is named (--older DIR)")
    if not (suite.older / "slipstream").exists():
        raise Failed(f"{suite.older} has no slipstream")
    return {
        OLDER: [str(suite.older / "slipstream"), "run", "--quiet", *options, "--"],
        NEWER: suite.run_prefix("--quiet", *options),
    }


def program(suite, name, example, *options):
    loop = name in LOOPS

    def check(data):
        turns = sides(suite, *options)
        if example.hand_tuned:
            turns[HAND_TUNED] = []
        count = 2 if suite.rehearsal else SETS_OF_LOOPS if loop else SETS
        sets = steady.Sets(suite, name, example, count, turns, GROUP)
        sets.run(2 if suite.rehearsal else steady.ROUNDS, time.monotonic() + min(PROGRAM_SECONDS, suite.remaining()))
        text = steady.recorded(suite, sets, MOST, data)
        if example.hand_tuned:
            text += f"; {of_hand_tuned(suite, sets, data)}"
        if suite.rehearsal:
            return text + "; a rehearsal: not asserted"
        problem = steady.verdict(data[NEWER], MOST)
        if problem and (not loop or data[NEWER]["ratio_low"] > MOST):
            raise Failed(f"{problem}; {text}")
        return text

    return check


def of_hand_tuned(suite, sets, data):
    """Samples a second of both versions as parts of the hand-tuned program's, in the results, in `data`, and in words."""
    parts = []
    for version in (OLDER, NEWER):
        values = sets.pairs_of(lambda number: (number, version), lambda number: (number, HAND_TUNED))
        found = speed.benchmark(sets.name, f"{GROUP}.{version}.{HAND_TUNED}", "s", sets.steps, values[0], None)
        found.update(groups=values, summary=pairs.summarize(values))
        suite.add_benchmark(found)
        data[f"{version} of {HAND_TUNED}"] = found["summary"]
        parts.append(f"{version} {speed.spread(found['summary'])}")
    return f"of the hand-tuned one's samples a second: {', '.join(parts)}"


def call_times(output):
    """copy_calls' standard output: name of a benchmark -> nanoseconds of a copy. The mean, because where threads wait for
    each other half of the copies may be quick and the others what is waited for."""
    return {
        re.sub("/(iterations:[0-9]+|manual_time)", "", found["name"]): found["mean_ns"]
        for found in json.loads(output)["benchmarks"]
        if "mean_ns" in found
    }


def compared(turns):
    """`turns`: {variant: {what: seconds}}, one a turn. What -> (medians by variant, summary of now / before)."""
    found = {}
    for what in turns[0][OLDER]:
        if not all(what in of_variant for turn in turns for of_variant in turn.values()):
            continue  # a copy that a program had no memory for
        summary = pairs.summarize([[(turn[OLDER][what], turn[NEWER][what]) for turn in turns]])
        bare = sorted(turn[BARE][what] for turn in turns)[len(turns) // 2]
        found[what] = {"bare": bare, "summary": summary}
    return found


def judged(suite, name, turns, data):
    """Every kind of copy in words; Failed where one is shown to be slower."""
    data["copies"] = found = compared(turns)
    suite.add_benchmark({"name": name, "variant": f"{GROUP}.copies", "unit": "s", "turns": turns, "copies": found})
    slower = [what for what, of_what in found.items() if of_what["summary"]["ratio_low"] > MOST]
    text = "; ".join(
        f"{what} bare {transfer.short(of_what['bare'])}, before {transfer.short(of_what['summary']['a_median'])}, "
        f"now/before {speed.spread(of_what['summary'])}"
        for what, of_what in found.items()
    )
    if slower:
        raise Failed(f"slower by more than 2 %: {', '.join(slower)}; {text}")
    return text


def in_turn(suite, once):
    """`once(variant, prefix)` for every variant in every turn, in an order that changes."""
    fronts = {BARE: [], **sides(suite)}
    turns = []
    for number in range(TURNS):
        order = [list(fronts)[(number + place) % len(fronts)] for place in range(len(fronts))]
        turns.append({variant: once(variant, fronts[variant]) for variant in order})
    return turns


def calls(suite):
    def check(data):
        benchmark = suite.build / "bench" / "gpu" / "copy_calls"
        if not benchmark.exists():
            raise Skipped(f"{benchmark} is not there")
        options = ["--calls", 3000, "--bytes", 1 << 29, "--benchmark_format=json", f"--benchmark_filter={BENCHMARKS}"]
        env = {"LD_LIBRARY_PATH": library_path(suite)}

        def once(variant, prefix):
            result = suite.command(f"{GROUP}.calls.{variant}", [*prefix, benchmark, *options], env=env, timeout=90)
            found = call_times(result.expect_success(variant).stdout)
            return {what: nanoseconds * 1e-9 for what, nanoseconds in found.items()}

        return judged(suite, "calls", in_turn(suite, once), data)

    return check


def single(suite, what, name):
    def check(data):
        processes = {}
        try:
            for variant, prefix in {BARE: [], **sides(suite)}.items():
                processes[variant] = transfer.start(suite, variant, prefix)
            for process in processes.values():
                process.read(90)

            def once(variant, _prefix):
                found = {}
                for size in SINGLE[what]:
                    request = {"what": what, "bytes": size, "repetitions": 4, "pinned": False}
                    seconds = processes[variant].ask(request)["seconds"]
                    found[transfer.size_name(size)] = sorted(seconds)[len(seconds) // 2]
                return found

            # Behind turns in which the engine finds its way.
            for variant in processes:
                for _ in range(2):
                    once(variant, None)
            turns = in_turn(suite, once)
        finally:
            end_all(processes.values())
        return judged(suite, name, turns, data)

    return check


def checks(suite):
    found = [(f"{GROUP}.{name}", program(suite, name, example)) for name, example in examples(suite).items()]
    recorded = recorded_examples(suite).items()
    found += [(f"{GROUP}.{name}", program(suite, name, example, "--record")) for name, example in recorded]
    measured = {
        "calls": calls(suite),
        "fresh": single(suite, "fetch", "cpu into fresh memory"),
        "complete": single(suite, "complete", "until the bytes are on the device"),
    }
    found += [(f"{GROUP}.{name}", needs_gpu(suite, check)) for name, check in measured.items()]
    return found
