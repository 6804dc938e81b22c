"""Memory of devices: the pools' calls and readings, and who had how much."""

from cuda_names import plain
from measures import exponent_of, rank


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
            "SELECT deviceId, start, liveBytes, idleBytes, trims, retries FROM SLIPSTREAM_MEMORY WHERE processId = ? ORDER BY start"
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
                    "last_live_bytes": readings[-1]["liveBytes"],
                    "last_idle_bytes": readings[-1]["idleBytes"],
                    "trims": max(reading["trims"] for reading in readings),
                    "retries": max(reading["retries"] for reading in readings),
                    "readings": len(readings),
                    "points_ns_live_idle": [[reading["start"], reading["liveBytes"], reading["idleBytes"]] for reading in highest],
                }
            )
        return tree

    def held_tree(self):
        events = self.rows(
            "SELECT time, event, kind, address, bytes, stream, deviceId, siteId, libraryId, nameId FROM SLIPSTREAM_ALLOCATIONS WHERE processId = ? "
            "ORDER BY time, event DESC"
        )
        blocks, unknown, unseen, resets = {}, 0, 0, 0
        devices = {}  # number: highest so far and who had it, what is there now
        for event in events:
            key = (event["kind"], event["address"])
            device = event["deviceId"]
            if event["event"] == 3:
                # Of the device that was current, which the trace does not know where several have memory.
                if len({block["deviceId"] for block in blocks.values() if block["kind"] != 1}) > 1:
                    resets += 1
                else:
                    blocks.clear()
                continue
            if event["event"] == 2:
                if key not in blocks:
                    unknown += 1
                blocks.pop(key, None)
                continue
            if key in blocks:
                unseen += 1
            blocks[key] = event
            if event["kind"] == 1:
                continue
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

        holders = sums(lambda block: (block["siteId"] or 0, block["libraryId"] or 0))
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
