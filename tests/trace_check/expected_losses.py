"""What a report does not see, and says so (docs/report.md, "Not seen")."""

from cuda_names import NOT_READY, kind_of, plain


def no_work():
    return dict(kernels=0, copies_and_sets=0, time_ns=0, synchronizations=0, synchronizations_host_ns=0)


class Losses:
    """Of a process of the report."""

    def fact(self, key):
        found = self.rows("SELECT value FROM SLIPSTREAM_FACTS WHERE processId = ? AND key = ?", key)
        return found[0]["value"] if found else None

    def not_seen_tree(self):
        row = self.row
        work = self.rows("SELECT kernels, unattributed FROM SLIPSTREAM_DEVICE_WORK WHERE processId = ?")
        libraries = {}
        callers = {
            call["correlationId"]: self.database.strings[call["libraryId"]]
            for call in self.rows("SELECT correlationId, libraryId FROM SLIPSTREAM_CALLS WHERE processId = ? AND libraryId IS NOT NULL")
        }
        for each in self.work:
            if each["correlationId"] in callers:
                one = libraries.setdefault(callers[each["correlationId"]], no_work())
                one["kernels" if each["table"] == "KERNEL" else "copies_and_sets"] += 1
                one["time_ns"] += each["end"] - each["start"]
        for call in self.calls:
            if call["correlationId"] in callers and kind_of(call["name"]) == "synchronizes":
                one = libraries.setdefault(callers[call["correlationId"]], no_work())
                one["synchronizations"] += 1
                one["synchronizations_host_ns"] += call["end"] - call["start"]
        errors = {}
        for call in self.calls:
            if call["returnValue"] not in (0, NOT_READY):
                key = (plain(call["name"]), call["returnValue"])
                errors[key] = errors.get(key, 0) + 1
        measured = [call for call in self.calls if call["measured"]]
        return {
            "intercept": self.fact("intercept"),
            "past_every_hook": [
                {"library": name or None, **libraries[name]}
                for name in sorted(libraries, key=lambda name: (-libraries[name]["time_ns"], name))
            ],
            "all_kernels": work[0]["kernels"] if work else 0,
            "device_work_without_call": work[0]["unattributed"] if work else 0,
            "dropped_records": row["dropped"],
            "dropped_records_of_step_thread": self.dropped[True],
            "dropped_records_of_other_threads": self.dropped[False],
            "gaps": self.gaps,
            "complete": bool(row["complete"]),
            "end_reason": row["endReason"],
            "left_bytes": row["leftBytes"],
            "left_why": row["leftWhy"],
            "damaged_bytes": row["damagedBytes"],
            "missing_chunks": row["missingChunks"],
            "missing_records": row["missingRecords"],
            "malformed_chunks": row["malformedChunks"],
            "newer_records": row["skippedRecords"] + row["skippedChunks"],
            "found_no_room": {
                fact["key"]: int(fact["value"])
                for fact in self.rows("SELECT key, value FROM SLIPSTREAM_FACTS WHERE processId = ? AND key LIKE '%.refused'")
            },
            "measured_calls": len(measured),
            "why_no_lines": None,
            "why_no_devices": None,
            "measured_calls_without_line": sum(call["siteId"] is None for call in measured),
            "calls_outside_steps": self.calls_outside if self.has_steps else None,
            # Those that are equally frequent are in no order.
            "failed_calls": sorted(
                ({"function": name, "code": code, "calls": calls} for (name, code), calls in errors.items()), key=failure_order
            ),
        }


def failure_order(failure):
    return (-failure["calls"], failure["function"], failure["code"])
