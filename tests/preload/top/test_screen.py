"""test_screen.py: whether screen.py shows what a terminal does, for sequences one by one and for what ncurses itself draws."""

import random
import subprocess
import sys
import unittest

from screen import Screen

ROWS, COLUMNS, FRAMES = 12, 40, 200


def shown(*pieces, rows=4, columns=6):
    screen = Screen(rows, columns)
    for piece in pieces:
        screen.feed(piece.encode())
    return screen.lines()


# Four full rows, the last of which does not scroll away.
FULL = "aaaaaa\r\nbbbbbb\r\ncccccc\r\ndddddd"
ABC = "\x1b[H\x1b[2Jabcdef"


class Sequences(unittest.TestCase):
    def test_text_wraps_after_the_last_column(self):
        self.assertEqual(shown("abcdef"), ["abcdef", "", "", ""])
        self.assertEqual(shown("abcdef", "g"), ["abcdef", "g", "", ""])
        # A full row does not wrap before the next character.
        self.assertEqual(shown("abcdef\r\ng"), ["abcdef", "g", "", ""])
        self.assertEqual(shown("abcdef\bX"), ["abcdXf", "", "", ""])
        self.assertEqual(shown("\x1b[?7labcdefgh\x1b[?7h"), ["abcdeh", "", "", ""])
        self.assertEqual(shown("\x1b[4;1Habcdefg"), ["", "", "abcdef", "g"])
        # One of two columns has none left; one of none needs none.
        self.assertEqual(shown("abcde日x"), ["abcde", "日x", "", ""])
        self.assertEqual(shown("abcdee\u0301\u200d\rx"), ["xbcdee", "", "", ""])

    def test_where_the_cursor_goes(self):
        for sequence, expected in (
            ("\x1b[HX", ["X", "", "", ""]),
            ("\x1b[3;2HX", ["", "", " X", ""]),
            ("\x1b[3HX", ["", "", "X", ""]),
            ("\x1b[3d\x1b[2GX", ["", "", " X", ""]),
            ("ab\x1b[dX", ["abX", "", "", ""]),
            ("\x1b[3;4H\x1b[AX", ["", "   X", "", ""]),
            ("\x1b[3;4H\x1b[2A\x1b[2DX", [" X", "", "", ""]),
            ("\x1b[2B\x1b[3CX\x1b[BY", ["", "", "   X", "    Y"]),
            ("abc\rX\nY", ["Xbc", " Y", "", ""]),
            ("abc\b\bX", ["aXc", "", "", ""]),
            ("\x1b[2;1H\x1bMX", ["X", "", "", ""]),
            ("\x1b[2;2H\x1b[2;3rX", ["X", "", "", ""]),
            ("\x1b[99;99HX\x1b[99A\x1b[99DY", ["Y", "", "", "     X"]),
        ):
            self.assertEqual(shown(sequence), expected, repr(sequence))
        self.assertEqual(shown("a\tb", columns=12), ["a       b", "", "", ""])

    def test_what_is_erased(self):
        at = FULL + "\x1b[2;3H"
        for sequence, expected in (
            ("\x1b[K", ["aaaaaa", "bb", "cccccc", "dddddd"]),
            ("\x1b[1K", ["aaaaaa", "   bbb", "cccccc", "dddddd"]),
            ("\x1b[2K", ["aaaaaa", "", "cccccc", "dddddd"]),
            ("\x1b[J", ["aaaaaa", "bb", "", ""]),
            ("\x1b[1J", ["", "   bbb", "cccccc", "dddddd"]),
            ("\x1b[2JX", ["", "  X", "", ""]),
            ("\x1b[2XX", ["aaaaaa", "bbX bb", "cccccc", "dddddd"]),
            ("\x1b[9X", ["aaaaaa", "bb", "cccccc", "dddddd"]),
            ("\x1b[?1049h", ["", "", "", ""]),
        ):
            self.assertEqual(shown(at + sequence), expected, repr(sequence))

    def test_what_is_inserted_and_taken_out(self):
        for sequence, expected in (
            ("\x1b[H\x1b[2C\x1b[2P", "abef"),
            ("\x1b[H\x1b[2C\x1b[P", "abdef"),
            ("\x1b[H\x1b[2C\x1b[9P", "ab"),
            ("\x1b[H\x1b[2C\x1b[2@", "ab  cd"),
            ("\x1b[H\x1b[2C\x1b[9@", "ab"),
            ("\x1b[HX\x1b[3b", "XXXXef"),
        ):
            self.assertEqual(shown(ABC + sequence), [expected, "", "", ""], repr(sequence))
        for sequence, expected in (
            ("\x1b[2;3H\x1b[L", "a-bc"),
            ("\x1b[2;3H\x1b[2M", "ad--"),
            ("\x1b[9M", "abc-"),
            ("\n", "bcd-"),
            ("\x1b[H\x1bM", "-abc"),
            ("\x1b[2S", "cd--"),
            ("\x1b[T", "-abc"),
            ("\x1b[9T", "----"),
            ("\x1b[2;3r\x1b[S", "ac-d"),
            ("\x1b[2;3r\x1b[T", "a-bd"),
            ("\x1b[2;3r\x1b[3;1H\n", "ac-d"),
            ("\x1b[2;3r\x1b[2;1H\x1bM", "a-bd"),
            ("\x1b[2;3r\x1b[2;1H\x1b[L", "a-bd"),
            ("\x1b[2;3r\x1b[4;1H\n", "abcd"),
            ("\x1b[2;3r\x1b[r\x1b[S", "bcd-"),
        ):
            self.assertEqual("".join(line[:1] or "-" for line in shown(FULL + sequence)), expected, repr(sequence))

    def test_what_is_in_reverse_video(self):
        for attributes, expected in (
            ("7", [1]),
            ("0;1;7", [1]),
            ("7;36", [1]),
            ("7;27", []),
            ("7;0", []),
            ("7;", []),
            ("", []),
            ("38;5;7", []),  # a color
            ("48;5;7;7", [1]),
        ):
            screen = Screen(3, 6)
            screen.feed(f"\x1b[2;2H\x1b[{attributes}mx".encode())
            self.assertEqual((screen.reversed_lines(), screen.lines()), (expected, ["", " x", ""]), attributes)
        # Other attributes leave it; it goes with what it stood in, and what is blank has none.
        screen = Screen(3, 6)
        screen.feed(b"\x1b[2;1H\x1b[7m\x1b[1;36m\x1b[39mab\x1b[K")
        self.assertEqual([reverse for _, reverse in screen.cells[6:12]], [True, True, False, False, False, False])
        screen.feed(b"\x1b[H\x1b[L")
        self.assertEqual(screen.reversed_lines(), [2])
        screen.feed(b"\x1b[3;1H\x1b(B\x1b[mab")
        self.assertEqual(screen.reversed_lines(), [])

    def test_sequences_that_come_in_parts(self):
        text = "ä\x1b[?25l\x1b[2;3H\x1b(B\x1b[0;7mé▁\x1b[m\x1b[3;1H日x\x1b>"
        screen = Screen(4, 6)
        for byte in text.encode():
            screen.feed(bytes([byte]))
        self.assertEqual(screen.lines(), ["ä", "  é▁", "日x", ""])
        self.assertEqual((screen.lines(), screen.reversed_lines()), (shown(text), [1]))
        self.assertEqual(screen.column, 3)  # of two columns and one

    def test_what_is_not_known_is_said(self):
        for text in ("\x1b[?2004h", "\x1b[4h", "\x1b[3J", "\x1b[6n", "\x1b[>c", "\x1b]0;t\x07", "\x1b(0", "\x1b7", "\x1b[58m", "\x1b[38;2;1;2;3m",
                     "\x07", "\x1b[2;3r\x1b[L"):
            with self.assertRaisesRegex(AssertionError, "not known", msg=repr(text)):
                shown(text)

    def test_another_size(self):
        screen = Screen(4, 6)
        screen.feed(f"{FULL}\x1b[2;3r".encode())
        screen.resize(3, 8)
        self.assertEqual(screen.lines(), ["aaaaaa", "bbbbbb", "cccccc"])
        screen.feed(b"\x1b[3;7Hxy\x1b[H\x1b[S")  # all of it scrolls again
        self.assertEqual(screen.lines(), ["bbbbbb", "ccccccxy", ""])
        screen.resize(5, 2)
        self.assertEqual(screen.lines(), ["bb", "cc", "", "", ""])
        # The cursor stays on it.
        screen = Screen(4, 6)
        screen.feed(FULL.encode())
        screen.resize(2, 3)
        screen.feed(b"X")
        self.assertEqual(screen.lines(), ["aaa", "bbX"])


