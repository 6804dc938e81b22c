"""Training for minutes in one process: nothing grows, nothing stops acting, and every round has the same losses and weights.

Each workload runs twice side by side, bare and under slipstream, which records every call all the time and for a while
what the device does. A process trains its examples round after round (soak_train.py); between rounds nothing of them is
left, and there it is looked at from outside. The figures of the rounds behind the warm-up are fitted with a line: growth is
what the line rises by from the first of these rounds to the last, and its error that of the fit at 95 %. A figure is flat
unless its growth is both beyond the error and beyond the allowance that METRICS gives a reason for; what the bare process
grew by is taken off. With --soak-state stretches add up, the allowance does not.
"""

import dataclasses
import glob
import json
import math
import os
import pathlib
import select
import statistics
import threading
import time

from . import counter_file, harness, identity, inert, machine
from .harness import GPU_TESTS, Failed
from .paced import Conversation, end_all
from .summary import decided

GROUP = "soak"
BARE, SLIPSTREAM = "bare", "slipstream"
SCHEMA = "slipstream-soak-1"
MOST_MINUTES, LEAST_MINUTES = 60, 0.01
# Starting, the last round of each process and reading what they left take so much more.
AROUND_SECONDS = 150
ROUND_SECONDS = 90
START_SECONDS = 120
SAMPLE_SECONDS = 3
# Between a round's end and the look at the device: idle blocks of the pool go back after allocator.decay (2 s).
SETTLE_SECONDS = 3
LEAST_ROUNDS = 6
WARM_UP_ROUNDS, WARM_UP_SHARE = 2, 0.25
DEVICE_AFTER, DEVICE_FOR = 20, 30
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Metric:
    allowance: float
    why: str
    share: float = 0.0  # of the figure's own mean, where that is more than the allowance
    unit: str = ""
    bare: bool = True  # the bare process has it too

    def allowed(self, values):
        return max(self.allowance, self.share * abs(statistics.fmean(values)))


METRICS = {
    "rss": Metric(8 * MIB, "malloc gives memory back in pieces of some MiB, when it likes", share=0.005, unit="B"),
    "locked": Metric(4 * MIB, "staging memory is a whole number of MiB, made when a copy needs it", unit="B"),
    "mappings": Metric(24, "malloc's arenas and threads' stacks come and go, several mappings each", share=0.01),
    "threads": Metric(0.5, "whole threads: half of one is none"),
    "files": Metric(0.5, "whole files: half of one is none"),
    "children": Metric(0.5, "whole processes: half of one is none"),
    "device": Metric(32 * MIB, "the driver takes memory by 2 MiB and keeps some of its own", share=0.01, unit="B"),
    "torch_reserved": Metric(2 * MIB, "one small segment of PyTorch's allocator", unit="B"),
    "torch_pinned": Metric(4 * MIB, "blocks of PyTorch's pinned memory are powers of two", unit="B"),
    "pool_live": Metric(2 * MIB, "one small segment of PyTorch's allocator", unit="B", bare=False),
    "allocations": Metric(2, "PyTorch's workspaces, one a handle", bare=False),
    "pinned_blocks": Metric(
        2, "PyTorch keeps pinned blocks that it has, and makes one more when all are in use", bare=False
    ),
    "events": Metric(8, "PyTorch keeps events that it has, and makes more when all are in use", share=0.02, bare=False),
    "streams": Metric(0.5, "whole streams: half of one is none", bare=False),
    "launches_a_round": Metric(0.5, "the same steps make the same launches", bare=False),
    "copies_a_round": Metric(0.5, "the same steps make the same copies", bare=False),
}
# What is made less what is gone.
LIVE = {
    "allocations": (("cudaMalloc",), ("cudaFree",)),
    "pinned_blocks": (("cudaHostAlloc", "cudaMallocHost"), ("cudaFreeHost",)),
    "events": (("cudaEventCreate", "cudaEventCreateWithFlags"), ("cudaEventDestroy",)),
    "streams": (
        ("cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority"),
        ("cudaStreamDestroy",),
    ),
}
LAUNCHES = ("cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchKernelExC")
COPIES = ("cudaMemcpyAsync", "cudaMemcpy")
# Of the decisions of a round in the last third, so many of those in the first third must still be made.
STILL_ACTING = 0.9
ACTS = ("transfer.h2d.promoted", "allocator.parked")


