"""The figures of a report, from the rows of its database: plain SQL, and arithmetic as docs/report.md words it. None of it is the
report's own code or its way of computing: time is cut at every moment at which anything begins or ends, and each piece is looked at by itself.
"""

import bisect
import itertools
import math

from cuda_names import COMMUNICATION, kind_of, on_tensor_cores, plain, returns_early, skips, waits
from expected_ahead import HOST, Ahead
from expected_gains import Gains
from expected_lines import Lines, verdict
from expected_losses import Losses
from expected_memory import Memory
from expected_wall import Wall
from measures import Cover, Lane, differ, distribution, occupancy, rank, sizes_tree

PARTS = ("copies", "synchronizes", "allocator", "launches", "other_calls", "another_thread_in_calls", "outside_of_calls")

# ---- the database


class Database:
    def __init__(self, connection):
        self.connection = connection
        self.tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        self.strings = dict(connection.execute("SELECT id, value FROM StringIds"))
        self.sites = {site: rest for site, *rest in connection.execute("SELECT siteId, file, line, function FROM SLIPSTREAM_SITES")}

    def rows(self, sql, *values):
        cursor = self.connection.execute(sql, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor]

    def has(self, table):
        return f"CUPTI_ACTIVITY_KIND_{table}" in self.tables


def report(connection):
    """What `slipstream report --json` must say, of the keys that are known here."""
    database = Database(connection)
    found = database.rows(
        "SELECT p.*, h.name AS hostName FROM SLIPSTREAM_PROCESSES p LEFT JOIN SLIPSTREAM_HOSTS h USING (hostId) ORDER BY processId"
    )
    found.sort(key=lambda row: (row["rank"] is None, row["rank"] or 0))
    first, last = min(row["firstNs"] for row in found), max(row["lastNs"] for row in found)
    processes = [Process(database, row, first, last) for row in found]
    devices = database.has("KERNEL")
    copies = database.has("MEMCPY") or database.has("MEMSET")
    trees = [process.tree(devices, copies) for process in processes]
    root = {
        "schema": "slipstream-report-1",
        "start_unix_ns": connection.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()[0],
        "first_ns": first,
        "last_ns": last,
        "calls": sum(row["calls"] for row in found),
        "kernels_recorded": devices,
        "device_copies_recorded": copies,
        "hosts": [name for (name,) in connection.execute("SELECT name FROM SLIPSTREAM_HOSTS ORDER BY hostId")],
        "unreadable": [],
        "processes": trees,
    }
    root.update(ranks(processes, trees, devices))
    root["verdict"] = verdict(root, processes)
    return root


def ranks(processes, trees, devices):
    with_steps = [i for i, process in enumerate(processes) if process.has_steps]
    pace = lambda i: trees[i]["steps"]["work_time" if processes[i].ran_ahead else "time"]
    median = lambda i: pace(i)["median_ns"]
    shown = max(with_steps, key=median) if with_steps else max(range(len(processes)), key=lambda i: processes[i].row["calls"])
    result = {"spread": None, "slowest": None, "communication": None}
    talking = [i for i in with_steps if processes[i].communication() > 0]
    a_step = lambda i: processes[i].communication() // len(processes[i].measured_steps)
    if len(talking) >= 2:
        least, most = min(talking, key=a_step), max(talking, key=a_step)
        result["communication"] = {
            "waited_for_process": least,
            "most_waiting_process": most,
            "wait_per_step_ns": a_step(most) - a_step(least),
        }
    if len(with_steps) >= 2:
        shortest, longest = min(with_steps, key=median), max(with_steps, key=median)
        difference = median(longest) - median(shortest)
        result["spread"] = {"shortest_process": shortest, "longest_process": longest, "median_difference_ns": difference}
        slowest = None
        if len(talking) >= 2:
            wait = a_step(most) - a_step(least)
            of = lambda i: distribution([step["communication"] for step in processes[i].measured_steps])
            if wait > median(least) // 50 and differ(of(least), of(most)):
                slowest = (least, most, "communication", wait)
        if (
            slowest is None
            and difference > median(shortest) // 50
            and differ(pace(longest), pace(shortest))
        ):
            slowest = (longest, shortest, "step_time", difference)
        ranked = [i for i in with_steps if processes[i].row["rank"] is not None]
        if slowest is None and len(ranked) >= 2 and not devices:
            outside = lambda i: trees[i]["steps"]["time_outside_waits"]
            low = min(ranked, key=lambda i: outside(i)["median_ns"])
            high = max(reversed(ranked), key=lambda i: outside(i)["median_ns"])
            gap = outside(high)["median_ns"] - outside(low)["median_ns"]
            if gap > median(high) // 50 and differ(outside(high), outside(low)):
                slowest = (high, low, "time_outside_waits", gap)
        if slowest is not None:
            result["slowest"] = dict(zip(("process", "than_process", "by", "difference_ns"), slowest))
            shown = slowest[0]
    result["shown_process"] = shown
    return result


