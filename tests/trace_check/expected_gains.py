"""What slipstream gained (docs/report.md, "What slipstream gained"): moment by moment, and by calls that the driver served."""

from cuda_names import is_skipped_wait, returns_early, skips
from measures import Cover, exponent_of

KINDS = (
    "skipped_synchronizations",
    "copies_to_device",
    "copies_to_host",
    "kept_blocks",
    "waits_made_up_for",
    "given_back_and_tried_again",
)
GIVEN_BACK = {"allocator.trimmed", "allocator.reclaimed", "allocator.retried", "transfer.gave_back"}
FEWEST = 3


def role_of(decision):
    """(kind, whether slipstream served it); None: neither gains nor tells what others gained."""
    engine, _, name = decision.partition(".")
    if engine == "transfer":
        if name.startswith("sync.skipped"):
            return "skipped_synchronizations", True
        if name in ("h2d.promoted.small", "h2d.promoted.large"):
            return "copies_to_device", True
        if name == "d2h.promoted":
            return "copies_to_host", True
        way, _, reason = name.partition(".declined.")
        if way == "h2d" and reason in ("starting", "no_memory", "full", "device", "threads"):
            return "copies_to_device", False
        return ("copies_to_host", False) if way == "d2h" and reason in ("staging", "device", "slower") else None
    if engine != "allocator":
        return None
    if name in ("reused", "reused.behind", "parked"):
        return "kept_blocks", True
    return ("kept_blocks", False) if name == "grown" or name.startswith(("passed.", "freed.")) else None


