"""What `slipstream export --check --json` must say of a made-up run, from what was put into its files."""

import collections

from spools import ALLOCATED, CALL, COPY, DECISION, DRIVER_CALL, FREED, KERNEL, MARK, MEMORY, SET


def hold_against(judge, run, status, checked):
    judge.expect("schema of the check", checked["schema"], "slipstream-check-1")
    judge.expect("files that are checked", sorted(each["spool"] for each in checked["processes"]), sorted(p.file for p in run.processes))
    whole = True
    for process in run.processes:
        for each in checked["processes"]:
            if each["spool"] == process.file:
                whole = of_process(judge, process, each) and whole
    judge.expect("the run is whole", checked["whole"], whole)
    judge.expect("exit status of the check", status, 0 if whole else 1)


def of_process(judge, process, checked):
    what = f"{process.file}: check"
    count = lambda *kinds: sum(1 for _ in process.rows(*kinds))
    judge.tree(
        what,
        checked["has"],
        {
            "calls": count(CALL),
            "driver_calls": count(DRIVER_CALL),
            "decisions": count(DECISION),
            "kernels": count(KERNEL),
            "device_copies": count(COPY),
            "device_sets": count(SET),
            "blocks": count(ALLOCATED, FREED),
            "memory": count(MEMORY),
            "steps": len(process.steps),
            "marks": count(MARK),
            "threads": 2,
            "clock_readings": len(process.clocks),
            "device_clock_readings": len(process.device or []),
        },
    )
    lacks, contradicts = dict(process.refused), collections.Counter()
    ends = process.ending in ("finished", "limit")
    dropped = sum(process.dropped[thread] + process.unsaid(thread) for thread in (1, 2)) if ends else process.told_dropped()
    dropped += process.dropped_without_ring
    if dropped:
        lacks["dropped"] = dropped
    if process.damage is not None:
        lacks.update(damaged=1, missing_records=process.damage[2])
    if process.ending in ("killed", "limit"):
        lacks[process.ending] = 1
    if process.ending == "cut":
        lacks["left"] = None
    calls = {call["correlation"] for _, call in process.rows(CALL, DRIVER_CALL) if call.get("correlation")}
    stray = sum(work["correlation"] not in calls for _, work in process.rows(KERNEL, COPY, SET))
    if stray:
        lacks["work_without_call"] = stray
    overlaps = sum(overlaps_of(process, thread) for thread in (1, 2))
    if overlaps:
        contradicts["calls_overlap"] = overlaps
    for key, twice in memory_of(process).items():
        if twice:
            (lacks if lacks else contradicts)[key] = twice
    judge.expect(f"{what}: what it lacks", summed(checked["lacks"], lacks), lacks)
    judge.expect(f"{what}: what contradicts", summed(checked["contradicts"], {}), dict(contradicts))
    counted = sum(figures[0] for figures in process.counted(CALL, "hook").values()) if process.ending == "finished" else None
    judge.expect(f"{what}: counted", checked["counted_calls"], counted)
    return not lacks and not contradicts


def summed(findings, expected):
    """By what they are about; None where any number is as good."""
    sums = collections.Counter()
    for finding in findings:
        sums[finding["about"]] += finding["count"]
    return {key: None if key in expected and expected[key] is None else count for key, count in sums.items()}


def overlaps_of(process, thread):
    until, overlaps = 0, 0
    for start, end in sorted((call["start"], call["end"]) for of, call in process.rows(CALL) if of == thread):
        overlaps += start < until
        until = max(until, end)
    return overlaps


def memory_of(process):
    there, twice = {}, {"freed_twice": 0, "given_twice": 0}
    events = []
    for _, block in process.rows(ALLOCATED, FREED):
        event = block["status"] >> 8
        events.append((block["end"] if event == 1 else block["start"], -event, block["status"] & 0xFF, block["number"]))
    for _, event, kind, address in sorted(events):
        if event == -3:
            there.clear()
            continue
        allocated = event == -1
        if there.get((kind, address)) is allocated:
            twice["given_twice" if allocated else "freed_twice"] += 1
        there[kind, address] = allocated
    return twice
