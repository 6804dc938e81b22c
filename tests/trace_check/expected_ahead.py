"""How long the host went on while work was running that it would have waited for (docs/report.md, "How long the host went on")."""

from cuda_names import is_skipped_wait, plain, returns_early

HOST = ("copies", "synchronizes", "allocator", "launches", "other_calls", "outside_of_calls")


class Ahead:
    """Of a process of the report."""

    def ahead_tree(self):
        if not self.devices_recorded or self.unwatched_everywhere:
            return None
        result = {"skipped_waits": 0, "behind_running_work": 0, "stream_not_known": 0}
        ends = {}  # by thread: from when to when it is ahead
        for call in self.calls:
            if not is_skipped_wait(call):
                continue
            until = self.work_until(call)
            if until is not None:
                ends.setdefault(call["thread"], []).append((call["end"], until))
            if call["measured"]:
                result["skipped_waits"] += 1
                result["stream_not_known"] += until is None
                result["behind_running_work"] += until is not None and until > call["end"]
        for key, own in (("step_thread", True), ("other_threads", False)):
            sums = dict(went_on=dict.fromkeys(HOST, 0), later=0, added=0)
            for thread in {call["thread"] for call in self.calls if call["own"] == own}:
                self.go_on(thread, ends.get(thread, []), sums)
            went_on = sum(sums["went_on"].values())
            result[key] = {
                "went_on_ns": went_on,
                "went_on_per_step_ns": went_on / self.divisor,
                "went_on_ns_while_host_in": sums["went_on"],
                "waited_later_ns": sums["later"],
                "added_wait_ns": sums["added"],
                "net_ns": went_on - sums["added"],
            }
        return result

    def work_until(self, call):
        """When all work ends that was asked for before on the stream of a call; None: the stream is not known."""
        if not hasattr(self, "asked"):
            asked = {row["correlationId"]: row for row in self.rows(
                "SELECT correlationId, r.start, r.nameId, r.eventClass, c.stream, c.thread, d.decisionId FROM SLIPSTREAM_CALLS c "
                "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) LEFT JOIN SLIPSTREAM_DECISIONS d USING (correlationId) WHERE c.processId = ?")}  # fmt: skip
            self.asked = sorted(
                (
                    (
                        asked[work["correlationId"]]["start"] if work["correlationId"] in asked else work["start"],
                        work,
                        asked.get(work["correlationId"]),
                    )
                    for work in self.work
                ),
                key=lambda each: (each[0], each[1]["end"]),
            )
        handle_of = lambda stream, thread: (0 if stream == 1 else stream, thread if stream == 2 else 0)
        wanted = handle_of(call["stream"], call["thread"])
        destroyed = max(
            (
                c["start"]
                for c in self.calls
                if plain(c["name"]) == "cudaStreamDestroy" and handle_of(c["stream"], c["thread"]) == wanted and c["start"] < call["start"]
            ),
            default=None,
        )
        if wanted[0] in (0, 2) and len({work["contextId"] for work in self.work}) > 1:
            return None
        streams, graph_ends = set(), []
        for start, work, asking in self.asked:
            if (
                start >= call["start"]
                or asking is None
                or asking["eventClass"] != 0
                or handle_of(asking["stream"], asking["thread"]) != wanted
            ):
                continue
            if destroyed is not None and start < destroyed:
                continue
            name = plain(self.database.strings[asking["nameId"]]).lstrip("_")
            decision = self.database.strings.get(asking["decisionId"], "") if work["table"] == "MEMCPY" else ""
            elsewhere = decision.startswith("transfer.h2d.promoted.") or decision == "transfer.d2h.promoted"
            if work["graphNodeId"] is not None:
                graph_ends.append(work["end"])
            elif (
                name in ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cudaMemsetAsync", "cudaMemcpyAsync")
                and not elsewhere
            ):
                streams.add((work["contextId"], work["streamId"]))
        if len(streams) > 1 or not streams and not graph_ends:
            return None
        ends = [
            work["end"]
            for start, work, _ in self.asked
            if start < call["start"] and work["graphNodeId"] is None and (work["contextId"], work["streamId"]) in streams
        ]
        return max(graph_ends + ends)

    def go_on(self, thread, ends, sums):
        """Adds up what a thread did while it was ahead, call by call."""
        until = now = None
        calls = [call for call in self.calls if call["thread"] == thread]
        waited = {end: max(u for e, u in ends if e == end) for end, _ in ends}
        for call in calls:
            if now is None:
                now = until = call["start"]
            start = max(call["start"], now)
            ahead = lambda a, b: self.measured.within(a, min(b, until)) if min(b, until) > a else 0
            sums["went_on"]["outside_of_calls"] += ahead(now, start)
            staged = call["kind"] == "copies" and returns_early(call["decision"])
            lost = max(0, -(call["savedNs"] or 0))
            may_wait = call["kind"] in ("synchronizes", "allocator") or call["kind"] == "copies" and not staged or lost > 0
            inside = ahead(start, call["end"])
            if may_wait:
                sums["later"] += inside
            else:
                sums["went_on"][call["kind"]] += inside
            if lost > inside and self.measured.has(start):
                sums["added"] += lost - inside
            now = max(now, call["end"])
            if is_skipped_wait(call) and call["end"] in waited:
                until = max(until, waited[call["end"]])
