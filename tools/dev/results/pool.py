"""Tables of the device-memory pool: pairs of cudaMalloc and cudaFree, programs, and the driver calls that it decides by."""

from .markdown import RATIO_COLUMNS, Unusable, nanoseconds, of_variant, ratio_cells, titled

SIZES = ("2MiB", "20MiB", "256MiB", "1GiB")
STATES = {"idle": "nothing", "behind": "a copy of 2 GiB"}
PAIR_COLUMNS = {
    "bare": "bare",
    "off": "slipstream, pool off",
    "pooled": "pool",
    "pooled_uncounted": "pool, nothing counted",
    "async": "`cudaMallocAsync` and `cudaFreeAsync`",
}
PROGRAMS = {
    "step.pooled_every_to_never": "`empty_cache()` at every step of ResNet-50 / never, with the pool",
    "step.bare_every_to_never": "the same bare",
    "step.pooled_to_bare_never": "ResNet-50 without `empty_cache()`, slipstream with all engines / bare",
    "step.pooled": "sentences of random lengths near the memory limit, pool / bare",
    "once.seconds": "building a model of 24 GiB on the device, pool / bare",
    "once.first": "the first batches of a loader, pool of pinned host memory (removed since) / bare",
}
DRIVER_CALLS = {
    "record": "an event of all work of a context",
    "record/pending": "the same behind work that has not run",
    "record/new": "the same each time behind new work",
    "ask/fresh": "asking an event that has passed, where there was no work",
    "ask/passed": "the same behind work that has run",
    "ask/pending": "asking an event that has not",
    "record_ask/threads:1": "an event and the question, by one thread",
    **{
        f"record_ask/threads:{count}": f"an event and the question, by {count} threads at once, each"
        for count in (2, 4, 8, 16)
    },
    "wait": "a context's wait for an event",
    "buffer_id": "whether memory is what it was",
    "memory_info": "how much memory is left",
    **{f"{call}/{size}": f"{call} {size}" for size in SIZES for call in ("allocate", "free")},
}


def pairs_of(results):
    """{(variant, state, size, threads): its figures}"""
    found = {}
    for benchmark in results["benchmarks"]:
        if benchmark["variant"].startswith("pair."):
            _, state, size, threads = benchmark["name"].split("/")
            found[benchmark["variant"].removeprefix("pair."), state, size, int(threads)] = benchmark
    return found


def pair_cells(found, variants, state, size, threads):
    figures = (found[variant, state, size, threads]["summary"] for variant in variants)
    return (f"{nanoseconds(figure['p50'])} ({nanoseconds(figure['p99'])})" for figure in figures)


def pool_pairs(results):
    found = pairs_of(results)
    if not found:
        return None
    variants = [variant for variant in PAIR_COLUMNS if any(key[0] == variant for key in found)]
    rows = [
        (text, size, threads, *pair_cells(found, variants, state, size, threads))
        for state, text in STATES.items()
        for size in SIZES
        for threads in sorted(key[3] for key in found if key[:3] == ("bare", state, size))
    ]
    header = ("pending on the device", "size", "threads", *(PAIR_COLUMNS[variant] for variant in variants))
    return titled(
        "`cudaMalloc` and `cudaFree` one after the other from C++, median of a pair (99th percentile), by one thread or by several "
        "at once (`tools/dev/bench/pool_calls.cpp`)",
        header,
        rows,
    )


def pool_programs(results):
    rows = [
        (PROGRAMS[benchmark["variant"]], *ratio_cells(benchmark["summary"]))
        for benchmark in results["benchmarks"]
        if benchmark["variant"] in PROGRAMS
    ]
    title = "Programs, with the time of what stands behind the stroke, of a step or of the whole"
    return titled(title, ("what", "ms", *RATIO_COLUMNS), rows)


def driver_calls(results):
    found = {benchmark["name"]: benchmark["ns"] for benchmark in of_variant(results, "driver")}
    unknown = found.keys() - DRIVER_CALLS.keys()
    if unknown:
        raise Unusable(f"tools/dev/results/pool.py has no text for the driver call {min(unknown)}")
    rows = [(text, nanoseconds(found[name])) for name, text in DRIVER_CALLS.items() if name in found]
    title = "The driver calls that the pool decides by, mean of many (`tools/dev/bench/driver_calls.cpp`)"
    return titled(title, ("call", "time"), rows)


TABLES = (
    (pool_pairs, tuple(f"pair.{variant}" for variant in PAIR_COLUMNS)),
    (pool_programs, tuple(PROGRAMS)),
    (driver_calls, ("driver",)),
)
