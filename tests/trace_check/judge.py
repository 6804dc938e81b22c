"""What two sides are held against each other with: the figures of one must be those of the other, to the last nanosecond.

Threading: one list of problems for a whole program.
"""

import collections
import math

MOST_SHOWN = 40


class Judge:
    def __init__(self):
        self.problems = []
        self.compared = 0

    def say(self, text):
        self.problems.append(text)

    def expect(self, what, actual, expected):
        self.compared += 1
        same = actual == expected
        if isinstance(expected, float) and isinstance(actual, (int, float)) and not isinstance(actual, bool):
            same = math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-12)
        if not same:
            self.say(f"{what}: {actual!r}, expected {expected!r}")
        return same

    def rows(self, what, actual, expected):
        """The same rows, in any order."""
        actual, expected = collections.Counter(map(tuple, actual)), collections.Counter(map(tuple, expected))
        self.compared += sum(expected.values())
        for row, count in (actual - expected).items():
            self.say(f"{what}: {count} times too much: {row!r}")
        for row, count in (expected - actual).items():
            self.say(f"{what}: {count} times missing: {row!r}")

    def tree(self, what, actual, expected):
        """All that `expected` has is in `actual`; what more is there is not looked at, but lists are as long as expected."""
        if isinstance(expected, dict):
            if not isinstance(actual, dict):
                self.say(f"{what}: {actual!r} is no object")
                return
            for key, value in expected.items():
                if key not in actual:
                    self.say(f"{what}.{key} is not there")
                else:
                    self.tree(f"{what}.{key}", actual[key], value)
        elif isinstance(expected, list):
            if not isinstance(actual, list) or len(actual) != len(expected):
                self.say(f"{what}: {len(actual) if isinstance(actual, list) else actual!r} entries, expected {len(expected)}")
                return
            for number, (one, other) in enumerate(zip(actual, expected)):
                self.tree(f"{what}[{number}]", one, other)
        else:
            self.expect(what, actual, expected)