class Drawing:
    """Frames that are like one another: rows of words, some in reverse video, that change, move up and move down."""

    def __init__(self):
        self.random = random.Random(1)
        self.frame = [self.row() for _ in range(ROWS)]

    def row(self):
        words = self.random.choices(["1", "27377", "27399", "  -", "    ", "preload_traced", "▁▂▃", "aaaaaaaaaaaaaaaa"], k=8)
        return " ".join(words)[:COLUMNS - 1].ljust(COLUMNS - 1), self.random.random() < 0.2

    def next(self):
        at = self.random.randrange(ROWS)
        kind = self.random.randrange(5)
        if kind == 0:
            self.frame = [self.row() for _ in range(ROWS)]
        elif kind in (1, 2):
            row = self.frame.pop(at)
            self.frame.insert(self.random.randrange(ROWS), self.row() if kind == 1 else row)
        elif kind == 3:
            text, reverse = self.frame[at]
            cut = self.random.randrange(COLUMNS)
            self.frame[at] = (text[:cut] + self.row()[0][cut:] if cut % 2 else (text[cut:] + text[:cut]), reverse)
        else:
            self.frame[at] = (self.frame[at][0], not self.frame[at][1])
        return self.frame


def draw():
    """Each frame, and then a byte 0, which ncurses does not write."""
    import curses
    window = curses.initscr()
    curses.start_color()
    curses.use_default_colors()
    curses.init_pair(1, curses.COLOR_CYAN, -1)
    window.idlok(True)
    drawing = Drawing()
    for number in range(FRAMES):
        window.erase()
        for row, (text, reverse) in enumerate(drawing.next()):
            window.addstr(row, 0, text, curses.A_REVERSE if reverse else curses.A_BOLD | curses.color_pair(1) if "1" in text else 0)
        if number % 50 == 49:
            window.clearok(True)
        window.refresh()
        sys.stdout.buffer.write(b"\0")
        sys.stdout.flush()


