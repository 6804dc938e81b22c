"""Which lines of the program a device's time belongs to, the program's own ranges, and the verdict (docs/report.md)."""

import bisect

from expected_ahead import HOST
from measures import Cover, union

START_END, PUSH_POP = 60, 59
NAMES_OF_STEPS = "ProfilerStep#"


def text_order(text):
    return (text or "").encode()


def line_order(each):
    return (not each["of_step_thread"], text_order(each["file"]), -1 if each["line"] is None else each["line"], text_order(each["function"]))


class Lines:
    """Of a process of the report."""

    def line(self, site, own):
        file, line, function = self.database.sites[site] if site is not None else (None, None, None)
        return {"file": file, "line": line, "function": function or None, "of_step_thread": own}

    def idle_lines_tree(self, device):
        # Cut where calls begin, so that no piece has a call within it.
        starts = [call["start"] for call in self.calls]
        sums = {}
        for start, end, host, call in self.device_times[device]["idle_pieces"]:
            if call is None:
                at = bisect.bisect_left(starts, end)
                call = self.calls[at] if at < len(starts) else None
            key = (host, call["siteId"], call["own"]) if call is not None else (host, None, None)
            sums[key] = sums.get(key, 0) + end - start
        tree = []
        for (host, site, own), time in sums.items():
            before = host == "outside_of_calls" and own is not None
            tree.append(dict(self.line(site, own), while_host_in=host, before_its_calls=before, time_ns=time))
        return sorted(
            tree,
            key=lambda each: (
                -each["time_ns"],
                HOST.index(each["while_host_in"]),
                each["of_step_thread"] is None,
                line_order(each),
            ),
        )

    def kernel_lines_tree(self, kernels):
        calls = {
            call["correlationId"]: call
            for call in self.rows("SELECT correlationId, siteId, thread FROM SLIPSTREAM_CALLS WHERE processId = ?")
        }
        sums = {}
        for work in kernels:
            call = calls.get(work["correlationId"])
            key = (True, call["siteId"], call["thread"] == self.thread) if call else (False, None, None)
            one = sums.setdefault(key, {"count": 0, "time_ns": 0, "names": {}})
            time = work["end"] - work["start"]
            one["count"] += 1
            one["time_ns"] += time
            one["names"][work["name"]] = one["names"].get(work["name"], 0) + time
        tree = []
        for (known, site, own), one in sums.items():
            name = min(one["names"], key=lambda each: (-one["names"][each], text_order(each)))
            tree.append(
                dict(
                    self.line(site, own),
                    call_known=known,
                    count=one["count"],
                    time_ns=one["time_ns"],
                    top_kernel=name,
                    top_kernel_time_ns=one["names"][name],
                )
            )
        return sorted(tree, key=lambda each: (-each["time_ns"], not each["call_known"], line_order(each)))

    def ranges_tree(self, kernels_known):
        kernels_known = kernels_known and not self.unwatched_everywhere
        events = []
        if "NVTX_EVENTS" in self.database.tables:
            events = self.rows(
                "SELECT start, end, globalTid, coalesce(value, text) AS name, textId, domainId FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId "
                "WHERE globalTid & ~16777215 = (SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE processId = ?) "
                f"AND eventType IN ({PUSH_POP}, {START_END}) AND end IS NOT NULL"
            )
        steps = {(step["start"], step["end"]) for step in self.rows("SELECT start, end FROM SLIPSTREAM_STEPS WHERE processId = ?")}
        # Of the names here only one is that of steps; a row without an id of its name stands for a step.
        are_steps = [event for event in events if (event["start"], event["end"]) in steps]
        named = any((event["name"] or "").startswith(NAMES_OF_STEPS) for event in are_steps)
        ranges = {}
        for event in events:
            name = event["name"] or ""
            if (event["textId"] is None and event in are_steps) or (named and name.startswith(NAMES_OF_STEPS)):
                continue
            if self.measured.has(event["start"]) or self.measured.within(event["start"], event["end"]):
                ranges.setdefault((name, event["domainId"]), []).append(event)
        launches = self.launches() if kernels_known else []
        tree = []
        for (name, domain), of in ranges.items():
            by_thread = {}
            for event in of:
                by_thread.setdefault(event["globalTid"], []).append((event["start"], event["end"]))
            time = sum(self.measured.within(start, end) for each in by_thread.values() for start, end in union(each))
            covers = {thread: Cover(each) for thread, each in by_thread.items()}
            launched = [
                time for start, threads, time in launches if any(thread in covers and covers[thread].has(start) for thread in threads)
            ]
            tree.append(
                {
                    "name": name,
                    "domain": None if domain == 0 else f"domain {domain}",
                    "count": sum(self.measured.has(event["start"]) for event in of),
                    "time_ns": time,
                    "time_per_step_ns": time / self.divisor,
                    "kernels": len(launched) if kernels_known else None,
                    "kernel_time_ns": sum(launched) if kernels_known else None,
                }
            )
        tree.sort(key=lambda each: (-each["time_ns"], text_order(each["name"]), text_order(each["domain"])))
        return {"names": tree, "left_out": 0}

    def launches(self):
        """When a kernel was launched, for the ranges of which threads, and how long it ran."""
        threads = self.rows("SELECT thread, globalTid FROM SLIPSTREAM_THREADS WHERE processId = ?")
        of_steps = next((each["globalTid"] for each in threads if each["thread"] == self.thread), None)
        calls = {
            call["correlationId"]: call
            for call in self.rows(
                "SELECT correlationId, r.start, r.globalTid, siteIsBackward FROM SLIPSTREAM_CALLS "
                "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) WHERE processId = ?"
            )
        }
        found = []
        for work in self.work:
            call = calls.get(work["correlationId"])
            if work["table"] != "KERNEL" or call is None or not self.measured.has(call["start"]):
                continue
            also = {of_steps} if call["siteIsBackward"] else set()
            found.append((call["start"], {call["globalTid"]} | also, work["end"] - work["start"]))
        return found


