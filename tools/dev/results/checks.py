"""What the checks of a results file came to: calls counted, outcomes by group, and a line for each that did not pass."""

from collections import Counter

from .markdown import Unusable, table

GROUPS = {
    "inert": "a process without CUDA does not notice the preload",
    "identity": "losses, weights and optimizer state, bit for bit",
    "counts": "calls counted, against CUPTI and torch.profiler",
    "profiler": "torch.profiler's output is the same under slipstream",
    "children": "which programs of a run have the library",
    "outcomes": "output, exit status, signals, children, ranks as without slipstream",
    "sanitizer": "a CUDA program under compute-sanitizer",
    "trace": "recorded training: every call in the trace, with its line; same losses",
    "speed": "programs that nobody tuned: throughput gained, nothing slower",
    "transfer": "single copies: how long the host waits, when the bytes are there",
    "ratio": "step time within its limits",
    "allocator": "the device-memory pool: same results, what it costs and gains",
    "conformance": "device allocators, each over the driver, the library and its pool",
    "profilers": "what recording costs a step, beside torch.profiler",
    "devices": "recorded kernels and copies, beside torch.profiler and nsys",
    "fragmentation": "peaks of memory and step time by allocator",
    "replay": "recorded allocations through several allocators",
    "advice": "trainings with one thing wrong: slipstream advise names it",
    "gains": "what the report says was gained, beside steps that were timed",
    "ladder": "the steps of the tuning guides, bare and under slipstream",
    "nsight": "Nsight Compute and Nsight Systems find the NVTX ranges",
    "samples": "NVIDIA's CUDA samples: output and exit status as without slipstream",
    "peers": "CuPy, JAX, Triton, NCCL, IPC at each level of interception",
    "soak": "minutes of training in one process: same results, nothing grows",
    "steady": "programs with little to gain, by several processes each: none slower",
    "older": "an earlier version beside this one: nothing slower",
    "workloads": "plain scripts against bare and tuned by hand: same results, throughput",
    "bench": "C++ benchmarks ran",
}
OUTCOMES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
BEST_KNOWN = ("cudaMalloc", "cudaFree", "cudaMemcpy", "cudaMemset", "cudaLaunch", "cudaHostAlloc")


def group_of(check):
    return check["name"].split(".")[0]


def counts(results):
    blocks = []
    for check in results["checks"]:
        parts = check["name"].split(".")
        functions = check.get("data", {}).get("functions")
        if parts[0] != "counts" or parts[-1] != "process" or not functions:
            continue
        shown = [
            (f"`{name}`", calls["slipstream"], calls["cupti"])
            for name, calls in functions.items()
            if name.startswith(BEST_KNOWN) or name.endswith("Synchronize")
        ]
        equal = sum(calls["slipstream"] == calls["cupti"] for calls in functions.values())
        blocks.append(
            f"Calls in a training run of {parts[1]}, by slipstream and by CUPTI in the same process "
            f"({equal} of {len(functions)} hooked functions equal; the best known ones here):\n\n"
            + table(("function", "slipstream", "CUPTI"), shown)
        )
    return "\n\n".join(blocks) or None


def outcomes(results):
    """[passed, failed, skipped]"""
    found = Counter(check["outcome"] for check in results["checks"])
    if found.keys() - OUTCOMES.keys():
        raise Unusable(f"a check has the outcome {min(found.keys() - OUTCOMES.keys())}")
    return [found[outcome] for outcome in OUTCOMES]


def checks(results):
    unknown = {group_of(check) for check in results["checks"]} - GROUPS.keys()
    if unknown:
        raise Unusable(f"tools/dev/results/checks.py does not say what the group {min(unknown)} shows")
    rows = []
    for group, what in GROUPS.items():
        of_group = {"checks": [check for check in results["checks"] if group_of(check) == group]}
        if of_group["checks"]:
            rows.append((group, what, *outcomes(of_group)))
    notes = [
        f"- {check['outcome']} `{check['name']}`: {check['detail'].splitlines()[0] if check['detail'] else ''}"
        for check in results["checks"]
        if check["outcome"] != "PASS"
    ]
    text = table(("group", "shows", *OUTCOMES.values()), rows)
    return text + ("\n\n" + "\n".join(notes) if notes else "")


TABLES = ((counts, ()), (checks, ()))