def workloads(suite):
    """name -> {example: {program, arguments}}; tiny where there is no GPU."""

    def example(program, *arguments):
        return {"program": program, "arguments": list(arguments)}

    if suite.rehearsal:
        tiny = ("--device", "cpu", "--steps", "4", "--batch", "2")
        lm = example("train_lm.py", *tiny, *"--layers 1 --width 32 --heads 2 --length 16".split())
        thread = example("train_patterns.py", *tiny, *"--pattern prefetch_thread --size 32 --width 8".split())
        return {"lm": {"lm": lm}, "patterns": {"prefetch_thread": thread}}
    patterns = [name for name in identity.PATTERNS if name != "compiled"]
    images = ("--steps", "60", "--batch", "32", "--workers", "4")
    return {
        "resnet": {
            "resnet18": example("train_resnet.py", *images),
            "mobilenet_v2": example("train_resnet.py", *images, "--model", "mobilenet_v2", "--autocast"),
        },
        "lm": {
            "lm": example("train_lm.py", "--steps", "80"),
            "lm_bf16": example("train_lm.py", "--steps", "80", "--autocast"),
        },
        "patterns": {name: example("train_patterns.py", "--pattern", name, "--steps", "40") for name in patterns},
    }


# -- the look from outside


def look(pid):
    """Figures of a process, from /proc; None: it has ended."""
    try:
        root = pathlib.Path(f"/proc/{pid}")
        lines = (root / "status").read_text(encoding="utf-8", errors="replace").splitlines()
        status = dict(line.split(":", 1) for line in lines if ":" in line)

        def kib(name):
            return int(status.get(name, "0 kB").split()[0]) * 1024

        with open(root / "maps", "rb") as maps:
            mappings = sum(1 for _ in maps)
        return {
            "rss": kib("VmRSS"),
            "locked": kib("VmLck") + kib("VmPin"),
            "mappings": mappings,
            "threads": int(status["Threads"]),
            "files": len(os.listdir(root / "fd")),
            "children": len(inert.descendants(pid)) - 1,
        }
    except (OSError, KeyError, ValueError):
        return None


def device_memory(rows, pid):
    """Bytes of a process on all devices, of nvidia-smi's rows; None: it does not know the process (in a container, say)."""
    found = [row["used_memory"] for row in rows if row.get("pid") == str(pid) and row.get("used_memory", "").isdigit()]
    return sum(map(int, found)) * MIB if found else None


def ask_device():
    try:
        return machine.nvidia_smi(["pid", "used_memory"], "compute-apps")
    except (OSError, ValueError):
        return []


def of_counters(counters, before):
    """Figures of a counter file, and of a round where there is a look before."""
    calls = counters["calls"]

    def number(names, of):
        return sum(of.get(name, 0) for name in names)

    found = {name: number(made, calls) - number(gone, calls) for name, (made, gone) in LIVE.items()}
    found["pool_live"] = sum(counters["live_bytes"].values())
    if before:
        found["launches_a_round"] = number(LAUNCHES, calls) - number(LAUNCHES, before["calls"])
        found["copies_a_round"] = number(COPIES, calls) - number(COPIES, before["calls"])
    return found


# -- is it flat?


def quantile(freedom):
    """Student's t for 95 % on both sides (Cornish-Fisher around the normal distribution's)."""
    z = statistics.NormalDist().inv_cdf(0.975)
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def growth_of(values):
    """(what a line through the values rises by from the first to the last, its error at 95 %)."""
    count = len(values)
    middle, mean = (count - 1) / 2, statistics.fmean(values)
    spread = sum((x - middle) ** 2 for x in range(count))
    slope = sum((x - middle) * (y - mean) for x, y in enumerate(values)) / spread
    rest = sum((y - mean - slope * (x - middle)) ** 2 for x, y in enumerate(values))
    error = quantile(count - 2) * math.sqrt(rest / (count - 2) / spread)
    return slope * (count - 1), error * (count - 1)


def warm(rounds):
    """The rounds behind the warm-up."""
    return rounds[max(WARM_UP_ROUNDS, math.ceil(WARM_UP_SHARE * len(rounds))) :]


def series(looks, name):
    """The values of a figure; None where a look has it not."""
    found = [look.get(name) for look in looks]
    return None if any(value is None for value in found) else found


