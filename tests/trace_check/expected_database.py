"""The rows that a database of a made-up run (traces.py) must have, from what was put into its files."""

import re

from spools import ALLOCATED, CALL, COPY, DECISION, DRIVER_CALL, DROP, FREED, KERNEL, MARK, MEMORY, RANGE, SET, TASKS, WAIT_FOR
from traces import DRIVER_LIBRARIES, DRIVER_NAMES, FUNCTIONS, KERNEL_NAMES, LIBRARY_NAMES, LINES, OUTCOMES

EVERYTHING = (*range(1, 13), TASKS, KERNEL, COPY, SET, WAIT_FOR)


def plain(function):
    """The name as programs write it, without a version."""
    return re.sub(r"_v\d+$", "", function)


class Times:
    """The trace's time: each host's clock by the shortest reading of any of its processes, from the earliest record on."""

    def __init__(self, run):
        self.difference = {}
        for host in run.hosts:
            readings = [
                ((after - before + 1) // 2, realtime - (before + (after - before) // 2))
                for process in run.processes
                if process.host is host
                for before, after, realtime in process.clocks
            ]
            self.difference[host] = min(readings)[1]
        self.zero = min(self.first(process) + self.difference[process.host] for process in run.processes)

    @staticmethod
    def first(process):
        # A look at what is at work may begin before all that was recorded.
        starts = [fields["end" if fields["kind"] == TASKS else "start"] for _, fields in process.rows(*EVERYTHING)]
        starts += [before for before, _, _ in process.clocks]
        starts += [before for before, _, _ in process.device or []]
        return min(starts)

    def at(self, process, monotonic):
        return monotonic + self.difference[process.host] - self.zero


def line_of(number):
    return LINES.get(number)


def hold_against(judge, run, connection):
    times = Times(run)
    numbers = {file: number for number, file in connection.execute("SELECT processId, spoolFile FROM SLIPSTREAM_PROCESSES")}
    judge.expect("files", sorted(numbers), sorted(process.file for process in run.processes))
    (zero,) = connection.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
    judge.expect("wall time at 0", zero, times.zero)
    judge.expect(
        "processes have numbers of their own",
        connection.execute("SELECT count(DISTINCT globalPid) FROM SLIPSTREAM_PROCESSES").fetchone()[0],
        len(run.processes),
    )
    judge.rows(
        "hosts",
        connection.execute("SELECT name, wallMinusMonotonicNs FROM SLIPSTREAM_HOSTS"),
        [(host.name, times.difference[host]) for host in run.hosts],
    )
    for process in run.processes:
        OneProcess(judge, process, times, connection, numbers.get(process.file)).all()


class OneProcess:
    def __init__(self, judge, process, times, connection, number):
        self.judge, self.process, self.times, self.connection, self.number = judge, process, times, connection, number
        self.sites = {
            site: (file, line, function)
            for site, file, line, function in connection.execute("SELECT siteId, file, line, function FROM SLIPSTREAM_SITES")
        }
        self.strings = dict(connection.execute("SELECT id, value FROM StringIds"))
        self.has = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def at(self, monotonic):
        return self.times.at(self.process, monotonic)

    def worked_at(self, recorded):
        return self.at(self.process.monotonic(recorded))

    def query(self, sql):
        return self.connection.execute(sql, (self.number,)).fetchall()

    def compare(self, what, actual, expected):
        self.judge.rows(f"{self.process.file}: {what}", actual, expected)

    def all(self):
        self.calls()
        self.decisions()
        self.others()
        self.blocks()
        self.steps_and_ranges()
        self.devices()
        self.counters()
        self.row()

    def calls(self):
        rows = self.query(
            "SELECT c.thread, r.globalTid & 16777215, r.nameId, r.start, r.end, r.returnValue, c.bytes, c.stream, c.deviceId, c.siteId, c.cuptiCorrelation, r.eventClass, c.libraryId, "
            "c.callNumber, c.insideCall, c.workIsOwn "
            "FROM SLIPSTREAM_CALLS c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) WHERE processId = ?"
        )
        actual = [
            (*row[:2], plain(self.strings[row[2]]), *row[3:9], self.sites.get(row[9]), *row[10:12], self.strings.get(row[12]), *row[13:])
            for row in rows
        ]
        expected = []
        for thread, call in self.process.rows(CALL, DRIVER_CALL):
            by_driver = call["kind"] == DRIVER_CALL
            name = DRIVER_NAMES[call["hook"]] if by_driver else FUNCTIONS[call["hook"]]
            library = call["bytes"] if by_driver else 0
            device = call["device"] if call.get("device", -1) >= 0 else None
            expected.append(
                (
                    thread, self.process.tids[thread][0], plain(name), self.at(call["start"]), self.at(call["end"]), call.get("status", 0), 0 if by_driver else call.get("bytes", 0),
                    call.get("stream", 0), device, line_of(call.get("site")), call.get("correlation") or None,
                    1 if name.startswith("cu") and name[2].isupper() else 0, DRIVER_LIBRARIES[library] if library else None,
                    None if by_driver else call["number"], call["number"] or None if by_driver else None, call.get("flags", 0) >> 1,
                )
            )  # fmt: skip
        self.compare("calls", actual, expected)
        everywhere = "SELECT count(*), count(DISTINCT correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        count, numbers = self.connection.execute(everywhere).fetchone()
        self.judge.expect("calls have numbers of their own", numbers, count)

    def decisions(self):
        rows = self.query(
            "SELECT r.start, d.decisionId, d.bytes, d.savedNs FROM SLIPSTREAM_DECISIONS d JOIN SLIPSTREAM_CALLS c USING (correlationId) "
            "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) WHERE c.processId = ?"
        )
        expected = [
            (self.at(call["start"]), OUTCOMES[call["decision"] - 1] if call["decision"] else None, call["bytes"], call["saved"])
            for _, call in self.process.rows(CALL)
            if call.get("decision") or call.get("saved")
        ]
        self.compare("calls decided about", [(start, self.strings.get(id), *rest) for start, id, *rest in rows], expected)
        rows = self.query(
            "SELECT time, thread, decisionId, d.bytes, timeNs, savedNs, savedIsKnown, d.contents, r.start FROM SLIPSTREAM_DECISION_EVENTS d "
            "LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) WHERE processId = ?"
        )
        calls = {}  # by thread: what the next call that is recorded is
        expected = []
        for thread, fields in self.process.rows(DECISION, CALL):
            if fields["kind"] == CALL:
                for decision in calls.pop(thread, []):
                    inside = decision["call"] == fields["number"]
                    expected.append(self.event(thread, decision, self.at(fields["start"]) if inside else None))
            elif fields["call"]:
                calls.setdefault(thread, []).append(fields)
            else:
                expected.append(self.event(thread, fields, None))
        for thread, waiting in calls.items():
            expected += [self.event(thread, decision, None) for decision in waiting]
        self.compare("decisions", [(*row[:2], self.strings[row[2]], *row[3:]) for row in rows], expected)

    def event(self, thread, fields, call):
        return (
            self.at(fields["end"]),
            thread,
            OUTCOMES[fields["decision"] - 1],
            fields["bytes"],
            fields.get("stream", 0),
            fields["saved"],
            fields["known"],
            fields["status"] << 32 | fields["correlation"] or None,
            call,
        )

    def others(self):
        self.compare(
            "memory",
            self.query(
                "SELECT start, deviceId, liveBytes, idleBytes, parkedBytes, trims, retries, deviceUsedBytes, largestIdleBytes "
                "FROM SLIPSTREAM_MEMORY WHERE processId = ?"
            ),
            [
                (
                    *(self.at(m["start"]), m["device"], m["bytes"], m["stream"], m["number"], m["site"], m["correlation"]),
                    m.get("status", 0) << 32 | m.get("stack", 0) if m.get("flags", 0) & 1 else None,
                    (m.get("decision", 0) << 16 | m.get("hook", 0)) << 10 if m.get("flags", 0) & 2 else None,
                )
                for _, m in self.process.rows(MEMORY)
            ],
        )
        self.compare(
            "tasks",
            self.query(
                "SELECT start, end, kind, thread, count, busy, ranNs, waitedNs, throttled, throttledNs, began FROM SLIPSTREAM_TASKS WHERE processId = ?"
            ),
            [
                (
                    *(self.at(t["start"]), self.at(t["end"]), t["hook"], t["status"] if t["hook"] == 2 else None, t["stack"]),
                    *((t["site"], t["bytes"], t["stream"]) if t["flags"] & 1 else (None,) * 3),
                    *((t["correlation"], t["number"]) if t["flags"] & 2 else (None,) * 2),
                    t["correlation"] if t["flags"] & 4 else None,
                )
                for _, t in self.process.rows(TASKS)
            ],
        )
        rows = self.query("SELECT start, thread, value, siteId FROM SLIPSTREAM_MARKS WHERE processId = ?")
        self.compare(
            "marks",
            [(*row[:3], self.sites.get(row[3])) for row in rows],
            [(self.at(m["start"]), thread, m["bytes"], line_of(m["site"])) for thread, m in self.process.rows(MARK)],
        )
        expected = [(self.at(d["start"]), self.at(d["end"]), thread, d["bytes"], d["number"], 0) for thread, d in self.process.rows(DROP)]
        if self.process.dropped_without_ring:
            at, count = self.at(self.process.iterations[-1][1]), self.process.dropped_without_ring
            expected.append((at, at + 10, 0, count, count, 0))
        if self.process.damage is not None:
            since, until, count = self.process.damage
            expected.append((self.at(min(since, until)), self.at(until), self.process.damaged_thread, count, count, 1))
        self.compare(
            "drops",
            self.query("SELECT start, end, thread, count, countUpToHere, isDamage FROM SLIPSTREAM_DROPS WHERE processId = ?"),
            expected,
        )
        self.compare(
            "clocks",
            self.query(
                "SELECT start, end, monotonicBeforeNs, monotonicAfterNs, realtimeNs, monotonicRawNs FROM SLIPSTREAM_CLOCKS WHERE processId = ?"
            ),
            [(self.at(before), self.at(after), before, after, realtime, before) for before, after, realtime in self.process.clocks],
        )

    def blocks(self):
        rows = self.query(
            "SELECT time, thread, event, kind, address, bytes, stream, deviceId, nameId, siteId, libraryId FROM SLIPSTREAM_ALLOCATIONS WHERE processId = ?"
        )
        actual = [(*row[:8], plain(self.strings[row[8]]), self.sites.get(row[9]), self.strings.get(row[10])) for row in rows]
        expected = []
        for thread, block in self.process.rows(ALLOCATED, FREED):
            allocated = block["kind"] == ALLOCATED
            library = block.get("correlation", 0)
            expected.append(
                (
                    self.at(block["end"] if allocated else block["start"]), thread, block["status"] >> 8, block["status"] & 0xFF, block["number"], block.get("bytes", 0),
                    block["stream"], block["device"] if block["device"] >= 0 else None, plain(FUNCTIONS[block["hook"]]), line_of(block["site"]),
                    LIBRARY_NAMES[library] if library else None,
                )
            )  # fmt: skip
        self.compare("blocks of memory", actual, expected)

    def steps_and_ranges(self):
        rows = self.query("SELECT start, end, thread, number, siteId, isUnfinished FROM SLIPSTREAM_STEPS WHERE processId = ?")
        # Behind the last one that was found the program left its loop.
        last = max((number for _, _, number, line in self.process.steps if line), default=None)
        expected = [
            (self.at(start), self.at(end), 1, number, line, int(line is not None and number == last))
            for start, end, number, line in self.process.steps
        ]
        self.compare("steps", [(*row[:4], self.sites.get(row[4]), row[5]) for row in rows], expected)
        if "NVTX_EVENTS" not in self.has:
            return
        rows = self.query(
            "SELECT start, end, eventType, coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId "
            "WHERE (globalTid & ~16777215) = (SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE processId = ?)"
        )
        names = {number: name for name, number in self.process.run.range_names.items()}
        expected = [(self.at(start), self.at(end), 60, "step") for start, end, _, _ in self.process.steps]
        expected += [(self.at(r["start"]), self.at(r["end"]), 59, names[r["site"]]) for _, r in self.process.rows(RANGE)]
        self.compare("ranges", rows, expected)

    def devices(self):
        process = self.process
        kinds = {}
        for kind, table, columns in (
            (
                KERNEL,
                "KERNEL",
                "shortName, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory, graphNodeId",
            ),
            (COPY, "MEMCPY", "w.bytes, copyKind, srcKind, dstKind"),
            (SET, "MEMSET", "w.bytes, value, memKind"),
        ):
            if f"CUPTI_ACTIVITY_KIND_{table}" not in self.has:
                rows = []
            else:
                rows = self.query(
                    f"SELECT w.start, w.end, w.deviceId, w.contextId, w.streamId, r.start, {columns} FROM CUPTI_ACTIVITY_KIND_{table} w "
                    "LEFT JOIN SLIPSTREAM_CALLS USING (correlationId) LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) "
                    "WHERE w.globalPid = (SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE processId = ?)"
                )
            calls = {call["correlation"]: call for _, call in process.rows(CALL, DRIVER_CALL) if call.get("correlation")}
            expected = []
            for _, work in process.rows(kind):
                call = calls.get(work["correlation"])
                head = (
                    self.worked_at(work["start"]), self.worked_at(work["end"]), work["device"], work["context"], work["stream"],
                    self.at(call["start"]) if call else None,
                )  # fmt: skip
                if kind == KERNEL:
                    grid, block, registers, static, dynamic = work["shape"]
                    expected.append((*head, KERNEL_NAMES[work["name"] - 1], *grid, *block, registers, static, dynamic, work.get("node")))
                elif kind == COPY:
                    # From pageable to device memory, as CUPTI numbers them from 1.
                    expected.append((*head, work["bytes"], work["copy"], 0, 2))
                else:
                    expected.append((*head, work["bytes"], 0, 2))
            if kind == KERNEL:
                rows = [(*row[:6], self.strings[row[6]], *row[7:]) for row in rows]
            self.compare(table.lower(), rows, expected)
            kinds[kind] = len(expected)
        works = [work for _, work in process.rows(KERNEL, COPY, SET)]
        self.synchronizations(calls, works)
        stray = sum(work["correlation"] not in calls for work in works)
        rows = self.query("SELECT kernels, copies, sets, unattributed FROM SLIPSTREAM_DEVICE_WORK WHERE processId = ?")
        self.compare("device work", rows, [(*kinds.values(), stray)] if process.device is not None else [])
        readings = process.device or []
        self.compare(
            "readings of the device's clock",
            self.query("SELECT start, end, deviceNs FROM SLIPSTREAM_DEVICE_CLOCKS WHERE processId = ?"),
            [(self.at(before), self.at(after), device) for before, after, device in readings],
        )
        self.compare(
            "when devices were recorded",
            self.query("SELECT start, end FROM SLIPSTREAM_DEVICE_PERIODS WHERE processId = ?"),
            [(self.at(readings[0][1]), self.at(readings[-1][0]))] if readings else [],
        )
        gpus = (
            self.query(
                "SELECT deviceId, name, smCount, uuid FROM SLIPSTREAM_DEVICES JOIN TARGET_INFO_GPU ON id = gpuId WHERE processId = ?"
            )
            if "TARGET_INFO_GPU" in self.has
            else []
        )
        host = process.run.hosts.index(process.host)
        self.compare("devices", gpus, [(0, "NVIDIA H200", 132, f"00000000-0000-0000-0000-0000000000{host:02d}")] if readings else [])

    def synchronizations(self, calls, works):
        rows = (
            self.query(
                "SELECT w.start, w.end, w.deviceId, w.contextId, w.streamId, r.start, syncType, eventId, isOwn FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION w "
                "LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) "
                "WHERE w.globalPid = (SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE processId = ?)"
            )
            if "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" in self.has
            else []
        )
        expected = []
        for _, wait in self.process.rows(WAIT_FOR):
            call = calls.get(wait["correlation"])
            device = min((work["device"] for work in works if work["context"] == wait["context"]), default=None)
            expected.append(
                (
                    self.worked_at(wait["start"]), self.worked_at(wait["end"]), device, wait["context"], wait["stream"],
                    self.at(call["start"]) if call else None, wait["type"], wait["event"], int(call is None),
                )
            )  # fmt: skip
        self.compare("synchronizations", rows, expected)

    def counters(self):
        rows = self.query(
            "SELECT kind, nameId, calls, errors, bytes, timeNs, callsAtMost, errorsAtMost, bytesAtMost, timeNsAtMost "
            "FROM SLIPSTREAM_COUNTERS WHERE processId = ?"
        )
        expected = []
        if self.process.ending == "finished":
            for kind, number, names, first in ((CALL, "hook", FUNCTIONS, 0), (DECISION, "decision", OUTCOMES, 1)):
                counted = self.process.counted(kind, number)
                table = 0 if kind == CALL else 1
                expected += [(table, plain(names[at - first]), *figures, *figures) for at, figures in counted.items()]
                whole = [sum(figures[i] for figures in counted.values()) for i in range(4)]
                expected.append((table, None, *whole, *whole))
        self.compare("counters", [(kind, plain(self.strings[name]) if name else None, *rest) for kind, name, *rest in rows], expected)

    def row(self):
        process = self.process
        times = []
        for _, fields in process.rows(*EVERYTHING):
            by_device = fields["kind"] in (KERNEL, COPY, SET, WAIT_FOR)
            times += [self.worked_at(fields[key]) if by_device else self.at(fields[key]) for key in ("start", "end")[fields["kind"] == TASKS :]]
        times += [self.at(time) for reading in process.clocks for time in reading[:2]]
        times += [self.at(time) for reading in process.device or [] for time in reading[:2]]
        ring = process.iterations[-1][1] if process.dropped_without_ring else None
        if ring is not None:
            times += [self.at(ring), self.at(ring) + 10]
        columns = (
            "pid",
            "hostId IS NULL",
            "rank",
            "firstNs",
            "lastNs",
            "calls",
            "records",
            "complete",
            "endReason",
            "malformedChunks",
            "skippedRecords",
            "lateRecords",
        )
        records = sum(1 for _ in process.rows(*EVERYTHING)) + len(process.clocks) + len(process.device or []) + (1 if ring else 0)
        ends = process.ending in ("finished", "limit")
        self.compare(
            "the process",
            self.query(f"SELECT {', '.join(columns)} FROM SLIPSTREAM_PROCESSES WHERE processId = ?"),
            [
                (
                    process.pid,
                    0,
                    process.rank,
                    min(times),
                    max(times),
                    sum(1 for _ in process.rows(CALL)),
                    records,
                    int(ends),
                    process.ending if ends else None,
                    0,
                    0,
                    0,
                )
            ],
        )
        dropped, left, missing, chunks = self.query(
            "SELECT dropped, leftBytes, missingRecords, missingChunks FROM SLIPSTREAM_PROCESSES WHERE processId = ?"
        )[0]
        told = {thread: max((d["number"] for t, d in process.rows(DROP) if t == thread), default=0) for thread in (1, 2)}
        if ends:
            told = {thread: process.dropped[thread] + process.unsaid(thread) for thread in (1, 2)}
        self.judge.expect(f"{process.file}: dropped", dropped, sum(told.values()) + process.dropped_without_ring)
        self.judge.expect(f"{process.file}: left", left > 0, process.ending == "cut")
        self.judge.expect(f"{process.file}: damaged chunks", chunks, 0 if process.damage is None else 1)
        self.judge.expect(f"{process.file}: records in them", missing, 0 if process.damage is None else process.damage[2])
        rows = self.query("SELECT thread, tid, name, records, dropped, ended FROM SLIPSTREAM_THREADS WHERE processId = ?")
        expected = []
        for thread in (1, 2):
            made = sum(1 for t, _ in process.rows(*EVERYTHING) if t == thread)
            expected.append((thread, *process.tids[thread], made, told[thread], int(ends)))
        self.compare("threads", rows, expected)
        key = self.query("SELECT value FROM SLIPSTREAM_FACTS WHERE processId = ? AND key = 'start'")
        self.compare("a fact that nobody knows", key, [("x",)])
