"""Makes a program that shows a difference small.

Delta debugging on the lines of the text form, then objects, then numbers and words. A candidate counts if the model still
calls it determined (the runner checks), if it does the same bare in other orders of the device, and if it still fails the
way it did. So what remains is a program of which CUDA promises what the library breaks.
"""

import re
import time

from running import compare

# A hang costs as long as one waits for it; what is left of a program runs in milliseconds. What was taken for a hang too
# early is found out at the end.
SHRINK_WATCHDOG = 2

SIMPLER_WORDS = [
    ("unseen_kernel", "kernel"),
    ("does=callback_write", "does=write"),
    ("does=callback_read", "does=read"),
    ("does=mix", "does=move"),
    ("as=default", "as=h2d"),
    ("as=default", "as=d2h"),
    ("flags=no_timing", "flags=timing"),
    ("flags=blocking", "flags=non_blocking"),
    ("flags=portable", "flags=default"),
    ("flags=write_combined", "flags=default"),
    ("from=mapped", "from=heap"),
    ("from=read_only", "from=heap"),
    ("stream=legacy_handle", "stream=legacy"),
    ("mode=global", "mode=relaxed"),
    ("mode=thread_local", "mode=relaxed"),
    ("malloc_async stream=thread ", "malloc "),
]


class OutOfTime(Exception):
    """What has been reached by now is what there is."""


class Shrinker:
    def __init__(self, bare, other, orders, scratch, seconds):
        self.deadline = time.monotonic() + seconds
        self.bare = bare
        self.patient = other
        self.other = other.with_watchdog(min(other.watchdog, SHRINK_WATCHDOG))
        self.orders = orders
        self.scratch = scratch
        self.kind = None
        self.tried = {}
        self.smallest = None

    def outcome(self, lines):
        return compare(self.bare, self.other, "\n".join(lines) + "\n", self.scratch).kind

    def fails(self, lines):
        """Whether these lines show the difference."""
        key = "\n".join(lines)
        if time.monotonic() > self.deadline:
            raise OutOfTime
        if key not in self.tried:
            self.tried[key] = self.outcome(lines) == self.kind and all(
                compare(self.bare, order, key + "\n", self.scratch).kind == "same" for order in self.orders)
        if self.tried[key]:
            self.smallest = lines
        return self.tried[key]

    def programs(self, lines):
        """Indices of whole programs, the last to be dropped first."""
        starts = [i for i, line in enumerate(lines) if line.startswith("program")] + [len(lines)]
        return [range(first, end) for first, end in zip(starts, starts[1:])]

    def drop_programs(self, lines):
        for piece in self.programs(lines):
            if len(self.programs(lines)) == 1:
                break
            rest = [line for i, line in enumerate(lines) if i not in piece]
            if self.fails(rest):
                return self.drop_programs(rest)
        return lines

    def drop_objects(self, lines):
        """Drops everything that names an object, for each object."""
        names = sorted(set(re.findall(r"=([a-z]\d+)", "\n".join(lines))))
        for name in names:
            rest = [line for line in lines if not re.search(rf"={name}(\+|\b)", line)]
            if len(rest) < len(lines) and self.fails(rest):
                lines = rest
        return lines

    def drop_lines(self, lines):
        size = max(1, len(lines) // 2)
        while size >= 1:
            start = len(lines)
            while start > 0:
                first = max(0, start - size)
                rest = lines[:first] + [line for line in lines[first:start] if line.startswith("program")] + lines[start:]
                if len(rest) < len(lines) and self.fails(rest):
                    lines = rest
                start = first
            size //= 2
        return lines

    def drop_pairs(self, lines):
        """Two lines that need each other: the making of an object and its end, begin and end of a capture."""
        first = 0
        while first < len(lines):
            for second in range(first + 1, len(lines)):
                rest = [line for i, line in enumerate(lines) if i not in (first, second)]
                if not lines[first].startswith("program") and self.fails(rest):
                    lines = rest
                    break
            else:
                first += 1
        return lines

    def replace_everywhere(self, lines, pattern, replacement):
        changed = [re.sub(pattern, replacement, line) for line in lines]
        return changed if changed != lines and self.fails(changed) else lines

    def replace_one_by_one(self, lines, pattern, replacement):
        for i, line in enumerate(lines):
            changed = lines[:i] + [re.sub(pattern, replacement, line)] + lines[i + 1:]
            if changed != lines and self.fails(changed):
                lines = changed
        return lines

    def simpler(self, lines):
        for thread in ("t2", "t1"):
            for other in ("t1", "t0"):
                if other < thread:
                    lines = self.replace_everywhere(lines, rf"^{thread} ", f"{other} ")
                    lines = self.replace_one_by_one(lines, rf"^{thread} ", f"{other} ")
        streams = sorted(set(re.findall(r"stream=(s\d+|thread|legacy_handle|legacy)", "\n".join(lines))))
        for one in streams:
            for other in streams:
                if other != one:
                    rest = [line for line in lines if not re.search(rf" stream stream={one}\b", line)]
                    changed = [re.sub(rf"stream={one}\b", f"stream={other}", line) for line in rest]
                    if changed != lines and self.fails(changed):
                        lines = changed
                        break
        for word, simpler in SIMPLER_WORDS:
            lines = self.replace_everywhere(lines, rf"\b{word}\b" if word[-1] != " " else word, simpler)
            lines = self.replace_one_by_one(lines, rf"\b{word}\b" if word[-1] != " " else word, simpler)
        lines = self.replace_everywhere(lines, r" by=\w+", "")
        lines = self.replace_one_by_one(lines, r" by=\w+", "")
        lines = self.replace_everywhere(lines, r"\+\d+", "")
        lines = self.replace_one_by_one(lines, r"\+\d+", "")
        lines = self.replace_everywhere(lines, r"value=\d+", "value=1")
        for number in sorted({int(n) for n in re.findall(r"\bn=(\d+)", "\n".join(lines))}, reverse=True):
            for smaller in (1, 8, 64, 1024, 65536, number // 2, number * 3 // 4):
                changed = lines
                if 0 < smaller < number:
                    changed = self.replace_everywhere(lines, rf"\bn={number}\b", f"n={smaller}")
                if changed is not lines:
                    lines = changed
                    break
        return lines

    def run(self, text):
        lines = [line for line in (line.split("#")[0].rstrip() for line in text.splitlines()) if line]
        self.kind = self.outcome(lines)
        try:
            if not self.fails(lines):
                return text  # bare it is not determined after all, or it does not fail every time
            self.drop_all_that_can_be(lines)
        except OutOfTime:
            pass
        small = "\n".join(self.smallest or lines) + "\n"
        return small if compare(self.bare, self.patient, small, self.scratch).kind == self.kind else text

    def drop_all_that_can_be(self, lines):
        lines = self.drop_programs(lines)
        before = None
        while lines != before:
            before = lines
            lines = self.drop_objects(lines)
            lines = self.drop_lines(lines)
            lines = self.simpler(lines)
            if len(lines) < 30:
                lines = self.drop_pairs(lines)


def shrink(text, bare, other, orders, scratch, seconds):
    return Shrinker(bare, other, orders, scratch, seconds).run(text)
