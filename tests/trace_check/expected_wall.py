"""The whole time of a process in parts, and its steps that took far longer (docs/report.md, "The whole time", "Steps that took far
longer").
"""

from measures import Cover, Lane, distribution, rank

PARTS = (
    "start_up", "steps_warm_up", "steps_measured", "steps_with_dropped_records", "steps_with_devices_not_recorded", "steps_with_unknown_end",
    "steps_with_host_running_ahead",
    "between_steps", "evaluation_perhaps", "checkpoint_perhaps", "other_phases", "after_last_step", "no_steps_known",
)  # fmt: skip
OF_USE = {
    "warm_up": "steps_warm_up", "measured": "steps_measured", "dropped_records": "steps_with_dropped_records",
    "devices_not_recorded": "steps_with_devices_not_recorded", "end_not_known": "steps_with_unknown_end",
    "host_ran_ahead": "steps_with_host_running_ahead",
}  # fmt: skip
TICK = 10_000_000
MOST_SLOW = 5


class Wall:
    """Of a process of the report."""

    def wall_tree(self):
        self.find_begin()
        self.lay_out()
        self.find_phases()
        spent = self.spend()
        parts = []
        whole = self.wall_end - self.wall_begin
        for part in PARTS:
            pieces = [piece for piece in self.pieces if piece["part"] == part]
            time = sum(piece["end"] - piece["start"] for piece in pieces)
            count = sum(OF_USE[step["use"]] == part for step in self.steps) if part in OF_USE.values() and self.has_steps else len(pieces)
            if time or count:
                share = time / whole if whole > 0 else None
                parts.append({"part": part, "time_ns": time, "share": share, "count": count, "most_at": self.most_of(part, time, spent)})
        return {
            "begin_ns": self.wall_begin,
            "end_ns": self.wall_end,
            "time_ns": whole,
            "from_process_start": self.from_start,
            "parts": parts,
        }

    def find_begin(self):
        self.wall_begin, self.from_start = self.row["firstNs"], False
        ticks = self.rows("SELECT value FROM SLIPSTREAM_FACTS WHERE processId = ? AND key = 'process_start_ticks'")
        clocks = self.rows("SELECT start, monotonicBeforeNs FROM SLIPSTREAM_CLOCKS WHERE processId = ? ORDER BY start LIMIT 1")
        if ticks and clocks:
            start = clocks[0]["start"] - clocks[0]["monotonicBeforeNs"] + int(ticks[0]["value"]) * TICK
            if start <= self.row["firstNs"]:
                self.wall_begin, self.from_start = start, True
        self.wall_end = max(self.wall_begin, self.row["lastNs"])

    def lay_out(self):
        """Pieces that follow on each other, from the beginning to the end."""
        self.pieces = []

        def piece(start, end, part):
            if start < end:
                self.pieces.append({"start": start, "end": end, "part": part})

        if not self.has_steps:
            first = max(self.row["firstNs"], self.wall_begin)
            piece(self.wall_begin, first, "start_up")
            piece(first, self.wall_end, "no_steps_known")
            return
        at = self.wall_begin
        for number, step in enumerate(self.steps):
            start = min(max(step["start"], at), self.wall_end)
            end = min(max(step["end"], start), self.wall_end)
            piece(at, start, "start_up" if number == 0 else "pause")
            step["pause"] = self.pieces[-1] if number != 0 and at < start else None
            piece(start, end, OF_USE[step["use"]])
            at = end
        piece(at, self.wall_end, "after_last_step")

    def find_phases(self):
        """Which pauses are none, in the order of time: what is usual is what was so far."""
        gaps = [max(0, step["start"] - last["end"]) for last, step in zip(self.steps, self.steps[1:])]
        times = [step["end"] - step["start"] for step in self.steps]
        long_from = 0 if self.steps_found else max(2 * rank(gaps, 50) if gaps else 0, rank(times, 50) // 2 if times else 0)
        usual, most_calls = set(), 0
        for piece in self.pieces:
            inside = [call for call in self.calls if piece["start"] <= call["start"] < piece["end"]]
            own = [call for call in inside if call["own"]]
            if piece["part"] == "pause":
                start, end = piece["start"], piece["end"]
                if any(hole < end and until >= start for hole, until in self.drops):
                    piece["part"] = "other_phases"
                elif end - start > long_from:
                    piece["part"] = self.phase_of(piece, inside, own, usual, most_calls)
                    continue  # its lines are not usual from now on
                else:
                    piece["part"] = "between_steps"
            if piece["part"] == "between_steps":
                most_calls = max(most_calls, len(own))
            if piece["part"] == "between_steps" or piece["part"] in OF_USE.values():
                usual.update(call["siteId"] for call in own)

    def phase_of(self, piece, inside, own, usual, most_calls):
        foreign = sum(call["siteId"] is not None and call["siteId"] not in usual for call in own)
        if not self.steps_found and foreign < 2 and len(own) < 8 + 2 * most_calls:
            return "between_steps"
        if any(call["kind"] == "launches" for call in inside):
            return "evaluation_perhaps" if foreign and len(own) >= 8 else "other_phases"
        of_device = {kind: sum(work["bytes"] for work in self.work if work["table"] == "MEMCPY" and work["copyKind"] == kind
                               and piece["start"] <= work["start"] < piece["end"]) for kind in (1, 2)}  # fmt: skip
        to_device, to_host = of_device[1], of_device[2]
        if not to_device and not to_host:
            copies = [call for call in inside if call["kind"] == "copies"]
            to_device = sum(call["bytes"] for call in copies if call["decision"].startswith("transfer.h2d."))
            to_host = sum(call["bytes"] for call in copies if call["decision"].startswith("transfer.d2h."))
        return "checkpoint_perhaps" if to_host > to_device else "other_phases"

    def spend(self):
        """The time of the thread that makes the steps, outside of them: by part and line, in calls and before them."""
        spent = {}
        until = self.wall_begin

        def add(start, end, site, place):
            for piece in self.pieces:
                if piece["part"] in OF_USE.values():
                    continue
                time = min(end, piece["end"]) - max(start, piece["start"])
                if time > 0:
                    spent.setdefault(piece["part"], {}).setdefault(site or 0, [0, 0])[place] += time

        for call in self.calls:
            if call["own"]:
                if call["start"] > until:
                    add(until, call["start"], call["siteId"], 1)
                if call["end"] > until:
                    add(max(until, call["start"]), call["end"], call["siteId"], 0)
                until = max(until, call["end"])
        return spent

    def most_of(self, part, time, spent):
        lines = spent.get(part, {})
        if not lines:
            return None
        site = max(sorted(lines), key=lambda each: sum(lines[each]))
        most = sum(lines[site])
        rest = time - sum(sum(both) for both in lines.values())
        if most <= 0 or most < rest or site == 0:
            return None
        return self.place(site, lines[site][1] > lines[site][0], most)

    def place(self, site, before, time):
        file, line, function = self.database.sites[site]
        return {"file": file, "line": line, "function": function, "before_its_calls": before, "time_ns": time}

    # ---- from one step to the next
    def paces_tree(self):
        pauses, paces = [], []
        for last, step in zip(self.steps, self.steps[1:]):
            pause = step.get("pause")
            if self.has_steps and step["use"] == last["use"] == "measured" and (pause is None or pause["part"] == "between_steps"):
                pauses.append(pause["end"] - pause["start"] if pause else 0)
                paces.append(step["start"] - last["start"])
        return {
            "between": distribution(pauses) if pauses and not self.steps_found else None,
            "start_to_start": distribution(paces) if paces else None,
        }

    # ---- steps that took far longer
    def slow_tree(self, parts):
        time = lambda step: step["work_time"] if self.ran_ahead else step["end"] - step["start"]
        measured = self.measured_steps if self.has_steps else []
        times = [time(step) for step in measured]
        slow = []
        if len(times) >= 4:
            median, low = rank(times, 50), rank(times, 10)
            slow = [step for step in measured if 2 * time(step) > 3 * median and time(step) - median > 3 * (median - low)]
        trees = []
        for step in sorted(slow, key=lambda each: -time(each))[:MOST_SLOW]:
            grew = {part: step["parts"][part] - parts[part]["median_ns"] for part in parts}
            part = max(grew, key=lambda each: grew[each])
            tree = {
                "number": step["number"],
                "start_ns": step["start"],
                "time_ns": time(step),
                "part": None,
                "longer_ns": 0,
                "most_at": None,
            }
            if grew[part] > 0:
                tree.update(part=part, longer_ns=grew[part])
                if part != "another_thread_in_calls":
                    usual = next(each for each in measured if time(each) == median)
                    tree["most_at"] = self.line_that_grew(part, self.lines_of(usual, part), self.lines_of(step, part))
            trees.append(tree)
        return {"slow": len(slow), "slow_steps": trees}

    def line_that_grew(self, part, usual, lines):
        grew = {site: time - usual.get(site, 0) for site, time in lines.items()}
        site = max(sorted(grew), key=lambda each: grew[each], default=0)
        if site == 0 or grew[site] <= 0:
            return None
        return self.place(site, part == "outside_of_calls", grew[site])

    def lines_of(self, step, part):
        """By line, what it had of a part of a step: in its calls that began there, or before them."""
        start, end = step["start"], step["end"]
        inside = [call for call in self.calls if start <= call["start"] < end]
        own = [call for call in inside if call["own"]]
        lines = {}
        if part != "outside_of_calls":
            for since, until, call in Lane(own).pieces:
                if call["kind"] == part:
                    lines[call["siteId"] or 0] = lines.get(call["siteId"] or 0, 0) + max(0, min(until, end) - since)
            return lines
        busy = Cover([(call["start"], call["end"]) for call in inside])
        behind = [call for call in self.calls if call["own"] and call["start"] >= end][:1]
        since = start
        for call in own + behind:
            until = min(call["start"], end)
            site = call["siteId"] or 0
            lines[site] = lines.get(site, 0) + max(0, until - since - busy.within(since, until))
            since = max(since, until)
        return lines
