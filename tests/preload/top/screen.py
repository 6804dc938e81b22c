"""What a terminal shows, from what ncurses writes to it for TERM=xterm-256color.

ncurses writes only what has changed, so that what is seen is nowhere in the bytes as a whole. A sequence that is not known here is an
AssertionError: the model is right, or says that it is not.
"""

import codecs
import re
import unicodedata

TOKEN = re.compile(r"(?P<text>[^\x00-\x1f\x7f]+)|(?P<control>[\b\t\n\r])|\x1b(?P<escape>[=>M]|\(B)"
                   r"|\x1b\[(?P<private>\??)(?P<numbers>[0-9;]*)(?P<letter>[@-~])")
PART = re.compile(r"\x1b(\(|\[\??[0-9;]*)?")  # of a sequence, the rest of which comes with the next bytes
BLANK = (" ", False)
# What changes nothing that is kept here: the keys' mode, the cursor's blinking, the cursor; that nothing is inserted, which is so anyway.
OF_NO_EFFECT = {("?h", 1), ("?l", 1), ("?h", 12), ("?l", 12), ("?h", 25), ("?l", 25), ("l", 4)}
# Of colors and the like: all but reverse video.
ATTRIBUTES = {*range(1, 6), 8, *range(21, 26), 28, *range(30, 38), 39, *range(40, 48), 49, *range(90, 98), *range(100, 108)}


def columns_of(character):
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):  # goes on the one before it
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Screen:
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [BLANK] * (rows * columns)  # (character, whether it is in reverse video), row after row
        self.top, self.bottom = 0, rows  # of what scrolls; the bottom is the first row that does not
        self.row = self.column = 0
        self.autowrap = True
        self.wraps = False  # a character stands in the last column: the next one begins a new row
        self.reverse = False
        self.last = " "
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.rest = ""

    def lines(self):
        rows = (self.cells[at:at + self.columns] for at in range(0, len(self.cells), self.columns))
        return ["".join(character for character, _ in row).rstrip() for row in rows]

    def reversed_lines(self):
        """The numbers of those with a character in reverse video, from 0."""
        return sorted({at // self.columns for at, (_, reverse) in enumerate(self.cells) if reverse})

    def __str__(self):
        return "\n".join(self.lines()).rstrip()

    def resize(self, rows, columns):
        """What there is room for stays where it is."""
        old = [self.cells[at:at + self.columns] for at in range(0, len(self.cells), self.columns)]
        kept = [(row + [BLANK] * columns)[:columns] for row in (old + [[]] * rows)[:rows]]
        self.cells = [cell for row in kept for cell in row]
        self.rows, self.columns = rows, columns
        self.top, self.bottom = 0, rows
        self.move(self.row, self.column)

    def feed(self, data):
        text = self.rest + self.decoder.decode(data)
        at = 0
        while found := TOKEN.match(text, at):
            at = found.end()
            kind = found.lastgroup
            if kind == "text":
                for character in found["text"]:
                    self.put(character)
            elif kind == "letter":
                self.sequence(found["private"] + found["letter"], [int(number or 0) for number in found["numbers"].split(";")])
            else:
                self.control(found[kind])
        self.rest = text[at:]
        assert not self.rest or PART.fullmatch(self.rest), f"not known: {self.rest[:20]!r}"

    def put(self, character):
        width = columns_of(character)
        if width == 0:
            return
        if self.wraps or (self.autowrap and self.column + width > self.columns):
            self.move(self.row, 0)
            self.line_feed()
        at = self.row * self.columns + self.column
        self.cells[at:at + width] = [(character, self.reverse), ("", self.reverse)][:width]
        self.last = character
        self.wraps = self.autowrap and self.column + width == self.columns
        self.column = min(self.column + width, self.columns - 1)

    def control(self, which):
        if which == "\n":
            self.line_feed()
        elif which == "\r":
            self.move(self.row, 0)
        elif which == "\b":
            self.move(self.row, self.column - 1)
        elif which == "\t":
            self.move(self.row, (self.column // 8 + 1) * 8)
        elif which == "M" and self.row == self.top:
            self.shift(self.top * self.columns, self.bottom * self.columns, -self.columns)
        elif which == "M":
            self.move(self.row - 1, self.column)

    def sequence(self, name, numbers):
        first, second = (numbers + [0])[:2]
        count = max(1, first)
        width = self.columns
        begin, end = self.row * width, (self.row + 1) * width
        at = begin + self.column
        if name in ("A", "B", "C", "D"):
            down, right = {"A": (-count, 0), "B": (count, 0), "C": (0, count), "D": (0, -count)}[name]
            self.move(self.row + down, self.column + right)
        elif name == "G":
            self.move(self.row, count - 1)
        elif name == "d":
            self.move(count - 1, self.column)
        elif name == "H":
            self.move(count - 1, max(1, second) - 1)
        elif name in ("J", "K") and first in (0, 1, 2):
            begin, end = (0, len(self.cells)) if name == "J" else (begin, end)
            self.erase(*[(at, end), (begin, at + 1), (begin, end)][first])
        elif name == "X":
            self.erase(at, min(at + count, end))
        elif name in ("P", "@"):
            self.shift(at, end, count if name == "P" else -count)
        elif name in ("M", "L") and self.top <= self.row < self.bottom:
            self.shift(begin, self.bottom * width, (count if name == "M" else -count) * width)
        elif name in ("S", "T"):
            self.shift(self.top * width, self.bottom * width, (count if name == "S" else -count) * width)
        elif name == "r":
            self.top, self.bottom = count - 1, min(second or self.rows, self.rows)
            self.move(0, 0)
        elif name == "b":
            for _ in range(count):
                self.put(self.last)
        elif name == "m":
            self.attributes(numbers)
        elif name in ("?h", "?l") and numbers == [7]:
            self.autowrap = name == "?h"
        elif name in ("?h", "?l") and numbers == [1049]:  # another screen, which is empty at first
            self.erase(0, len(self.cells))
        else:
            title = name == "t" and first in (22, 23)  # is kept, and is as it was
            assert title or (len(numbers) == 1 and (name, first) in OF_NO_EFFECT), f"not known: {name!r} with {numbers}"

    def attributes(self, numbers):
        left = list(numbers)
        while left:
            number = left.pop(0)
            if number in (0, 7, 27):
                self.reverse = number == 7
            elif number in (38, 48):  # ;5;COLOR
                assert left[:1] == [5] and len(left) > 1, f"not known: attributes {numbers}"
                del left[:2]
            else:
                assert number in ATTRIBUTES, f"not known: attributes {numbers}"

    def move(self, row, column):
        self.row = min(max(row, 0), self.rows - 1)
        self.column = min(max(column, 0), self.columns - 1)
        self.wraps = False

    def line_feed(self):
        if self.row == self.bottom - 1:
            self.shift(self.top * self.columns, self.bottom * self.columns, self.columns)
        else:
            self.move(self.row + 1, self.column)

    def shift(self, first, last, by):
        """Moves the cells to the front by as many, or, below 0, to the back; what moves in is blank."""
        old, blank = self.cells[first:last], [BLANK] * abs(by)
        self.cells[first:last] = (old + blank)[by:] if by > 0 else (blank + old)[:len(old)]

    def erase(self, first, last):
        self.cells[first:last] = [BLANK] * (last - first)