def judged(looks, bare_looks):
    """{figure: {"growth", "error", "allowance", "mean"}} of two processes' looks behind the warm-up."""
    found = {}
    for name, metric in METRICS.items():
        values = series(looks, name)
        if not values or len(values) < LEAST_ROUNDS:
            continue
        growth, error = growth_of(values)
        row = {"growth": growth, "error": error, "allowance": metric.allowed(values), "mean": statistics.fmean(values)}
        bare = series(bare_looks, name) if metric.bare else None
        if bare and len(bare) >= LEAST_ROUNDS:
            row["bare_growth"], bare_error = growth_of(bare)
            row["growth"] -= max(0.0, row["bare_growth"])
            row["error"] = math.hypot(error, bare_error)
        found[name] = row
    return found


def shown(name, value):
    if METRICS[name].unit == "B":
        return f"{value / MIB:+.2f} MiB"
    return f"{value:+.2f}"


def grown(judgment):
    """Sentences about the figures that grew; judgment: {figure: {"growth", "error", "allowance", ...}}."""
    return [
        f"{name} grew by {shown(name, row['growth'])} (error {shown(name, row['error'])}, "
        f"allowed {shown(name, row['allowance'])}: {METRICS[name].why})"
        for name, row in judgment.items()
        if row["growth"] > row["error"] and row["growth"] > row["allowance"]
    ]


