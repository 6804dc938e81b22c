"""Ranks of numbers, what is covered by intervals, and sums over calls and kernels."""

import bisect


def rank(values, percent):
    """The value at place ceil(percent * n / 100), from 1, in ascending order."""
    return sorted(values)[max(1, -(-percent * len(values) // 100)) - 1]


def distribution(values):
    if not values:
        return {key: 0 for key in ("total_ns", "mean_ns", "min_ns", "p10_ns", "median_ns", "p90_ns", "max_ns")}
    return {
        "total_ns": sum(values),
        "mean_ns": sum(values) / len(values),
        "min_ns": min(values),
        "p10_ns": rank(values, 10),
        "median_ns": rank(values, 50),
        "p90_ns": rank(values, 90),
        "max_ns": max(values),
    }


def differ(a, b):
    return not b["p10_ns"] <= a["median_ns"] <= b["p90_ns"] and not a["p10_ns"] <= b["median_ns"] <= a["p90_ns"]


def exponent_of(size):
    return -1 if size <= 0 else size.bit_length() - 1


# ---- intervals


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


class Cover:
    """Whether a moment is in any of some intervals."""

    def __init__(self, intervals):
        self.merged = union(intervals)
        self.starts = [start for start, _ in self.merged]

    def has(self, time):
        at = bisect.bisect_right(self.starts, time) - 1
        return at >= 0 and time < self.merged[at][1]

    def within(self, start, end):
        """How much of it is covered."""
        return sum(max(0, min(end, stop) - max(start, begin)) for begin, stop in self.merged)

    def edges(self):
        return [edge for pair in self.merged for edge in pair]


class Lane:
    """What a thread is in at each moment: of calls that overlap, the one that began first, until it ends."""

    def __init__(self, calls):
        self.pieces = []
        until = None
        for call in calls:
            start = call["start"] if until is None else max(until, call["start"])
            if call["end"] > start:
                self.pieces.append((start, call["end"], call))
                until = call["end"]
        self.starts = [start for start, _, _ in self.pieces]

    def at(self, time):
        found = bisect.bisect_right(self.starts, time) - 1
        return self.pieces[found][2] if found >= 0 and time < self.pieces[found][1] else None

    def edges(self):
        return [edge for start, end, _ in self.pieces for edge in (start, end)]


# ---- what is made of calls and kernels


def sizes_tree(pairs):
    found = {}
    for size, time in pairs:
        one = found.setdefault(exponent_of(size), {"calls": 0, "bytes": 0, "time_ns": 0})
        one["calls"] += 1
        one["bytes"] += size
        one["time_ns"] += time
    return [{"from_bytes": 0 if power < 0 else 1 << power, **found[power]} for power in sorted(found)]


def occupancy(kernels, facts):
    """The mean over kernels, by their durations, of how full the multiprocessors were that they ran on."""
    up = lambda value, unit: -(-value // unit) * unit
    weighted = weights = 0.0
    for kernel in kernels:
        threads = kernel["blockX"] * kernel["blockY"] * kernel["blockZ"]
        warp = facts["threadsPerWarp"]
        warps = -(-threads // warp)
        fit = min(facts["maxBlocksPerSm"], facts["maxWarpsPerSm"] // warps)
        fit = min(fit, facts["maxRegistersPerSm"] // 4 // up(kernel["registersPerThread"] * warp, 256) * 4 // warps)
        fit = min(fit, facts["maxShmemPerSm"] // up(kernel["staticSharedMemory"] + kernel["dynamicSharedMemory"] + 1024, 128))
        if threads > facts["maxThreadsPerBlock"] or fit <= 0:
            continue
        time = kernel["end"] - kernel["start"]
        running = min(kernel["blocks"] / facts["smCount"], fit)
        weighted += running * threads / (facts["maxWarpsPerSm"] * warp) * time
        weights += time
    return weighted / weights if weights else None
