"""What files of other formats have, read by parsers of the tests' own, and what they must have by the rows of the database."""

import json
from decimal import Decimal

import expected_report

COPIES = ("Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD")
MEMORY = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown")
WAITS = ("Unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")


class Expected:
    """Rows (what, ..., start, duration) by plain SQL."""

    def __init__(self, connection):
        self.connection = connection
        self.tables = expected_report.Database(connection).tables
        self.pids = {}
        taken = set()
        for number, pid in connection.execute("SELECT processId, pid FROM SLIPSTREAM_PROCESSES ORDER BY rank IS NULL, rank, processId"):
            # The first one keeps a number that two have.
            self.pids[number] = pid if pid not in taken else 10_000_000 + number
            taken.add(pid)

    def rows(self, sql):
        return self.connection.execute(sql).fetchall()

    def calls(self):
        rows = self.rows(
            "SELECT processId, globalTid & 16777215, value, eventClass, r.correlationId, bytes, returnValue, start, end - start FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
            "JOIN SLIPSTREAM_CALLS USING (correlationId) JOIN StringIds ON id = nameId"
        )
        for process, tid, name, event_class, correlation, size, status, start, duration in rows:
            name = name[: name.index("_v")] if name.startswith("cuda") else name
            yield (
                ("cuda_driver" if event_class else "cuda_runtime"),
                self.pids[process],
                tid,
                name,
                correlation,
                size,
                status,
                start,
                duration,
            )

    def work(self, waits="TRUE"):
        if "CUPTI_ACTIVITY_KIND_KERNEL" in self.tables:
            for row in self.rows(
                "SELECT deviceId, streamId, value, correlationId, start, end - start FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName"
            ):
                yield ("kernel", *row[:3], row[3], None, *row[4:])
        if "CUPTI_ACTIVITY_KIND_MEMCPY" in self.tables:
            for device, stream, kind, source, target, *rest in self.rows(
                "SELECT deviceId, streamId, copyKind, srcKind, dstKind, correlationId, bytes, start, end - start FROM CUPTI_ACTIVITY_KIND_MEMCPY"
            ):
                yield ("gpu_memcpy", device, stream, f"Memcpy {COPIES[kind]} ({MEMORY[source]} -> {MEMORY[target]})", *rest)
        if "CUPTI_ACTIVITY_KIND_MEMSET" in self.tables:
            for device, stream, kind, *rest in self.rows(
                "SELECT deviceId, streamId, memKind, correlationId, bytes, start, end - start FROM CUPTI_ACTIVITY_KIND_MEMSET"
            ):
                yield ("gpu_memset", device, stream, f"Memset ({MEMORY[kind]})", *rest)

        if "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" in self.tables:
            for device, stream, kind, *rest in self.rows(
                "SELECT deviceId, streamId, syncType, correlationId, NULL, start, end - start FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION "
                f"WHERE {waits}"
            ):
                yield ("cuda_sync", device or 0, stream if stream != 0xFFFFFFFF else -1, WAITS[kind], *rest)

    def steps(self):
        for process, tid, number, start, duration in self.rows(
            "SELECT processId, globalTid & 16777215, number, start, end - start FROM SLIPSTREAM_STEPS"
        ):
            yield (self.pids[process], tid, f"ProfilerStep#{number}", start, duration)

    def ranges(self):
        if "NVTX_EVENTS" not in self.tables:
            return
        for process, tid, name, start, duration in self.rows(
            "SELECT processId, x.globalTid & 16777215, value, x.start, x.end - x.start FROM NVTX_EVENTS x JOIN StringIds ON id = textId "
            "JOIN SLIPSTREAM_PROCESSES p ON p.globalPid = (x.globalTid & ~16777215) WHERE eventType IN (59, 60)"
        ):
            yield (self.pids[process], tid, name, start, duration)

    def gaps(self):
        for process, thread, start, duration, count in self.rows(
            "SELECT processId, coalesce(globalTid & 16777215, 0), start, end - start, count FROM SLIPSTREAM_DROPS"
        ):
            yield (self.pids[process], thread, count, start, duration)

    def marks(self):
        for process, tid, value, start in self.rows("SELECT processId, globalTid & 16777215, value, start FROM SLIPSTREAM_MARKS"):
            yield (self.pids[process], tid, value, start)

    def readings(self):
        for process, device, start, *values in self.rows(
            "SELECT processId, deviceId, start, liveBytes, idleBytes, parkedBytes, trims, retries FROM SLIPSTREAM_MEMORY"
        ):
            for what, value in zip(("live", "idle", "parked", "trims", "retries"), values):
                yield (self.pids[process], device, what, start, value)


# ---- Chrome


def ns(microseconds):
    exact = Decimal(microseconds) * 1000
    assert exact == int(exact), f"{microseconds} us is no number of ns"
    return int(exact)