class Ncurses(unittest.TestCase):
    def test_what_it_draws_is_shown(self):
        try:
            import curses
        except ImportError:
            self.skipTest("this Python has no curses")
        if not hasattr(curses, "unget_wch"):
            self.skipTest("this Python's curses knows no UTF-8")
        environment = {"TERM": "xterm-256color", "LINES": str(ROWS), "COLUMNS": str(COLUMNS), "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
        drawn = subprocess.run([sys.executable, "-B", __file__, "draw"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               check=True)
        pieces = drawn.stdout.split(b"\0")
        self.assertEqual((len(pieces), pieces[-1]), (FRAMES + 1, b""))
        screen, drawing = Screen(ROWS, COLUMNS), Drawing()
        for number, piece in enumerate(pieces[:-1]):
            screen.feed(piece)
            frame = drawing.next()
            self.assertEqual(screen.lines(), [row.rstrip() for row, _ in frame], f"frame {number}: {piece!r}")
            self.assertEqual(screen.reversed_lines(), [at for at, (_, reverse) in enumerate(frame) if reverse], f"frame {number}: {piece!r}")
        # Not each is drawn anew.
        self.assertLess(len(drawn.stdout), FRAMES * ROWS * COLUMNS)


if __name__ == "__main__":
    if sys.argv[1:] == ["draw"]:
        draw()
    else:
        unittest.main(verbosity=2)