class Process(Ahead, Gains, Lines, Losses, Memory, Wall):
    def __init__(self, database, row, first, last):
        self.database, self.row, self.first, self.last = database, row, first, last
        self.id = row["processId"]
        self.choose_steps()
        self.read_calls()
        self.read_work()
        self.cut_time()

    def rows(self, sql, *values):
        return self.database.rows(sql, self.id, *values)

    # ---- steps
    def choose_steps(self):
        by_thread = {}
        for step in self.rows(
            "SELECT thread, number, siteId, start, end, isUnfinished FROM SLIPSTREAM_STEPS WHERE processId = ? ORDER BY start, end DESC, number"
        ):
            by_thread.setdefault(step["thread"], []).append(step)
        self.has_steps = bool(by_thread)
        self.steps_found = False
        if self.has_steps:
            self.thread = min(by_thread, key=lambda thread: (-len(by_thread[thread]), thread))
            self.steps = by_thread[self.thread]
            self.steps_found = self.steps[0]["siteId"] is not None
        else:
            threads = self.rows("SELECT thread, records FROM SLIPSTREAM_THREADS WHERE processId = ? AND thread != 0")
            self.thread = min(threads, key=lambda each: (-each["records"], each["thread"]))["thread"] if threads else 0
            self.steps = [{"number": 0, "start": self.row["firstNs"], "end": self.row["lastNs"], "siteId": None, "isUnfinished": 0}]
        self.find_drops()
        periods = [
            (p["start"], p["end"])
            for p in self.rows("SELECT start, end FROM SLIPSTREAM_DEVICE_PERIODS WHERE processId = ? ORDER BY start, end")
        ]
        self.devices_recorded = bool(periods)
        self.drops_everywhere = self.unwatched_everywhere = False
        self.before_devices = []
        for step in self.steps:
            step.update(
                use="end_not_known" if step["isUnfinished"] else "measured",
                parts=dict.fromkeys(PARTS, 0),
                communication=0,
                calls=0,
                elsewhere=0,
            )
        if not self.has_steps:
            self.drops_everywhere = bool(self.drops)
            if periods:
                self.steps = [dict(self.steps[0], start=start, end=end, parts=dict.fromkeys(PARTS, 0)) for start, end in periods]
        else:
            if all(step["isUnfinished"] for step in self.steps):
                for step in self.steps:
                    step["use"] = "measured"
            median = rank([step["end"] - step["start"] for step in self.steps if step["use"] == "measured"], 50)
            candidates = self.steps[: min(10, len(self.steps) // 4)]
            slow = [i for i, step in enumerate(candidates) if step["end"] - step["start"] > 2 * median]
            for step in candidates[: slow[-1] + 1 if slow else 0]:
                if step["use"] == "measured":
                    step["use"] = "warm_up"
            self.drops_everywhere = self.leave_out(self.drops, "dropped_records")
            holes = []
            if periods:
                holes = [(end, start) for (_, end), (start, _) in zip(periods, periods[1:])]
                if self.row["firstNs"] < periods[0][0]:
                    holes.append((self.row["firstNs"], periods[0][0]))
                if periods[-1][1] < self.row["lastNs"]:
                    holes.append((periods[-1][1], self.row["lastNs"]))
            self.unwatched_everywhere = self.leave_out(holes, "devices_not_recorded")
            self.before_devices = [
                step["end"] - step["start"]
                for step in self.steps
                if step["use"] == "devices_not_recorded" and step["end"] <= periods[0][0]
            ]
        self.ran_ahead = self.choose_by_backlog()
        self.measured_steps = [step for step in self.steps if step["use"] == "measured"]
        self.measured = Cover([(step["start"], step["end"]) for step in self.measured_steps])
        self.measured_ns = sum(end - start for start, end in self.measured.merged)
        self.divisor = len(self.measured_steps) if self.has_steps else 1

    def choose_by_backlog(self):
        """Of the measured steps, all but the longest row up to the last in which the backlog stays. True: there is none."""
        for step in self.steps:
            step.update(backlog=0, work_time=0)
        self.waited_after = None
        if not self.has_steps or self.drops_everywhere:
            return False
        if not self.devices_recorded or self.unwatched_everywhere:
            return self.waits_after()
        asked = "SELECT r.start AS asked, w.start, w.end FROM CUPTI_ACTIVITY_KIND_{} w JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) "
        asked += "WHERE w.globalPid = (SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE processId = ?)"
        tables = [table for table in ("KERNEL", "MEMCPY", "MEMSET") if self.database.has(table)]
        if not tables or not self.database.has("RUNTIME"):
            return False
        work = [each for table in tables for each in self.rows(asked.format(table))]
        over = None  # what was asked for by the end of the step before
        for i, step in enumerate(self.steps):
            following = [each["start"] for each in self.steps[i + 1 :]]
            mine = lambda asked: step["start"] <= asked < step["end"] and not any(start <= asked for start in following)
            ends = [each["end"] for each in work if mine(each["asked"]) and each["start"] > step["end"]]
            ends += [step["end"]] + ([] if over is None else [over])
            step["backlog"] = max(ends) - step["end"]
            step["work_time"] = max(0, max(ends) - max(step["start"], step["start"] if over is None else over))
            over = max(ends)
        measured = [step for step in self.steps if step["use"] == "measured"]
        grows = lambda steps: sum(step["work_time"] - (step["end"] - step["start"]) for step in steps)
        steady = [i for i in range(len(measured)) if 20 * grows(measured[i:]) <= sum(s["end"] - s["start"] for s in measured[i:])]
        if not measured or steady[:1] == [0]:
            return False
        kept = len(measured) - steady[0] if steady else 0
        if kept < 5 or 4 * kept < len(measured):
            return True
        for step in measured[: steady[0]]:
            step["use"] = "host_ran_ahead"
        return False

    def waits_after(self):
        measured = [step for step in self.steps if step["use"] == "measured"]
        time = lambda step: step["end"] - step["start"]
        if not measured or not sum(map(time, measured)) or not {"SLIPSTREAM_DECISIONS", "CUPTI_ACTIVITY_KIND_RUNTIME"} <= self.database.tables:
            return False
        calls = self.rows(
            "SELECT r.start, r.end, r.nameId, d.decisionId FROM SLIPSTREAM_CALLS JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) "
            "LEFT JOIN SLIPSTREAM_DECISIONS d USING (correlationId) WHERE processId = ? AND thread = ? AND r.start >= ? ORDER BY r.start",
            self.thread,
            measured[-1]["end"],
        )
        text = lambda id: self.database.strings.get(id, "")
        passed = lambda decision: returns_early(decision) or skips(decision)
        real = [call for call in calls if waits(text(call["nameId"])) and not passed(text(call["decisionId"]))]
        if not real:
            return False
        launches = [call for call in calls[: calls.index(real[0])] if kind_of(text(call["nameId"])) == "launches"]
        if sum(call["start"] >= self.steps[-1]["end"] for call in launches) > 8:
            return False
        start, end = real[0]["start"], real[0]["end"]
        later = self.steps[self.steps.index(measured[-1]) + 1 :]
        later = list(itertools.takewhile(lambda step: step["start"] <= start, later))
        whole = sum(map(time, measured + later)) + (end - start if start >= (measured + later)[-1]["end"] else 0)
        factor = (whole / len(measured + later)) / (sum(map(time, measured)) / len(measured))
        for step in self.steps:
            step["work_time"] = math.floor(time(step) * factor + 0.5)
        if factor <= 1.05:
            return False
        self.waited_after = end - start
        return True

    def leave_out(self, holes, use):
        """Of the measured steps, those that touch a hole; but never all. True: it would have been all."""
        measured = [step for step in self.steps if step["use"] == "measured"]
        hit = [step for step in measured if any(start < step["end"] and end >= step["start"] for start, end in holes)]
        if len(hit) == len(measured):
            return bool(hit)
        for step in hit:
            step["use"] = use
        return False

    def find_drops(self):
        self.drops, self.gaps = [], 0
        said, last = {}, {}
        self.dropped = {True: 0, False: 0}  # by whether it is the step thread
        for drop in self.rows("SELECT thread, start, end, count, isDamage FROM SLIPSTREAM_DROPS WHERE processId = ?"):
            self.drops.append((drop["start"], drop["end"]))
            if drop["isDamage"]:
                continue
            self.gaps += 1
            thread = drop["thread"]
            said[thread] = said.get(thread, 0) + drop["count"]
            last[thread] = max(last.get(thread, drop["end"]), drop["end"])
            self.dropped[thread == self.thread] += drop["count"]
        for each in self.rows("SELECT thread, dropped FROM SLIPSTREAM_THREADS WHERE processId = ?"):
            more = each["dropped"] - said.get(each["thread"], 0)
            if more <= 0:
                continue
            thread = each["thread"]
            self.dropped[thread == self.thread] += more
            since = last.get(thread, self.row["firstNs"])
            call = self.rows(
                "SELECT max(end) AS m FROM SLIPSTREAM_CALLS JOIN CUPTI_ACTIVITY_KIND_RUNTIME USING (correlationId) WHERE processId = ? AND thread = ?",
                thread,
            )[0]["m"]
            since = max(since, call) if call is not None else since
            self.drops.append((since, max(since, self.row["lastNs"])))

    # ---- what happened
    def read_calls(self):
        self.calls = self.rows(
            "SELECT r.rowid AS id, c.correlationId, r.start, r.end, r.nameId, r.returnValue, c.thread, c.siteId, c.bytes, c.stream, d.decisionId, d.savedNs, d.bytes AS decisionBytes, "
            "d.correlationId IS NOT NULL AS decided FROM SLIPSTREAM_CALLS c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) "
            "LEFT JOIN SLIPSTREAM_DECISIONS d USING (correlationId) WHERE c.processId = ? ORDER BY r.start, r.end DESC, r.rowid"
        )
        for call in self.calls:
            call["name"] = self.database.strings[call["nameId"]]
            call["kind"] = kind_of(call["name"])
            call["own"] = call["thread"] == self.thread
            call["decision"] = self.database.strings.get(call["decisionId"], "") if call["decisionId"] is not None else ""
            call["measured"] = self.measured.has(call["start"])
        self.own = Lane([call for call in self.calls if call["own"]])
        self.others = Lane([call for call in self.calls if not call["own"]])

    def read_work(self):
        self.work = []
        for table, more in (("KERNEL", "shortName, demangledName, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory"),
                            ("MEMCPY", "bytes, copyKind"), ("MEMSET", "bytes, -1 AS copyKind")):  # fmt: skip
            if self.database.has(table):
                for work in self.rows(
                    f"SELECT start, end, deviceId, contextId, streamId, correlationId, graphNodeId, {more} FROM CUPTI_ACTIVITY_KIND_{table} "
                    "WHERE globalPid = (SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE processId = ?)"
                ):
                    self.work.append(dict(work, table=table, measured=self.measured.has(work["start"])))
        for work in self.work:
            if work["table"] == "KERNEL":
                names = (self.database.strings[work["shortName"]], self.database.strings[work["demangledName"]])
                work["name"] = names[0]
                work["tensor"] = any(on_tensor_cores(name.lower()) for name in names)
                work["communicates"] = any(sign in names[0] for sign in COMMUNICATION)
                work["blocks"] = work["gridX"] * work["gridY"] * work["gridZ"]
        own = {call["correlationId"] for call in self.rows("SELECT correlationId FROM SLIPSTREAM_CALLS WHERE processId = ? AND workIsOwn")}
        for work in self.work:
            work["own"] = work["correlationId"] in own
        self.device_numbers = sorted({work["deviceId"] for work in self.work})
        self.facts = {}
        if "TARGET_INFO_GPU" in self.database.tables:
            for device in self.rows(
                "SELECT deviceId, g.* FROM SLIPSTREAM_DEVICES JOIN TARGET_INFO_GPU g ON g.id = gpuId WHERE processId = ?"
            ):
                self.facts[device["deviceId"]] = device

    # ---- every moment
    def cut_time(self):
        covers = {}
        for device in self.device_numbers:
            of = [work for work in self.work if work["deviceId"] == device]
            kernels = [work for work in of if work["table"] == "KERNEL"]
            span = lambda works: Cover([(work["start"], work["end"]) for work in works])
            covers[device] = {
                "kernels": span(kernels),
                "copies": span(work for work in of if work["table"] != "KERNEL"),
                "talks": span(work for work in kernels if work["communicates"]),
                "computes": span(work for work in kernels if not work["communicates"]),
                "running": sorted((work["start"], work["end"], work["blocks"]) for work in kernels if work["end"] > work["start"]),
            }
        edges = set(self.own.edges() + self.others.edges() + self.measured.edges())
        edges.update(step[key] for step in self.steps for key in ("start", "end"))
        edges.update(call["start"] for call in self.calls)
        for cover in covers.values():
            for key in ("kernels", "copies", "talks", "computes"):
                edges.update(cover[key].edges())
            edges.update(edge for start, end, _ in cover["running"] for edge in (start, end))
        edges = sorted(edges)
        self.site_time, self.outside = {}, []
        self.device_times = {
            device: dict(kernels=0, copies=0, alone=0, talks=0, talks_alone=0, busy=0.0, idle=dict.fromkeys(HOST, 0), idle_pieces=[])
            for device in self.device_numbers
        }
        for start, end in zip(edges, edges[1:]):
            own, other = self.own.at(start), self.others.at(start)
            part = own["kind"] if own else "another_thread_in_calls" if other else "outside_of_calls"
            host = own["kind"] if own else other["kind"] if other else "outside_of_calls"
            talks = any(cover["talks"].has(start) for cover in covers.values())
            for step in self.steps:
                if step["start"] <= start and end <= step["end"]:
                    step["parts"][part] += end - start
                    step["communication"] += end - start if talks else 0
            if not self.measured.has(start):
                continue
            if own:
                self.site_time[own["siteId"]] = self.site_time.get(own["siteId"], 0) + end - start
            elif part == "outside_of_calls":
                self.outside.append((start, end))
            for device, cover in covers.items():
                busy = self.look_at(self.device_times[device], cover, self.facts.get(device), host, start, end - start)
                if not busy:
                    self.device_times[device]["idle_pieces"].append((start, end, host, own or other))

    @staticmethod
    def look_at(times, cover, facts, host, start, length):
        copies, kernels = cover["copies"].has(start), cover["kernels"].has(start)
        times["copies"] += length if copies else 0
        if cover["talks"].has(start):
            times["talks"] += length
            times["talks_alone"] += 0 if cover["computes"].has(start) else length
        if kernels:
            times["kernels"] += length
            if facts is not None:
                blocks = sum(blocks for begin, end, blocks in cover["running"] if begin <= start < end)
                times["busy"] += length * min(1.0, blocks / facts["smCount"])
        elif copies:
            times["alone"] += length
        else:
            times["idle"][host] += length
        return kernels or copies

    def communication(self):
        if self.unwatched_everywhere:
            return 0
        return max((times["talks"] for times in self.device_times.values()), default=0)

    # ---- the tree
    def tree(self, devices, copies):
        row = self.row
        ahead = self.ahead_tree()
        name = row["executable"].rsplit("/", 1)[-1] + f" (pid {row['pid']}" + (f", rank {row['rank']})" if row["rank"] is not None else ")")
        return {
            "name": name,
            "pid": row["pid"],
            "rank": row["rank"],
            "local_rank": row["localRank"],
            "world_size": row["worldSize"],
            "host": row["hostName"],
            "executable": row["executable"],
            "command": row["command"],
            "spool": row["spoolFile"],
            "first_ns": row["firstNs"],
            "last_ns": row["lastNs"],
            "calls": row["calls"],
            "wall": self.wall_tree(),
            "steps": self.steps_tree(),
            "devices": (
                [self.device_tree(device, devices, copies) for device in self.device_numbers] if not self.unwatched_everywhere else []
            ),
            "ranges": self.ranges_tree(devices),
            "sites": self.sites_tree(),
            "decisions": self.decisions_tree(),
            "ahead": ahead,
            "gains": self.gains_tree(ahead),
            "pool_calls": {"cudaMalloc": self.pool_tree("cudaMalloc"), "cudaFree": self.pool_tree("cudaFree")},
            "memory": self.memory_tree(),
            "held_memory": self.held_tree(),
            "copy_calls_by_size": sizes_tree(
                (call["bytes"], call["end"] - call["start"]) for call in self.calls if call["measured"] and call["kind"] == "copies"
            ),
            "device_copies_by_kind_and_size": self.device_sizes(),
            "not_seen": self.not_seen_tree(),
        }

    def device_sizes(self):
        if self.unwatched_everywhere:
            return {}
        # Within a device only slipstream moves what the program did not ask to be moved.
        of_program = lambda work: not (work["own"] and work["copyKind"] == 8)
        works = [work for work in self.work if work["table"] == "MEMCPY" and work["measured"] and of_program(work)]
        return {
            str(kind): sizes_tree((work["bytes"], work["end"] - work["start"]) for work in works if work["copyKind"] == kind)
            for kind in sorted({work["copyKind"] for work in works})
        }

    def count_calls_of_steps(self):
        outside = 0
        for call in self.calls:
            inside = [step for step in self.steps if step["start"] <= call["start"] < step["end"]]
            outside += not inside
            for step in inside:
                step["calls" if call["own"] else "elsewhere"] += 1
        return outside

    def steps_tree(self):
        self.calls_outside = self.count_calls_of_steps()
        line = None
        if self.has_steps and self.steps[0]["siteId"] is not None:
            file, number, function = self.database.sites[self.steps[0]["siteId"]]
            line = f"{file}:{number} ({function})"
        thread = self.rows("SELECT name FROM SLIPSTREAM_THREADS WHERE processId = ? AND thread = ?", self.thread)
        uses = [step["use"] for step in self.steps]
        of = lambda key: distribution([key(step) for step in self.measured_steps])
        time = lambda step: step["end"] - step["start"]
        parts = {part: of(lambda step: step["parts"][part]) for part in PARTS}
        return {
            "found": self.has_steps,
            "line": line,
            "thread": self.thread,
            "thread_name": thread[0]["name"] if thread else None,
            "measured": len(self.measured_steps) if self.has_steps else 0,
            "warm_up": uses.count("warm_up"),
            "with_dropped_records": uses.count("dropped_records"),
            "with_devices_not_recorded": uses.count("devices_not_recorded"),
            "with_unknown_end": uses.count("end_not_known"),
            "with_host_running_ahead": uses.count("host_ran_ahead"),
            "all_have_host_running_ahead": self.ran_ahead,
            "waited_after_ns": self.waited_after,
            "why_none": None,
            **self.paces_tree(),
            **self.slow_tree(parts),
            "all_have_devices_not_recorded": self.unwatched_everywhere,
            "all_have_dropped_records": self.drops_everywhere,
            "measured_ns": self.measured_ns,
            "time": of(time),
            "work_time": of(lambda step: step["work_time"]),
            "time_before_devices_were_recorded": distribution(self.before_devices) if self.before_devices else None,
            "time_outside_waits": of(lambda step: time(step) - step["parts"]["copies"] - step["parts"]["synchronizes"]),
            "parts": parts,
            "steps": [
                {
                    "number": step["number"],
                    "start_ns": step["start"],
                    "time_ns": time(step),
                    "backlog_ns": step["backlog"],
                    "work_time_ns": step["work_time"],
                    "use": step["use"],
                    "calls": step["calls"],
                    "calls_of_other_threads": step["elsewhere"],
                    "parts_ns": step["parts"],
                }
                for step in self.steps
                if self.has_steps
            ],
        }

    def device_tree(self, device, kernels_known, copies_known):
        times, facts = self.device_times[device], self.facts.get(device)
        kernels = [work for work in self.work if work["deviceId"] == device and work["table"] == "KERNEL" and work["measured"]]
        share = lambda part, whole: part / whole if whole > 0 else None
        time = lambda works: sum(work["end"] - work["start"] for work in works)
        copies_or_none = lambda value: value if copies_known else None
        tree = {
            "device": device,
            "name": facts["name"] if facts else None,
            "sms": facts["smCount"] if facts else None,
            "copies_ns": copies_or_none(times["copies"]),
            "estimated_sm_efficiency": times["busy"] / self.measured_ns if facts and self.measured_ns else None,
            "estimated_achieved_occupancy": occupancy(kernels, facts) if facts else None,
            "tensor_core_share_by_name": share(time(work for work in kernels if work["tensor"]), time(kernels)),
            "kernels": len(kernels),
            "kernel_time_ns": time(kernels),
            "kernel_names": len({work["name"] for work in kernels}),
        }
        if kernels_known:
            tree.update(
                kernels_ns=times["kernels"],
                utilization=share(times["kernels"], self.measured_ns),
                copies_alone_ns=copies_or_none(times["alone"]),
                copies_beside_kernels_ns=copies_or_none(times["copies"] - times["alone"]),
                communication_ns=times["talks"],
                communication_alone_ns=times["talks_alone"],
                communication_overlapped_ns=times["talks"] - times["talks_alone"],
                computing_only_ns=times["kernels"] - times["talks"],
                kernel_lines=self.kernel_lines_tree(kernels),
                idle_by_line=self.idle_lines_tree(device),
                idle_ns_while_host_in=times["idle"],
                launch_bound=share(times["idle"]["launches"], self.measured_ns),
                host_bound=share(times["idle"]["outside_of_calls"], self.measured_ns),
            )
        names = {}
        for work in kernels:
            one = names.setdefault(work["name"], {"name": work["name"], "count": 0, "time_ns": 0, "tensor_cores_by_name": False})
            one["count"] += 1
            one["time_ns"] += work["end"] - work["start"]
            one["tensor_cores_by_name"] |= work["tensor"]
        tree["top_kernels"] = sorted(names.values(), key=lambda one: (-one["time_ns"], one["name"]))[:50]
        copies = {}
        labels = dict(self.database.connection.execute("SELECT id, label FROM ENUM_CUDA_MEMCPY_OPER"))
        for work in self.work:
            if work["deviceId"] == device and work["table"] != "KERNEL" and work["measured"]:
                one = copies.setdefault(
                    work["copyKind"],
                    {
                        "kind": labels.get(work["copyKind"], "Set"),
                        "count": 0,
                        "bytes": 0,
                        "time_ns": 0,
                        "slipstream_count": 0,
                        "slipstream_bytes": 0,
                        "slipstream_time_ns": 0,
                    },
                )
                one["count"] += 1
                one["bytes"] += work["bytes"]
                one["time_ns"] += work["end"] - work["start"]
                if work["own"]:
                    one["slipstream_count"] += 1
                    one["slipstream_bytes"] += work["bytes"]
                    one["slipstream_time_ns"] += work["end"] - work["start"]
        tree["copies"] = [copies[kind] for kind in sorted(copies)]
        return tree

    def sites_tree(self):
        sites = {}
        of = lambda call: sites.setdefault((call["own"], call["siteId"]), dict(calls=0, waiting=0, bytes=0, time=0, gap=0, functions={}))
        before = None
        starts = [start for start, _ in self.outside]
        for call in self.calls:
            site = of(call)
            if call["own"]:
                # Of the time outside, what lies since the thread's last call began.
                low = 0 if before is None else bisect.bisect_left(starts, before)
                site["gap"] += sum(end - start for start, end in self.outside[low : bisect.bisect_left(starts, call["start"])])
                before = call["start"]
            if not call["measured"]:
                continue
            site["calls"] += 1
            site["bytes"] += call["bytes"]
            site["time"] += 0 if call["own"] else call["end"] - call["start"]
            site["waiting"] += waits(call["name"]) and not (call["decided"] and returns_early(call["decision"]))
            site["functions"][call["nameId"]] = site["functions"].get(call["nameId"], 0) + 1
        tree = []
        for (own, number), site in sites.items():
            time = self.site_time.get(number, 0) if own else site["time"]
            if site["calls"] == time == site["gap"] == 0:
                continue
            file, line, function = self.database.sites[number] if number is not None else (None, None, None)
            functions = [{"name": plain(self.database.strings[name]), "calls": calls} for name, calls in site["functions"].items()]
            tree.append(
                {
                    "file": file,
                    "line": line,
                    "function": function,
                    "of_step_thread": own,
                    "time_ns": time,
                    "time_per_step_ns": time / self.divisor,
                    "outside_before_ns": site["gap"],
                    "calls": site["calls"],
                    "calls_per_step": site["calls"] / self.divisor,
                    "waiting_calls": site["waiting"],
                    "bytes": site["bytes"],
                    "functions": sorted(functions, key=lambda each: (-each["calls"], each["name"])),
                }
            )
        bytes_of = lambda text: (text or "").encode()
        return sorted(
            tree,
            key=lambda each: (
                -each["time_ns"],
                not each["of_step_thread"],
                bytes_of(each["file"]),
                each["line"] or -1,
                bytes_of(each["function"]),
            ),
        )

    def decisions_tree(self):
        sums = {}

        def add(name, size, saved, measured):
            one = sums.setdefault(name, dict(calls=0, measured_calls=0, bytes=0, measured_bytes=0, saved_ns=0, lost_ns=0))
            one["calls"] += 1
            one["bytes"] += size
            one["saved_ns"] += max(0, saved)
            one["lost_ns"] += max(0, -saved)
            one["measured_calls"] += measured
            one["measured_bytes"] += size if measured else 0

        events = self.rows("SELECT decisionId, time, bytes, savedNs FROM SLIPSTREAM_DECISION_EVENTS WHERE processId = ?")
        for event in events:
            add(self.database.strings[event["decisionId"]], event["bytes"], event["savedNs"], self.measured.has(event["time"]))
        for call in self.calls:
            if call["decided"] and (not events or call["decisionId"] is None):
                add(call["decision"] or "none", call["decisionBytes"], call["savedNs"], call["measured"])
        for one in sums.values():
            one["calls_per_step"] = one["measured_calls"] / self.divisor
        return [{"decision": name, **sums[name]} for name in sorted(sums, key=lambda name: (-sums[name]["calls"], name))]