def hold_chrome(judge, connection, path):
    expected = Expected(connection)
    with open(path, encoding="utf-8") as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    of = lambda *categories: [event for event in events if event.get("cat") in categories]
    span = lambda event: (ns(event["ts"]), ns(event["dur"]))
    judge.rows(
        "calls",
        [
            (
                e["cat"],
                e["pid"],
                e["tid"],
                e["name"],
                e["args"]["correlation"],
                e["args"].get("bytes", 0),
                e["args"].get("returned", 0),
                *span(e),
            )
            for e in of("cuda_runtime", "cuda_driver")
        ],
        expected.calls(),
    )
    judge.rows(
        "work",
        [
            (e["cat"], e["args"]["device"], e["tid"], e["name"], e["args"]["correlation"], e["args"].get("bytes"), *span(e))
            for e in of("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync")
        ],
        expected.work(waits="NOT isOwn"),
    )
    judge.expect("waits that look like work", sum("stream" in e["args"] for e in of("cuda_sync")), 0)
    # A range of the program's that is a step is there once.
    steps = list(expected.steps())
    ranges = [row for row in expected.ranges() if row not in steps]
    judge.rows("steps and ranges", [(e["pid"], e["tid"], e["name"], *span(e)) for e in of("user_annotation")], steps + ranges)
    judge.rows(
        "gaps",
        [
            (e["pid"], e["tid"], e["args"]["count"], ns(e["ts"]), e["args"]["for ns"])
            for e in of("slipstream")
            if e["name"] == "records missing"
        ],
        expected.gaps(),
    )
    judge.rows(
        "marks", [(e["pid"], e["tid"], e["args"]["value"], ns(e["ts"])) for e in of("slipstream") if e["name"] == "mark"], expected.marks()
    )
    judge.rows(
        "pools",
        [
            (event["pid"], int(event["name"].split()[1]), key.split()[0], ns(event["ts"]), value)
            for event in events
            if event["ph"] == "C"
            for key, value in event["args"].items()
        ],
        expected.readings(),
    )
    # Each piece of work that a call asked for has an arrow from it. A wait is no work.
    begins = {event["id"]: (event["pid"], event["tid"], ns(event["ts"])) for event in events if event["ph"] == "s"}
    calls = {event["args"]["correlation"]: (event["pid"], event["tid"], ns(event["ts"])) for event in of("cuda_runtime", "cuda_driver")}
    ends = [event["id"] for event in events if event["ph"] == "f"]
    works = [row[4] for row in expected.work() if row[4] in calls and row[0] != "cuda_sync"]
    judge.rows("arrows", [(number,) for number in ends], [(number,) for number in works])
    judge.rows("where arrows begin", begins.items(), [(number, calls[number]) for number in set(works)])


# ---- Perfetto


def fields(data):
    """(number, value) of a protocol buffer's fields: a number, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            yield key >> 3, data[at : at + size]
            at += size


def hold_perfetto(judge, connection, path):
    expected = Expected(connection)
    names, categories, tracks, events, base = {}, {}, {}, [], 0
    with open(path, "rb") as file:
        packets = list(fields(file.read()))
    for _, packet in packets:
        # Fields by their numbers in Perfetto's .proto files.
        parts = dict(fields(packet))
        for kind, known in ((1, categories), (2, names)):
            for number, entry in fields(parts.get(12, b"")):
                if number == kind:
                    one = dict(fields(entry))
                    known[one[1]] = one[2].decode()
        if 60 in parts:
            track = dict(fields(parts[60]))
            tracks[track[1]] = track
        if 6 in parts:
            clocks = {one[1]: one.get(2, 0) for _, one in ((number, dict(fields(entry))) for number, entry in fields(parts[6]))}
            (start,) = connection.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
            base = clocks[1] - start - clocks[6]
        if 11 in parts:
            event = dict(fields(parts[11]))
            events.append((parts[8] + base, event))
    events.sort(key=lambda each: each[0])
    open_slices, slices, counters = {}, [], []
    for time, event in events:
        kind, track = event[9], event[11]
        if kind == 1:
            open_slices.setdefault(track, []).append((time, categories.get(event.get(3), ""), names.get(event.get(10), "")))
        elif kind == 2:
            start, category, name = open_slices[track].pop()
            slices.append((category, name, start, time - start))
        elif kind == 4:
            _, device, _, what = tracks[track][2].decode().split()
            counters.append((int(device), what.rstrip(":"), time, event.get(30, 0)))
    judge.expect("slices that never end", sum(map(len, open_slices.values())), 0)
    wanted = [(row[0], row[3], *row[-2:]) for row in (*expected.calls(), *expected.work())]
    kinds = ("cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset", "cuda_sync")
    judge.rows("slices", [row for row in slices if row[0] in kinds], wanted)
    judge.rows("pools", counters, [row[1:] for row in expected.readings()])
    annotated = [row[2:] for row in expected.ranges()]
    judge.rows("ranges", [row[1:] for row in slices if row[0] == "user_annotation"], annotated)
