"""slipstream's counts against CUPTI's (the same process) and torch.profiler's (the same steps).

The engines are off here: what they do by their own means is not the runtime call that CUPTI would see.
"""

import collections
import concurrent.futures
import re
import threading

from . import harness
from .harness import GPU_TESTS, REPOSITORY, Failed, Skipped

# The steps of the two runs whose difference is compared with the profiler's windows of the same difference.
FEW_STEPS, MANY_STEPS = 6, 14
# The profiler's first window also brings CUPTI up and is not used.
WINDOWS = (1, 4, 4 + MANY_STEPS - FEW_STEPS)

# What the program must have called for the comparison to mean anything, each with the names it goes by.
MUST_OCCUR = {
    "cudaMalloc": re.compile(r"cudaMalloc$"),
    "copies": re.compile(r"cudaMemcpy"),
    "synchronizations": re.compile(r"cuda(Stream|Device|Event)Synchronize$"),
    "launches": re.compile(r"(__)?cudaLaunchKernel(ExC)?$"),
}
# What the profiler's steps are compared in: calls whose number a step of the program fixes. Event queries and the like
# depend on how far the device has got.
PER_STEP = re.compile(
    r"cuda(Malloc|Free|HostAlloc|Memcpy|Memset|Launch|StreamSynchronize|EventSynchronize|DeviceSynchronize)"
)

ROW = re.compile(r"^(HOOK\w*)\(\w+, (\w+)", re.MULTILINE)


def hook_names(text):
    """Names of the hook table; its row macros are explained at its top."""
    names = []
    for macro, name in ROW.findall(text[text.index("\n// ---- ") :]):
        names.append(name)
        for suffix in ("_ptsz", "_ptds"):
            if suffix.upper() in macro:
                names.append(name + suffix)
    return names


def hook_table():
    return hook_names((REPOSITORY / "shim" / "hooks.def").read_text(encoding="utf-8"))


def driver_hook_table():
    """Names of the driver's functions that are hooked where the policy has the driver's level; none in an older tree."""
    path = REPOSITORY / "shim" / "driver_hooks.def"
    return hook_names(path.read_text(encoding="utf-8")) if path.exists() else []


def strip_version(name):
    """cudaLaunchKernel_ptsz_v7000 -> cudaLaunchKernel_ptsz. The API's own _v2 has no such number of digits."""
    return re.sub(r"_v\d{4,}$", "", name)


def common_name(name):
    """The name under which both sides can be added up.

    __cudaLaunchKernel, which <<<>>> calls from CUDA 13 on, jumps to cudaLaunchKernel inside the runtime, and CUPTI
    reports that one. What CUDA 12 calls X_v2 is X with a newer signature and CUPTI reports X with the version's number.
    """
    name = name.removeprefix("__") if name.startswith("__cudaLaunchKernel") else name
    return re.sub(r"_v[23](?=$|_ptsz$|_ptds$)", "", name)


def add_up(counts):
    """{name: calls} with the names made common."""
    total = collections.Counter()
    for name, number in counts.items():
        total[common_name(name)] += number
    return total


def slipstream_counts(summary, pid=None):
    """{name: calls} of one process of a summary, or of all."""
    counts = collections.Counter()
    for process in summary["processes"]:
        if pid is None or process["pid"] == pid:
            for function in process["functions"]:
                counts[function["name"]] += function["calls"]
    return counts


class CuptiCounts:
    """What libcupti_count.so wrote."""

    def __init__(self, record):
        if record.get("schema") != "cupti-count-1":
            raise Failed("not a file of libcupti_count.so")
        if record["error"]:
            raise Failed(f"CUPTI: {record['error']}")
        self.pid = record["pid"]
        self.attribution = record["attribution"]
        # Rows of calls of the driver's functions; None: they were not counted.
        self.driver = record.get("driver")
        self.shared, self.shared_at_mark = collections.Counter(), collections.Counter()
        self.static = collections.defaultdict(collections.Counter)  # by library
        # Through the shared runtime, by the caller that is no hook.
        self.past_the_hook = collections.defaultdict(collections.Counter)
        for module in record["modules"]:
            for full_name, calls in module["functions"].items():
                name = strip_version(full_name)
                if module["shared_runtime"]:
                    self.shared[name] += calls["at_exit"]
                    self.shared_at_mark[name] += calls["at_exit"] if calls["at_mark"] is None else calls["at_mark"]
                else:
                    self.static[module["path"].rsplit("/", 1)[-1]][name] += calls["at_exit"]
            if module["shared_runtime"]:
                for caller, functions in module.get("callers", {}).items():
                    if not caller.startswith("libslipstream"):
                        for full_name, calls in functions.items():
                            self.past_the_hook[caller][strip_version(full_name)] += calls

    def unplaced(self):
        return self.attribution["neither"] + self.attribution["disagree"] + self.attribution["beyond_table"]