# ---- the verdict, from the other figures


def verdict(root, processes):
    """The rules of docs/report.md, "The verdict"."""
    process, tree = processes[root["shown_process"]], root["processes"][root["shown_process"]]
    row = process.row
    result = {
        "process": root["shown_process"],
        "records_missing": bool(
            row["dropped"]
            or row["leftBytes"]
            or row["damagedBytes"]
            or row["missingChunks"]
            or row["missingRecords"]
            or row["malformedChunks"]
            or row["skippedRecords"] + row["skippedChunks"]
            or process.drops_everywhere
        ),
        "device": None,
        "part": None,
        "kernels_ns": None,
        "most_at": None,
    }
    whole, per_step = process.measured_ns, None
    if whole <= 0:
        return result
    if root["kernels_recorded"] and tree["devices"]:
        device = max(tree["devices"], key=lambda each: each["kernels_ns"])
        result.update(device=device["device"], kernels_ns=device["kernels_ns"])
        losses = [("exposed_communication", device["communication_alone_ns"]), ("exposed_copies", device["copies_alone_ns"] or 0)]
        losses += [(host, device["idle_ns_while_host_in"][host]) for host in HOST]
        kind, time = max(losses, key=lambda each: each[1])
        if device["kernels_ns"] - device["communication_alone_ns"] > 0.9 * whole or time < 0.05 * whole:
            kind, time = "gpu_bound", device["kernels_ns"]
            lines = [each for each in device["kernel_lines"] if each["file"] is not None]
        else:
            lines = [each for each in device["idle_by_line"] if each["while_host_in"] == kind and each["file"] is not None]
        if lines:
            keys = ("file", "line", "function", "of_step_thread", "time_ns")
            result["most_at"] = {key: lines[0][key] for key in keys}
            result["most_at"]["before_its_calls"] = kind == "outside_of_calls"
    else:
        parts = {part: of["total_ns"] for part, of in tree["steps"]["parts"].items()}
        part = max(parts, key=lambda each: parts[each])
        kind, time, whole = "devices_not_known", parts[part], tree["steps"]["time"]["total_ns"]
        result["part"] = part
        sites = [each for each in tree["sites"] if each["file"] is not None and each["outside_before_ns"] > 0]
        if part == "outside_of_calls" and sites:
            most = max(sites, key=lambda each: each["outside_before_ns"])
            keys = ("file", "line", "function", "of_step_thread")
            result["most_at"] = dict({key: most[key] for key in keys}, time_ns=most["outside_before_ns"], before_its_calls=True)
    divisor = process.divisor
    if process.ran_ahead and result["device"] is not None and tree["steps"]["work_time"]["mean_ns"] > 0:
        divisor = process.measured_ns / tree["steps"]["work_time"]["mean_ns"]
    per_step = time / divisor
    between, pace = tree["steps"]["between"], tree["steps"]["start_to_start"]
    if between and pace and between["mean_ns"] > 0.05 * pace["mean_ns"] and (kind == "gpu_bound" or between["mean_ns"] > per_step):
        kind, time, whole, per_step = "between_steps", between["total_ns"], pace["total_ns"], between["mean_ns"]
        most = [part["most_at"] for part in tree["wall"]["parts"] if part["part"] == "between_steps"]
        result["most_at"] = dict(most[0], of_step_thread=True) if most and most[0] else None
    result.update(bottleneck=kind, time_ns=time, share=time / whole, time_per_step_ns=per_step)
    result["kind"] = "slow_rank" if root["slowest"] else kind if process.has_steps else "no_steps"
    return result
