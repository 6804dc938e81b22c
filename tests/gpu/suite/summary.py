"""Reads the JSON that `slipstream run --summary` writes."""

from .harness import Failed

LAUNCHES = ("__cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernelExC")
# Of the allocator's decisions, besides those that a check is about.
SHOWN = ("parked", "reused", "grown", "freed.host_effect", "freed.cap")
PROMOTED, SKIPPED = "transfer.h2d.promoted", "transfer.sync.skipped"
UNMAPPED = "transfer.unmapped.background"


def calls(summary, names):
    """How often the functions were called, over all processes of a summary."""
    return sum(f["calls"] for f in summary["totals"]["functions"] if f["name"] in names)


def decided(summary, name):
    """How often the engine decided so, over all processes; of a name with parts below it, all of them."""
    decisions = summary["totals"].get("decisions", {})
    return sum(d["count"] for key, d in decisions.items() if key == name or key.startswith(name + "."))


def expect_acted(summary, skips=True, shared_batches=0):
    """What the transfer engine did, in words; Failed when it did nothing, so that the run showed nothing about it.

    shared_batches: so many pieces of shared memory, at least, must have been given back in the background.
    """
    promoted, skipped = decided(summary, PROMOTED), decided(summary, SKIPPED)
    if not promoted:
        raise Failed("the summary shows no promoted copy: the transfer engine did not act")
    if skips and not skipped:
        raise Failed(f"{promoted} copies promoted, but no synchronization was skipped")
    unmapped = decided(summary, UNMAPPED)
    if unmapped < shared_batches:
        raise Failed(f"{unmapped} batches in shared memory given back in the background, not {shared_batches}")
    given_back = f", {unmapped} batches given back in the background" if unmapped else ""
    return f"{promoted} copies promoted, {skipped} synchronizations skipped{given_back}"


def expect_pooled(summary, *needed):
    """What the allocator's pool did, in words; Failed when it did not do all that is needed to show something."""
    needed = needed or ("parked", "reused")
    found = {name: decided(summary, f"allocator.{name}") for name in SHOWN + needed}
    missing = [name for name in needed if not found[name]]
    if missing:
        raise Failed(f"the summary shows no allocator.{' and no allocator.'.join(missing)}: the pool did not act so")
    return ", ".join(f"{count} {name}" for name, count in found.items() if count)
