"""Memory: PyTorch's own figures, too large allocations and life behind them. The last one is nobody's to catch."""

import sys

import torch

from checks import expect, expect_same, finish, section, values

MIB = 1 << 20


def say(what):
    """A line of PyTorch's own figures."""
    print(what, "allocated", torch.cuda.memory_allocated(), "at most", torch.cuda.max_memory_allocated(),
          "reserved", torch.cuda.memory_reserved(), "reserved-at-most", torch.cuda.max_memory_reserved(),
          "free", torch.cuda.mem_get_info()[0], flush=True)


def c19_blocks():
    say("at the beginning")
    kept = [torch.empty(mib * MIB, dtype=torch.uint8, device="cuda") for mib in (1, 5, 20, 40)]
    say("four blocks")
    del kept[2]
    if is_native():  # elsewhere what is freed may count until its work has run
        say("one freed")
    torch.cuda.empty_cache()
    say("cache emptied")
    torch.cuda.synchronize()
    again = torch.empty(20 * MIB, dtype=torch.uint8, device="cuda")
    say("again")
    again.record_stream(torch.cuda.Stream())
    del kept, again
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    say("nothing")
    torch.cuda.reset_peak_memory_stats()
    say("reset")
    stats = torch.cuda.memory_stats()
    for key in ("num_alloc_retries", "num_ooms", "allocation.all.allocated", "segment.all.allocated"):
        print(key, stats.get(key))
    return 1


def c19_too_large():
    """More than there is, at once; the same with a device that is nearly full; and a retry that frees."""
    x = values(500_000)
    for gib in (3, 1000):
        try:
            torch.empty(gib << 30, dtype=torch.uint8, device="cuda")
            expect("no error", False)
        except torch.cuda.OutOfMemoryError as error:
            print(str(error).split(" Of the allocated")[0])
        expect_same("afterwards", x.cuda().cpu(), x)
    torch.cuda.synchronize()  # what is freed in stream order is in use until then
    held = []
    try:
        while True:
            held.append(torch.empty(24 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        print("blocks until full:", len(held))
    say("full")
    little = values(100_000)
    expect_same("in a full device", little.cuda().cpu(), little)
    del held[::2]
    # The freed blocks are in PyTorch's cache; none is large enough, so it gives them back and asks again.
    large = torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
    say("after a retry")
    print("retries", torch.cuda.memory_stats()["num_alloc_retries"], "ooms", torch.cuda.memory_stats()["num_ooms"])
    del held, large
    torch.cuda.empty_cache()
    say("empty")
    return 5


def is_native():
    return torch.cuda.get_allocator_backend() == "native"


def c19_statistics():
    """Every figure that PyTorch has; another backend's depend on when what was freed is free."""
    kept = [torch.empty(mib * MIB, dtype=torch.uint8, device="cuda") for mib in (1, 2, 30)]
    del kept[1]
    stats = torch.cuda.memory_stats()
    expect("figures", len(stats) > 50)
    if is_native():
        for key, value in stats.items():
            print(key, value)
        print(torch.cuda.memory_summary())
    else:
        print(sorted(stats))
    return 1


def refused(ask):
    """Which backends keep no list of blocks is for PyTorch to say, and it says the same bare."""
    try:
        ask()
    except RuntimeError as error:
        print("refused:", str(error).splitlines()[0])
        return True
    return False


def c19_snapshot():
    """The caching allocator's blocks, where they are and what is free."""
    kept = [torch.empty(mib * MIB, dtype=torch.uint8, device="cuda") for mib in (3, 30)]
    is_refused = refused(torch.cuda.memory_snapshot)
    expect("refused by the native allocator", is_native() != is_refused)
    if is_refused:
        return 1
    segments = torch.cuda.memory_snapshot()
    states = {block["address"]: block["state"] for segment in segments for block in segment["blocks"]}
    for tensor in kept:
        expect(f"of {tensor.nbytes} bytes", states.get(tensor.data_ptr()) == "active_allocated")
    expect("reserved", sum(segment["total_size"] for segment in segments) == torch.cuda.memory_reserved())
    for line in sorted(f"segment of {segment['total_size']}, {segment['allocated_size']} allocated: "
                       f"{[(block['size'], block['state']) for block in segment['blocks']]}" for segment in segments):
        print(line)
    return 4


def c19_history():
    """What the allocator did, as people record it for PyTorch's own viewer of memory."""
    if refused(lambda: torch.cuda.memory._record_memory_history(context=None)):
        return 1
    torch.cuda.empty_cache()
    kept = [torch.empty(mib * MIB, dtype=torch.uint8, device="cuda") for mib in (21, 22)]
    del kept
    torch.cuda.empty_cache()
    is_refused = refused(torch.cuda.memory._snapshot)
    if not is_refused:
        for entry in torch.cuda.memory._snapshot()["device_traces"][0]:
            print(entry["action"], entry["size"])
    torch.cuda.memory._record_memory_history(enabled=None)
    expect("refused by the native allocator", is_native() != is_refused)
    return 1


def short_of_memory():
    """What was given back is there for one large piece, at once."""
    held = [torch.empty(24 * MIB, dtype=torch.uint8, device="cuda") for _ in range(10)]
    del held
    torch.cuda.empty_cache()
    large = torch.empty(990 * MIB, dtype=torch.uint8, device="cuda")
    say("one large piece")
    del large
    torch.cuda.empty_cache()
    return 1


def still_in_use():
    """Memory that is given back while copies from it are pending: cudaFree waits for them, and nobody overtakes them."""
    counted = 0
    for seed in range(4):
        old, new = values(6_000_000, seed=seed), values(6_000_000, seed=seed + 10).pin_memory()
        seen_by_host = seed % 2 == 0
        out = torch.zeros(6_000_000).pin_memory() if seen_by_host else torch.empty(6_000_000, device="cuda")
        source = old.cuda()
        torch.cuda.synchronize()
        out.copy_(source, non_blocking=True)
        del source
        torch.cuda.empty_cache()
        if seen_by_host:
            expect_same(f"{seed} given back", out, old)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            other = new.to("cuda", non_blocking=True)
            side.synchronize()
        torch.cuda.synchronize()
        expect_same(f"{seed}", out.cpu(), old)
        expect_same(f"{seed} the next one's", other.cpu(), new)
        counted += 2
    return counted


def fraction():
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
        expect("no error", False)
    except torch.cuda.OutOfMemoryError:
        pass
    torch.cuda.set_per_process_memory_fraction(1.0)
    return 1


def turned_over():
    """Sizes that change at every step, near the limit, with copies in between."""
    for i in range(30):
        size = (5 + 7 * i % 23) * 100_003
        x = values(size, seed=i)
        y = x.cuda()
        spare = torch.empty((30 + 11 * i % 90) * MIB, dtype=torch.uint8, device="cuda")
        expect_same(f"{i}", y.cpu(), x)
        del spare
        if i % 3 == 2:
            torch.cuda.empty_cache()
    return 30


def main():
    section(c19_blocks)
    section(c19_too_large)
    section(c19_statistics)
    section(c19_snapshot)
    section(c19_history)
    section(short_of_memory)
    section(still_in_use)
    section(fraction)
    section(turned_over)
    if "--to-the-end" in sys.argv:
        torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
    finish(5)


if __name__ == "__main__":
    main()