def stopped(counters):
    """Sentences about what slipstream does less and less; counters: the counter files of the rounds behind the warm-up."""
    found = []
    for name in ACTS:
        totals = [
            sum(count for key, count in each["decisions"].items() if key == name or key.startswith(f"{name}."))
            for each in counters
        ]
        of_round = [b - a for a, b in zip(totals, totals[1:])]
        third = max(1, len(of_round) // 3)
        first, last = sum(of_round[:third]), sum(of_round[-third:])
        if last < STILL_ACTING * first:
            found.append(f"{name}: {last} in the last {third} rounds, {first} in the first {third}")
    return found


def compare_rounds(rounds, bare_rounds):
    """What is wrong with the examples' results: rounds are lists of {example: {...}}."""
    wrong = []
    expected = {name: result["digest"] for name, result in bare_rounds[0].items()}
    for side, found in ((BARE, bare_rounds), (SLIPSTREAM, rounds)):
        for number, results in enumerate(found):
            for name, result in results.items():
                if not result["finite"]:
                    wrong.append(f"{side}, round {number + 1}, {name}: a loss that is not finite")
                elif not result["reloaded"]:
                    wrong.append(f"{side}, round {number + 1}, {name}: what torch.save kept is not what was there")
                elif result["digest"] != expected[name]:
                    what = "two bare rounds differ, so it shows nothing" if side == BARE else "not the bare run's bits"
                    wrong.append(f"{side}, round {number + 1}, {name}: {what}")
    return wrong


# -- one stretch


class Side:
    """One training process and what was seen of it."""

    def __init__(self, suite, workload, variant, examples):
        self.variant = variant
        self.settle = 0 if suite.rehearsal else SETTLE_SECONDS
        self.folder = suite.scratch(f"{GROUP}/{workload}/{variant}")
        self.summary = self.folder / "summary.json"
        prefix, env = [], {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "2"}
        if variant == SLIPSTREAM:
            prefix = suite.run_prefix("--quiet", "--record", "--summary", self.summary)
            env |= {
                "SLIPSTREAM_TRACER_DEVICE": "cupti",
                "SLIPSTREAM_TRACER_DEVICE_AFTER": DEVICE_AFTER,
                "SLIPSTREAM_TRACER_DEVICE_FOR": DEVICE_FOR,
                "SLIPSTREAM_TRACER_MAX_FILE": "16GiB",
            }
        program = [suite.python, GPU_TESTS / "soak_train.py", json.dumps(examples), self.folder]
        self.talk = Conversation(suite, f"{GROUP}.{workload}.{variant}", [*prefix, *program], env, cwd=self.folder)
        self.pid = None
        self.rounds, self.looks, self.counters, self.peaks = [], [], [], {}
        self.waiting = False  # for the end of a round
        self.next_at = None  # when to look at the device and to go on
        self.since = 0.0

    def ask(self):
        self.talk.process.stdin.write(b"\n")
        self.talk.process.stdin.flush()
        self.waiting, self.next_at, self.since = True, None, time.monotonic()

    def answered(self):
        """A round is over: its results, and what the process is like now."""
        answer = self.talk.read(ROUND_SECONDS)
        self.rounds.append(answer["examples"])
        seen = look(self.pid)
        if seen is None:
            raise Failed(f"{self.talk.name} ended")
        for name in ("reserved", "pinned"):
            if name in answer["memory"]:
                seen[f"torch_{name}"] = answer["memory"][name]
        self.looks.append(seen)
        self.waiting, self.next_at = False, time.monotonic() + self.settle

    def settled(self, device_rows):
        """The round's end is long enough ago that idle memory is the driver's again."""
        seen = self.looks[-1]
        seen["device"] = device_memory(device_rows, self.pid)
        if self.variant == SLIPSTREAM:
            for folder in glob.glob(str(self.folder / "slipstream-trace-*")):
                if counters := counter_file.of_process(folder, self.pid):
                    seen |= of_counters(counters, self.counters[-1] if self.counters else None)
                    self.counters.append(counters)

    def sample(self):
        for name, value in (look(self.pid) or {}).items():
            self.peaks[name] = max(value, self.peaks.get(name, 0))


def stretch(suite, workload, examples, seconds):
    """Trains both sides for so long; the two of them, ended."""
    sides = []
    try:
        sides += [Side(suite, workload, variant, examples) for variant in (BARE, SLIPSTREAM)]
        for side in sides:
            side.pid = side.talk.read(START_SECONDS)["ready"]
        end = time.monotonic() + seconds
        for side in sides:
            side.ask()
        sample_at = time.monotonic()
        while any(side.waiting or side.next_at is not None for side in sides):
            now = time.monotonic()
            if now >= sample_at:
                sample_at = now + SAMPLE_SECONDS
                for side in sides:
                    side.sample()
            ready = {side.talk.process.stdout: side for side in sides if side.waiting}
            due = [side.next_at for side in sides if side.next_at is not None]
            until = min([sample_at, *due]) - now
            for stream in select.select(list(ready), [], [], max(0.0, until))[0]:
                ready[stream].answered()
            now = time.monotonic()
            settled = [side for side in sides if side.next_at is not None and now >= side.next_at]
            rows = ask_device() if settled and not suite.rehearsal else []
            for side in settled:
                side.settled(rows)
                if now < end:
                    side.ask()
                else:
                    side.next_at = None
            for side in sides:
                if side.waiting and now - side.since > ROUND_SECONDS:
                    raise Failed(f"{side.talk.name}: a round was not over after {ROUND_SECONDS} s")
    finally:
        end_all((side.talk for side in sides), timeout=40)
    for side in sides:
        if side.talk.process.returncode != 0:
            raise Failed(f"{side.talk.name} ended with {side.talk.process.returncode}: see its stderr in the logs")
    return sides


# -- several stretches


class State:
    """--soak-state: what earlier stretches came to. Threading: any. Without a file only this run counts."""

    def __init__(self, path, commit, gpu):
        self.path = pathlib.Path(path) if path else None
        self.about = {"schema": SCHEMA, "commit": commit, "gpu": gpu}
        self.stretches = []
        self.problem = None
        self._lock = threading.Lock()
        if self.path and self.path.exists():
            try:
                kept = json.loads(self.path.read_text(encoding="utf-8"))
                self.stretches = list(kept["stretches"])
                other = {key: kept.get(key) for key in self.about if kept.get(key) != self.about[key]}
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.problem = f"{self.path} cannot be read ({error!r:.100}): name another --soak-state"
                return
            if other:
                self.problem = f"{self.path} is about {other}, not {self.about}: name another --soak-state"

    def of(self, workload):
        with self._lock:
            return [stretch for stretch in self.stretches if stretch["workload"] == workload]

    def minutes(self, workload):
        return sum(stretch["minutes"] for stretch in self.of(workload))

    def add(self, entry):
        with self._lock:
            self.stretches.append(entry)
            if self.path:
                partial = self.path.with_suffix(".new")
                partial.write_text(
                    json.dumps(self.about | {"stretches": self.stretches}, indent=1) + "\n", encoding="utf-8"
                )
                os.replace(partial, self.path)


def added_up(stretches):
    """{figure: {...}} over all stretches: growths and their errors add up, the allowance stays that of one."""
    total = {}
    for each in stretches:
        for name, row in each["figures"].items():
            if name not in METRICS:
                continue
            into = total.setdefault(name, {"growth": 0.0, "error": 0.0, "allowance": 0.0})
            into["growth"] += row["growth"]
            into["error"] = math.hypot(into["error"], row["error"])
            into["allowance"] = max(into["allowance"], row["allowance"])
    return total


def told(state, workload):
    stretches = state.of(workload)
    rounds, steps = (sum(each[key] for each in stretches) for key in ("rounds", "steps"))
    several = f" in {len(stretches)} stretches" if len(stretches) > 1 else ""
    return f"{state.minutes(workload):.1f} minutes{several}, {rounds} rounds, {steps} steps"


def check_of(suite, workload, examples, state):
    def check(data):
        if state.problem:
            raise Failed(state.problem)
        minutes = min(suite.soak_minutes, MOST_MINUTES - state.minutes(workload))
        if minutes < LEAST_MINUTES:
            if wrong := grown(added_up(state.of(workload))):
                raise Failed(f"{told(state, workload)}: " + "; ".join(wrong))
            return f"{told(state, workload)} are there already; all flat"
        needed = minutes * 60 + AROUND_SECONDS
        if suite.remaining() < needed and not suite.rehearsal:
            spent = time.monotonic() - suite.started
            raise Failed(f"{suite.remaining():.0f} s are left: give --budget {spent + needed:.0f} or fewer --minutes")
        bare, under = stretch(suite, workload, examples, minutes * 60)
        rounds = warm(under.rounds)
        data.update(rounds=len(under.rounds), bare_rounds=len(bare.rounds), peaks=under.peaks, bare_peaks=bare.peaks)
        wrong = compare_rounds(under.rounds, bare.rounds)
        if len(rounds) < LEAST_ROUNDS or len(warm(bare.rounds)) < LEAST_ROUNDS:
            raise Failed(
                f"{len(under.rounds)} rounds, {len(bare.rounds)} bare: too few for a line, give more --minutes"
                + "".join(f"; {each}" for each in wrong[:3])
            )
        looks = warm(under.looks)
        data["figures"] = figures = judged(looks, warm(bare.looks))
        data["looks"] = looks
        wrong += grown(figures)
        if not suite.rehearsal:
            seen = harness.read_json(under.summary, "summary")
            data["decisions"] = seen["totals"].get("decisions", {})
            data["trace"] = {key: value for key, value in (seen["trace"] or {}).items() if key != "directory"}
            wrong += [f"the summary shows no {name}" for name in ACTS if not decided(seen, name)]
            if len(under.counters) != len(under.rounds):
                wrong.append(f"{len(under.counters)} looks at the counters in {len(under.rounds)} rounds")
            else:
                wrong += stopped(warm(under.counters))
        steps = sum(result["steps"] for results in under.rounds for result in results.values())
        state.add(
            {
                "workload": workload,
                "date": suite.results.get("date"),
                "minutes": minutes,
                "rounds": len(under.rounds),
                "steps": steps,
                "figures": figures,
                "wrong": wrong,
            }
        )
        wrong += [
            f"in all stretches {each}" for each in grown(added_up(state.of(workload))) if len(state.of(workload)) > 1
        ]
        if earlier := [each for each in state.of(workload)[:-1] if each["wrong"]]:
            wrong.append(f"{len(earlier)} earlier stretches failed: {earlier[0]['wrong'][0]}")
        if wrong:
            raise Failed("; ".join(wrong[:6]))
        missing = [name for name in METRICS if name not in figures]
        flat = f"{len(figures)} figures flat" + (f" (not to be had: {', '.join(missing)})" if missing else "")
        rss = figures["rss"]
        return (
            f"{told(state, workload)}; losses and weights as bare in every round; {flat}; "
            f"resident memory {shown('rss', rss['growth'])} of {rss['mean'] / MIB:.0f} MiB"
        )

    return check


def checks(suite):
    gpus = suite.results.get("machine", {}).get("gpus", [])
    state = State(suite.soak_state, suite.results.get("commit"), gpus[0]["name"] if gpus else None)
    return [(f"{GROUP}.{name}", check_of(suite, name, examples, state)) for name, examples in workloads(suite).items()]
