"""Memory of devices: the pools' calls and readings, and who had how much."""

from cuda_names import plain
from measures import exponent_of, rank


def holder_of(block):
    return block["siteId"] or 0, block["libraryId"] or 0


class Memory:
    """Of a process of the report."""

    def pool_tree(self, function):
        times = {True: [], False: []}
        for call in self.calls:
            if call["decision"].startswith("allocator.") and call["returnValue"] == 0 and plain(call["name"]) == function:
                times[call["decision"] in ("allocator.reused", "allocator.reused.behind", "allocator.parked")].append(
                    call["end"] - call["start"]
                )
        tree = {}
        for served, name in ((True, "served"), (False, "driver")):
            tree.update(
                {
                    name: len(times[served]),
                    f"{name}_ns": sum(times[served]),
                    f"{name}_median_ns": rank(times[served], 50) if times[served] else None,
                }
            )
        return tree

    def step_at(self, time):
        return next((step["number"] for step in self.steps if self.has_steps and step["start"] <= time < step["end"]), None)

    def memory_tree(self):
        part = max(1, (self.last - self.first) // 400 + 1)
        pools = {}
        for reading in self.rows(
            "SELECT deviceId, start, liveBytes, idleBytes, trims, retries, largestIdleBytes FROM SLIPSTREAM_MEMORY WHERE processId = ? ORDER BY start"
        ):
            pools.setdefault(reading["deviceId"], []).append(reading)
        tree = []
        for device in sorted(pools):
            readings = pools[device]
            both = lambda reading: reading["liveBytes"] + reading["idleBytes"]
            peak = max(readings, key=both)
            points = {}
            for reading in readings:
                points.setdefault(int(reading["start"] / part) if reading["start"] < 0 else reading["start"] // part, []).append(reading)
            highest = [max(some, key=both) for some in points.values()]
            tree.append(
                {
                    "device": device,
                    "peak_live_bytes": max(reading["liveBytes"] for reading in readings),
                    "peak_idle_bytes": max(reading["idleBytes"] for reading in readings),
                    "peak_bytes": both(peak),
                    "peak_at_ns": peak["start"],
                    "peak_in_step": self.step_at(peak["start"]),
                    "peak_largest_idle_bytes": peak["largestIdleBytes"],
                    "fragmentation": self.fragmentation() if len(pools) == 1 else None,
                    "last_live_bytes": readings[-1]["liveBytes"],
                    "last_idle_bytes": readings[-1]["idleBytes"],
                    "trims": max(reading["trims"] for reading in readings),
                    "retries": max(reading["retries"] for reading in readings),
                    "readings": len(readings),
                    "points_ns_live_idle": [[reading["start"], reading["liveBytes"], reading["idleBytes"]] for reading in highest],
                }
            )
        return tree

    def fragmentation(self):
        """Of the one pool: what was idle when an allocation went to the driver."""
        if "SLIPSTREAM_DECISION_EVENTS" not in self.database.tables:
            return None
        pieces = lambda size: (size + (2 << 20) - 1) // (2 << 20) * (2 << 20) if size > 1 << 20 else size
        taking = ("allocator.reused", "allocator.reused.behind", "allocator.trimmed", "allocator.reclaimed")
        tree = dict.fromkeys(("from_driver", "from_driver_bytes", "not_fitting", "not_fitting_bytes", "tried_again", "refused"), 0)
        shortages = []
        idle = before = largest = None
        for row in self.rows(
            "SELECT time, 0 AS what, value, bytes, NULL AS largest, e.rowid AS place FROM SLIPSTREAM_DECISION_EVENTS e JOIN StringIds ON "
            "id = decisionId WHERE processId = ?1 UNION ALL SELECT start, 1, '', idleBytes, largestIdleBytes, rowid FROM SLIPSTREAM_MEMORY "
            "WHERE processId = ?1 ORDER BY time, what, place"
        ):
            name, size = row["value"], row["bytes"]
            if row["what"] == 1:
                idle, largest, before = size, row["largest"], None
                continue
            released = name in ("allocator.trimmed", "allocator.reclaimed")
            if released and before is None:
                before = idle
            if name in taking:
                idle = None if idle is None else max(0, idle - pieces(size))
            elif name in ("allocator.parked", "allocator.reserved"):
                idle = None if idle is None else idle + size
            elif name == "allocator.grown":
                tree["from_driver"] += 1
                tree["from_driver_bytes"] += size
                if size and (idle or 0) >= size:
                    tree["not_fitting"] += 1
                    tree["not_fitting_bytes"] += size
            elif name in ("allocator.retried", "allocator.passed.memory"):
                tree["tried_again" if name == "allocator.retried" else "refused"] += 1
                shortages.append(
                    {
                        "at_ns": row["time"],
                        "in_step": self.step_at(row["time"]),
                        "decision": name,
                        "bytes": size,
                        "idle_bytes": idle if before is None else before,
                        "largest_idle_bytes": largest,
                    }
                )
            else:
                continue
            if not released:
                before = None
        return {**tree, "shortages": shortages[:20]}

    def device_use(self, device, peak_at, events):
        """What the driver said up to the peak, and the blocks that there were then."""
        said = self.rows(
            "SELECT start, deviceUsedBytes, idleBytes FROM SLIPSTREAM_MEMORY WHERE processId = ? AND deviceId = ? AND start <= ? "
            "AND deviceUsedBytes IS NOT NULL ORDER BY start DESC LIMIT 1",
            device,
            peak_at,
        )
        if not said:
            return None
        at, used, idle = said[0]["start"], said[0]["deviceUsedBytes"], said[0]["idleBytes"]
        held = 0
        for time, of, _, by_holder in events:
            if time <= at and of == device:
                held = sum(by_holder.values())
        return {"at_ns": at, "used_bytes": used, "block_bytes": held, "idle_bytes": idle, "rest_bytes": used - held - idle}

    def over_time(self, device, holders, events):
        part = max(1, (self.last - self.first) // 60 + 1)
        column_of = lambda time: min(59, max(0, time - self.first) // part)
        rows = [[0] * 60 for _ in range(1 + len(holders))]
        now, at = None, 0

        def mark():
            for row, value in zip(rows, now or ()):
                row[at] = max(row[at], value)

        def up_to(column):
            nonlocal at
            while at < column:
                at += 1
                mark()

        for time, of, is_drawn, by_holder in events:
            if of != device or not is_drawn:
                continue
            up_to(column_of(time))
            now = [sum(by_holder.values()), *(by_holder.get(holder, 0) for holder in holders)]
            mark()
        up_to(column_of(self.last))
        return {"from_ns": self.first, "part_ns": part, "highest_bytes": rows[0], "highest_bytes_of_holders": rows[1:]}

    def held_tree(self):
        events = self.rows(
            "SELECT time, event, kind, address, bytes, stream, deviceId, siteId, libraryId, nameId FROM SLIPSTREAM_ALLOCATIONS WHERE processId = ? "
            "ORDER BY time, event DESC"
        )
        blocks, unknown, unseen, resets = {}, 0, 0, 0
        devices = {}  # number: highest so far and who had it, what is there now
        changes = []  # time, device, whether the event is about it, its bytes by holder from then on

        def changed(time, device, is_drawn=True):
            by_holder = {}
            for block in blocks.values():
                if block["deviceId"] == device and block["kind"] != 1:
                    by_holder[holder_of(block)] = by_holder.get(holder_of(block), 0) + block["bytes"]
            changes.append((time, device, is_drawn, by_holder))

        for event in events:
            key = (event["kind"], event["address"])
            device = event["deviceId"]
            if event["event"] == 3:
                # Of the device that was current, which the trace does not know where several have memory.
                on = {block["deviceId"] for block in blocks.values() if block["kind"] != 1}
                if len(on) > 1:
                    resets += 1
                else:
                    blocks.clear()
                    for number in on:
                        changed(event["time"], number)
                continue
            if event["event"] == 2:
                if key not in blocks:
                    unknown += 1
                gone = blocks.pop(key, None)
                if gone and gone["kind"] != 1:
                    changed(event["time"], gone["deviceId"])
                continue
            gone = blocks.get(key)
            if gone:
                unseen += 1
            blocks[key] = event
            if event["kind"] == 1:
                continue
            if gone and gone["deviceId"] != device:
                changed(event["time"], gone["deviceId"], is_drawn=False)
            changed(event["time"], device)
            mine = [block for block in blocks.values() if block["deviceId"] == device and block["kind"] != 1]
            held = devices.setdefault(device, {"allocations": 0, "peak": 0, "blocks": [], "time": 0})
            held["allocations"] += 1
            total = sum(block["bytes"] for block in mine)
            if total > held["peak"]:
                held.update(peak=total, blocks=mine, time=event["time"])
        tree = []
        for device in sorted(devices, key=lambda number: -1 if number is None else number):
            held = devices[device]
            now = [block for block in blocks.values() if block["deviceId"] == device and block["kind"] != 1]
            pool = self.rows(
                "SELECT liveBytes, idleBytes FROM SLIPSTREAM_MEMORY WHERE processId = ? AND deviceId = ? AND start <= ? ORDER BY start DESC LIMIT 1",
                device,
                held["time"],
            )
            tree.append(
                {
                    "device": device,
                    "peak_bytes": held["peak"],
                    "peak_blocks": len(held["blocks"]),
                    "peak_at_ns": held["time"],
                    "peak_in_step": self.step_at(held["time"]),
                    "pool_live_bytes_then": pool[0]["liveBytes"] if pool else None,
                    "pool_idle_bytes_then": pool[0]["idleBytes"] if pool else None,
                    "device_use_then": self.device_use(device, held["time"], changes),
                    "over_time": self.over_time(device, self.highest_holders(held["blocks"])[:3], changes),
                    "last_bytes": sum(block["bytes"] for block in now),
                    "last_blocks": len(now),
                    "allocations": held["allocations"],
                    "at_peak": self.at_peak(held["blocks"]),
                }
            )
        return {
            "devices": tree,
            "freed_and_not_seen_allocated": unknown,
            "allocated_and_not_seen_freed": unseen,
            "resets_of_unknown_device": resets,
        }

    def highest_holders(self, blocks):
        held = {}
        for block in blocks:
            held[holder_of(block)] = held.get(holder_of(block), 0) + block["bytes"]
        return sorted(held, key=lambda holder: (-held[holder], holder))

    def library(self, number):
        if number is None:
            return None
        return self.database.strings[number] or self.row["executable"]

    def at_peak(self, blocks):
        def sums(key):
            found = {}
            for block in blocks:
                one = found.setdefault(key(block), {"bytes": 0, "blocks": 0})
                one["bytes"] += block["bytes"]
                one["blocks"] += 1
            return found

        holders = sums(holder_of)
        trees = []
        for (site, library), total in sorted(holders.items(), key=lambda each: (-each[1]["bytes"], each[0])):
            file, line, function = self.database.sites[site] if site else (None, None, None)
            trees.append({"file": file, "line": line, "function": function, "library": self.library(library or None), **total})
        by_bytes = lambda found: sorted(found.items(), key=lambda each: (-each[1]["bytes"], (each[0] or "").encode()))
        return {
            "holders": trees,
            "libraries": [{"library": name, **total} for name, total in by_bytes(sums(lambda block: self.library(block["libraryId"])))],
            "functions": [
                {"function": name, **total} for name, total in by_bytes(sums(lambda block: self.database.strings[block["nameId"]]))
            ],
            "streams": [{"stream": stream, **total} for stream, total in sorted(sums(lambda block: block["stream"]).items())],
            "sizes": [
                {"at_least_bytes": 1 << power, **total}
                for power, total in sorted(sums(lambda block: exponent_of(max(1, block["bytes"]))).items())
            ],
        }