def lower_quartile(times):
    """Of times that keep six binary digits."""
    kept = sorted(time >> max(0, time.bit_length() - 6) << max(0, time.bit_length() - 6) for time in times)
    return kept[-(-len(kept) // 4) - 1]


class Gains:
    """Of a process of the report."""

    def gains_tree(self, ahead):
        rows = {kind: dict(calls=0, measured_calls=0, measured_ns=None, estimated_ns=None, estimated_calls=0) for kind in KINDS}
        served, driver, lost = {}, {}, 0
        for call in self.calls:
            if not call["decided"]:
                continue
            if (call["savedNs"] or 0) < 0:
                rows["waits_made_up_for"]["calls"] += 1
                rows["waits_made_up_for"]["measured_calls"] += call["measured"]
                lost -= call["savedNs"] if call["measured"] else 0
            role = role_of(call["decision"])
            if role is None or call["returnValue"] != 0:
                continue
            kind, is_served = role
            key = kind, call["nameId"], exponent_of(call["bytes"] or call["decisionBytes"])
            time = call["end"] - call["start"]
            idle = kind.startswith("copies") and call["measured"] and ahead is not None and self.idle(call["start"])
            if not is_served:
                if idle or kind.startswith("kept"):
                    driver.setdefault(key, []).append(time)
                continue
            rows[kind]["calls"] += 1
            rows[kind]["measured_calls"] += call["measured"]
            if call["measured"] and kind != "skipped_synchronizations" and (kind != "copies_to_host" or idle):
                served.setdefault(key, []).append(time)
        for (kind, name, size), times in served.items():
            like = driver.get((kind, name, size), [])
            if len(like) < FEWEST and kind.startswith("kept"):
                like = [time for key, some in driver.items() if key[:2] == (kind, name) for time in some]
            if len(like) < FEWEST:
                continue
            row = rows[kind]
            row["estimated_ns"] = (row["estimated_ns"] or 0) + len(times) * lower_quartile(like) - sum(times)
            row["estimated_calls"] += len(times)
        for decision in self.decisions_tree():
            if decision["decision"] in GIVEN_BACK:
                rows["given_back_and_tried_again"]["calls"] += decision["calls"]
                rows["given_back_and_tried_again"]["measured_calls"] += decision["measured_calls"]
        made_up = rows["waits_made_up_for"]
        if ahead is None:
            made_up["measured_ns"] = -lost if made_up["measured_calls"] else None
        else:
            self.measure(ahead, rows)
        total = lambda key: self.sum_of([row[key] for row in rows.values() if row[key] is not None])
        most = self.at_most(ahead)
        return {
            "rows": [dict(what=kind, **row) for kind, row in rows.items()],
            "measured_ns": total("measured_ns") if ahead is not None else None,
            "estimated_ns": total("estimated_ns"),
            "steps_shorter_by_at_most_ns": most,
            "skipped_waits": None if most is None else ahead["skipped_waits"],
        }

    @staticmethod
    def sum_of(values):
        return sum(values) if values else None

    def measure(self, ahead, rows):
        sums = dict(skipped_synchronizations=0, copies_to_device=0)
        for thread in {call["thread"] for call in self.calls}:
            self.put_down([call for call in self.calls if call["thread"] == thread], sums)
        if rows["skipped_synchronizations"]["calls"]:
            rows["skipped_synchronizations"]["measured_ns"] = sums["skipped_synchronizations"]
        if any(call["measured"] and call["kind"] == "copies" and is_skipped_wait(call) for call in self.calls):
            rows["copies_to_device"]["measured_ns"] = sums["copies_to_device"]
        if rows["waits_made_up_for"]["measured_calls"]:
            added = ahead["step_thread"]["added_wait_ns"] + ahead["other_threads"]["added_wait_ns"]
            rows["waits_made_up_for"]["measured_ns"] = -added

    def put_down(self, calls, sums):
        """Of a thread, each moment in which it went on, to the first wait that would have held it."""
        held, pieces, now = [], [], None  # held: from, until, by
        for call in calls:
            now = call["start"] if now is None else now
            start = max(call["start"], now)
            staged = call["kind"] == "copies" and returns_early(call["decision"])
            lost = max(0, -(call["savedNs"] or 0))
            may_wait = call["kind"] in ("synchronizes", "allocator") or call["kind"] == "copies" and not staged or lost > 0
            pieces.append((now, start))
            if not may_wait and start < call["end"]:
                pieces.append((start, call["end"]))
            now = max(now, call["end"])
            until = self.work_until(call) if is_skipped_wait(call) else None
            if until is not None:
                held.append((now, until, "copies_to_device" if staged else "skipped_synchronizations"))
        for begin, end in pieces:
            cuts = sorted({begin, end, *(cut for start, until, _ in held for cut in (start, until) if begin < cut < end)})
            for a, b in zip(cuts, cuts[1:]):
                by = next((by for start, until, by in held if start <= a < until), None)
                if by is not None:
                    sums[by] += self.measured.within(a, b)

    def looks_at_work(self):
        """Whether anything of the run was skipped, so that work is looked at."""
        return any(skips(name) or returns_early(name) for name in self.database.strings.values())

    def all_asked(self):
        """Pieces of work as (when asked for, record)."""
        if not hasattr(self, "asked_at"):
            starts = {
                row["correlationId"]: row["start"]
                for row in self.database.rows("SELECT correlationId, start FROM CUPTI_ACTIVITY_KIND_RUNTIME")
            }
            self.asked_at = [(starts.get(work["correlationId"], work["start"]), work) for work in self.work]
        return self.asked_at

    def idle(self, time):
        return self.looks_at_work() and all(work["end"] <= time for asked, work in self.all_asked() if asked < time)

    def at_most(self, ahead):
        if ahead is None or ahead["stream_not_known"] or (self.row["worldSize"] or 1) > 1:
            return None
        if self.database.rows("SELECT count(*) AS count FROM SLIPSTREAM_PROCESSES")[0]["count"] > 1:
            return None
        first, last = (self.measured.merged[0][0], self.measured.merged[-1][1]) if self.measured.merged else (0, 0)
        streams = {(work["contextId"], work["streamId"]) for asked, work in self.all_asked() if work["end"] > first and asked < last}
        if len(streams) > 1 and self.looks_at_work():
            return None
        waits = []
        for call in self.calls:
            until = self.work_until(call) if is_skipped_wait(call) else None
            if until is not None:
                waits.append((call["start"], until))
        ahead = sum(self.measured.within(start, end) for start, end in Cover(waits).merged)
        return ahead + sum(max([0, *(until - end for start, until in waits if start < end)]) for _, end in self.measured.merged)
