"""Tables of single copies: how long the host waits, and when the bytes are there."""

from .markdown import of_variant, short, titled


def median_and_p90(figures):
    return f"{short(figures['median'])} ({short(figures['p90'])})"


def blocking_copies(results):
    rows = [
        (
            benchmark["name"].split()[-1],
            *(median_and_p90(benchmark["summary"][name]) for name in ("bare", "slipstream", "pinned")),
            short(benchmark["target"]),
        )
        for benchmark in of_variant(results, "copy.blocking")
    ]
    return titled(
        "Host time of a blocking `.cuda()` from pageable memory behind 64 ms of queued kernels, median (90th percentile)",
        ("size", "bare", "slipstream", "bare, pinned and not blocking", "target"),
        rows,
    )


def blocking_calls(results):
    measured = of_variant(results, "copy.calls")
    # Results of before they were measured have no such column.
    columns = {
        "bare": "bare",
        "slipstream": "slipstream",
        "pinned": "bare, pinned and not waiting",
        "unwaited": "bare, not waiting",
    }
    columns = {name: title for name, title in columns.items() if all(name in b["summary"] for b in measured)}
    rows = [
        (
            benchmark["name"].split()[-1],
            *(median_and_p90(benchmark["summary"][name]) for name in columns),
            short(benchmark["target"]),
        )
        for benchmark in measured
    ]
    return titled(
        "The same without PyTorch around it (`cudaMemcpyAsync` and `cudaStreamSynchronize`, "
        "`tools/dev/bench/blocking_copies.cpp`)",
        ("size", *columns.values(), "target"),
        rows,
    )


def parts(results):
    found = next((check["data"]["parts"] for check in results["checks"] if "parts" in check.get("data", {})), {})
    again = " again"
    return titled(
        "The driver calls around a copy of 4 B in that state, each by itself (`blocking_copies --parts`): a first time, in the order of a "
        "copy, and once more at once",
        ("driver call", "first", "again"),
        [(name, short(seconds), short(found[name + again])) for name, seconds in found.items() if not name.endswith(again)],
    )


def rates(results, variant, of_what):
    """Rows of GB/s; of_what: slipstream's rate is also shown as a multiple of this one."""
    rows = []
    for benchmark in of_variant(results, variant):
        rate = {name: benchmark["bytes"] / found["median"] / 1e9 for name, found in benchmark["summary"].items()}
        digits = 2 if of_what == "pinned" else 1
        rows.append(
            (
                benchmark["name"].split()[-1],
                *(f"{rate[name]:.1f}" for name in ("bare", "slipstream", "pinned")),
                f"{rate['slipstream'] / rate[of_what]:.{digits}f}",
                f"{rate['host']:.1f}" if "host" in rate else "-",
            )
        )
    return rows


def complete_copies(results):
    return titled(
        "Copies from pageable memory until they are on the device, GB/s (host alone: slipstream's threads copy as much "
        "into staging memory, and no device is there)",
        ("size", "bare", "slipstream", "bare, pinned", "slipstream / pinned", "host alone"),
        rates(results, "copy.complete", "pinned"),
    )


def fetched_copies(results):
    return titled(
        "`.cpu()` into memory that was never touched, GB/s (host alone: the same threads fill such memory, and no device "
        "is there)",
        ("size", "bare", "slipstream", "bare, into pinned memory", "slipstream / bare", "host alone"),
        rates(results, "copy.fetch", "bare"),
    )


TABLES = (
    (blocking_copies, ("copy.blocking",)),
    (blocking_calls, ("copy.calls",)),
    (parts, ()),
    (complete_copies, ("copy.complete",)),
    (fetched_copies, ("copy.fetch",)),
)