def compare_process(ours, cupti, hooked):
    """Every hooked function: our calls == CUPTI's through the shared runtime.

    Returns (rows, problems, notes): rows {name: {...}} for what was called at all. Calls between the program's end and
    the exit are made by destructors; whether one comes before or after slipstream closed its books depends on the order
    of destructors, so there our number may be anything from CUPTI's at the program's end to CUPTI's at exit. Such
    functions are named in the notes; with no such calls the comparison is exact.
    """
    ours = add_up(ours)
    at_exit, at_mark = add_up(cupti.shared), add_up(cupti.shared_at_mark)
    hooked = {common_name(name) for name in hooked}
    # CUPTI has no callback for it; nothing to compare.
    hooked.discard("__cudaRegisterFatBinary")
    rows, problems, notes = {}, [], []
    for name in sorted(hooked):
        if not (ours[name] or at_exit[name]):
            continue
        rows[name] = {"slipstream": ours[name], "cupti": at_exit[name]}
        if at_mark[name] != at_exit[name]:
            rows[name]["cupti_at_program_end"] = at_mark[name]
            notes.append(f"{name} {at_exit[name] - at_mark[name]} at exit")
        if not at_mark[name] <= ours[name] <= at_exit[name]:
            problems.append(f"{name}: slipstream {ours[name]}, CUPTI {at_exit[name]}")
    for name in sorted(set(ours) - hooked - {"__cudaRegisterFatBinary"}):
        problems.append(f"{name}: counted by slipstream but not in the hook table")
    for what, pattern in MUST_OCCUR.items():
        if not any(pattern.match(name) and row["cupti"] for name, row in rows.items()):
            problems.append(f"CUPTI saw no {what}: the comparison shows nothing")
        for name, row in rows.items():
            if pattern.match(name) and row["slipstream"] != row["cupti"] and "cupti_at_program_end" in row:
                problems.append(f"{name}: slipstream {row['slipstream']}, CUPTI {row['cupti']}, and it must be exact")
    return rows, problems, notes


def unseen(cupti, hooked):
    """What no hook saw: calls through static runtimes by library, and functions that are not in the table."""
    hooked = {common_name(name) for name in hooked}
    return {
        "static_runtime": {library: dict(sorted(calls.items())) for library, calls in sorted(cupti.static.items())},
        # Of hooked functions, calls whose stack shows no hook between caller and runtime: what a difference comes from.
        "past_the_hook": {
            caller: found
            for caller, calls in sorted(cupti.past_the_hook.items())
            if (found := {name: number for name, number in sorted(add_up(calls).items()) if name in hooked})
        },
        "not_hooked": {name: calls for name, calls in sorted(add_up(cupti.shared).items()) if name not in hooked},
    }


def compare_difference(few_ours, many_ours, few, many, hooked):
    """Between the runs of few and many steps start-up and exit cancel: what remains are the steps."""
    hooked = {common_name(name) for name in hooked}
    ours = add_up(many_ours)
    ours.subtract(add_up(few_ours))
    theirs = add_up(many.shared)
    theirs.subtract(add_up(few.shared))
    rows, problems = {}, []
    for name in sorted(hooked & (set(ours) | set(theirs))):
        if ours[name] or theirs[name]:
            rows[name] = {"slipstream": ours[name], "cupti": theirs[name]}
        # The two runs' own differences (event queries, say) are on both sides alike.
        if ours[name] != theirs[name]:
            problems.append(f"{name}: slipstream {ours[name]:+d}, CUPTI {theirs[name]:+d}")
    if not any(MUST_OCCUR["launches"].match(name) and row["cupti"] > 0 for name, row in rows.items()):
        problems.append("more steps made no more launches: the comparison shows nothing")
    return rows, problems


def profiler_steps(record, category="cuda_runtime"):
    """{name: calls} of the steps by which the last window is longer than the one before."""
    first, second = record["windows"][-2:]
    counts = collections.Counter(second["counts"].get(category, {}))
    counts.subtract(first["counts"].get(category, {}))
    return {strip_version(name): number for name, number in counts.items()}


def compare_profiler(profiled, few_ours, many_ours, few, many, hooked):
    """The profiler sees every runtime in the process; slipstream the shared one. So: profiler - static == slipstream.

    The static share of the same steps is CUPTI's, the rest is two independent counts of the same steps in two
    processes.
    """
    hooked = {common_name(name) for name in hooked}
    ours = add_up(many_ours)
    ours.subtract(add_up(few_ours))
    profiled = add_up(profiled)
    static = collections.Counter()
    for sign, counts in ((1, many), (-1, few)):
        for calls in counts.static.values():
            for name, number in add_up(calls).items():
                static[name] += sign * number
    rows, problems = {}, []
    for name in sorted(name for name in hooked & (set(ours) | set(profiled)) if PER_STEP.match(name)):
        if not (ours[name] or profiled[name]):
            continue
        rows[name] = {"slipstream": ours[name], "profiler": profiled[name], "static_runtime": static[name]}
        if ours[name] != profiled[name] - static[name]:
            problems.append(
                f"{name}: slipstream {ours[name]}, torch.profiler {profiled[name]}, "
                f"of which {static[name]} in static runtimes"
            )
    if not any(MUST_OCCUR["launches"].match(name) and row["profiler"] > 0 for name, row in rows.items()):
        problems.append("the profiler saw no launches: the comparison shows nothing")
    return rows, problems


def programs():
    return {
        "resnet18": (GPU_TESTS / "train_resnet.py", ["--workers", "2"]),
        "lm": (GPU_TESTS / "train_lm.py", ["--autocast"]),
    }


def find_counter(suite):
    for path in (suite.build / "tests" / "gpu" / "libcupti_count.so", suite.build / "libcupti_count.so"):
        if path.exists():
            return path
    raise Skipped("libcupti_count.so is not in the build folder")


def counting_policy(suite):
    return suite.policy("counting", harness.COUNTING_POLICY)


def counted_run(suite, name, program, arguments, steps, libcupti, where=None, changes=None):
    """One run under slipstream and CUPTI at once; returns (our counts of the training process, CUPTI's).

    where: the folder below the suite's and, with dots, the log; changes: further variables.
    """
    where = where or f"counts/{name}"
    directory = suite.scratch(f"{where}/{steps}")
    cupti_directory = directory / "cupti"
    cupti_directory.mkdir(exist_ok=True)
    env = {
        "CUDA_INJECTION64_PATH": find_counter(suite),
        "CUPTI_COUNT_DIRECTORY": cupti_directory,
        "CUPTI_COUNT_LIBCUPTI": libcupti,
    } | (changes or {})
    summary = directory / "summary.json"
    argv = [
        *suite.run_prefix("--quiet", "--policy", counting_policy(suite), "--summary", summary),
        suite.python,
        GPU_TESTS / "cuda_first.py",
        program,
        *arguments,
        "--steps",
        steps,
    ]
    suite.command(where.replace("/", "."), argv, env=env, timeout=180).expect_success(f"{steps} steps")
    records = [harness.read_json(path, "CUPTI's counts") for path in sorted(cupti_directory.glob("*.json"))]
    # A process that initialized CUDA and called nothing (slipstream's own, say) is not the one.
    records = [record for record in records if record.get("modules") or record.get("error")]
    if len(records) != 1:
        raise Failed(f"{len(records)} processes counted by libcupti_count.so, expected one: was it loaded?")
    cupti = CuptiCounts(records[0])
    ours = slipstream_counts(harness.read_json(summary, "summary"), cupti.pid)
    if not ours:
        raise Failed(f"the summary has no process {cupti.pid} with counts")
    return ours, cupti


def profile(suite, name, program, arguments, prefix=(), log="profiler"):
    directory = suite.scratch(f"profiler/{name}")
    out = directory / f"{'slipstream' if prefix else 'bare'}.{log}.json"
    argv = [
        *prefix,
        suite.python,
        GPU_TESTS / "profile_windows.py",
        program,
        out,
        ",".join(map(str, WINDOWS)),
        *arguments,
    ]
    suite.command(f"{log}.{name}", argv, timeout=180).expect_success("the profiled run")
    return harness.read_json(out, "profile")


def fail_on(problems):
    if problems:
        raise Failed(f"{len(problems)} differences: " + "; ".join(problems[:8]))


def checks(suite):
    if suite.rehearsal:
        return [("counts", lambda data: skip("counts need a GPU"))]
    libcupti = suite.results.get("libcupti")
    result = []
    for name, (program, arguments) in programs().items():
        result += program_checks(suite, name, program, arguments, libcupti)
    return result


def skip(reason):
    raise Skipped(reason)


def program_checks(suite, name, program, arguments, libcupti):
    """The checks of one program share its runs; whichever needs one first starts it."""
    pool = concurrent.futures.ThreadPoolExecutor()
    hooked = hook_table()
    started = {}
    starting = threading.Lock()

    def runs():
        # Both at once, and no earlier than a check wants them.
        with starting:
            for steps in (FEW_STEPS, MANY_STEPS):
                if steps not in started:
                    started[steps] = pool.submit(counted_run, suite, name, program, arguments, steps, libcupti)
        return started[FEW_STEPS].result(), started[MANY_STEPS].result()

    def whole(data):
        _, (ours, cupti) = runs()
        rows, problems, notes = compare_process(ours, cupti, hooked)
        missed = unseen(cupti, hooked)
        data.update(functions=rows, unseen=missed, attribution=cupti.attribution)
        if problems and missed["past_the_hook"]:
            problems.append(f"past the hooks: {missed['past_the_hook']}")
        fail_on(problems)
        if cupti.unplaced():
            raise Failed(f"calls without a certain module: {cupti.attribution}")
        static = sum(sum(calls.values()) for calls in cupti.static.values())
        return (
            f"{len(rows)} functions, {sum(row['slipstream'] for row in rows.values())} calls, no difference"
            + (f" ({', '.join(notes)})" if notes else "")
            + f"; {static} calls through static runtimes in "
            + (", ".join(sorted(cupti.static)) or "no library")
        )

    def difference(data):
        (few_ours, few), (many_ours, many) = runs()
        rows, problems = compare_difference(few_ours, many_ours, few, many, hooked)
        data["functions"] = rows
        fail_on(problems)
        return f"{MANY_STEPS - FEW_STEPS} steps: {len(rows)} functions, no difference"

    def profiler(data):
        profiled = pool.submit(profile, suite, name, program, arguments, log="counts_profiler")
        (few_ours, few), (many_ours, many) = runs()
        steps = profiler_steps(profiled.result())
        rows, problems = compare_profiler(steps, few_ours, many_ours, few, many, hooked)
        data["functions"] = rows
        fail_on(problems)
        return f"{MANY_STEPS - FEW_STEPS} steps: {len(rows)} functions, no difference"

    def unchanged(data):
        """What a user's profiler shows is the same under slipstream."""
        bare = pool.submit(profile, suite, name, program, arguments)
        prefix = suite.run_prefix("--quiet", "--policy", counting_policy(suite))
        under = profile(suite, name, program, arguments, prefix)
        rows = {}
        for category in ("cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset", "cpu_op"):
            a, b = profiler_steps(bare.result(), category), profiler_steps(under, category)
            if category == "cuda_runtime":
                a, b = ({n: c for n, c in counts.items() if PER_STEP.match(n)} for counts in (a, b))
            rows[category] = {"bare": sum(a.values()), "slipstream": sum(b.values())}
            if a != b:
                raise Failed(f"{category}: bare {a}, under slipstream {b}")
        data["events"] = rows
        if not rows["kernel"]["bare"]:
            raise Failed("the bare profile shows no kernel: the comparison shows nothing")
        return ", ".join(f"{row['bare']} {category}" for category, row in rows.items()) + " events in both"

    return [
        (f"counts.{name}.process", whole),
        (f"counts.{name}.steps", difference),
        (f"counts.{name}.profiler", profiler),
        (f"profiler.{name}", unchanged),
    ]
