"""Pages by lowdown: as plain text of 80 columns, and for man."""

import re
import subprocess
import textwrap

from source import COLUMNS, INDENT, MARK

_BLOCK = re.compile(r"^[ \t]*" + MARK.format(r"(\d+)") + r"[ \t]*$", re.MULTILINE)
_ASCII = str.maketrans({"·": "-", "–": "-", "’": "'", "“": '"', "”": '"', "…": "..."})
_UNBROKEN = 100000


def _lowdown(lowdown, markdown, *options):
    done = subprocess.run([lowdown, "--parse-no-metadata", "--out-no-smarty", *options], input=markdown, capture_output=True, text=True,
                          check=True)
    return done.stdout


def _heading(found):
    """Headings have no `#` on a screen."""
    level, words = len(found[1]), found[2].strip()
    return f"\n{words}\n{'-' * len(words)}" if level == 2 else f"\n  {words}"


def _wrapped(line):
    """A paragraph or an item is one line until here: lowdown's own breaks do not measure what touches code."""
    hang = re.match(r"[ ]*(?:(?:[-*]|\d+\.) )?", line)[0]
    return textwrap.fill(line, COLUMNS, subsequent_indent=" " * len(hang), break_long_words=False, break_on_hyphens=False)


def text(lowdown, markdown, blocks):
    made = _lowdown(lowdown, markdown, "-Tterm", "--term-no-ansi", "--term-nolinks", f"--term-columns={_UNBROKEN}",
                    f"--term-width={_UNBROKEN}", "--term-hmargin=0", "--term-vmargin=0")
    made = made.translate(_ASCII)
    made = "\n".join(_wrapped(line.rstrip()) if line.strip() else "" for line in made.splitlines())
    made = re.sub(r"^(##+) (.+)$", _heading, made, flags=re.MULTILINE)
    made = _BLOCK.sub(lambda found: "\n".join(blocks[int(found[1])]), made)
    return re.sub(r"\n{3,}", "\n\n", made).strip("\n") + "\n"


def _roff(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def man(lowdown, markdown, blocks, name, section, date, version):
    made = _lowdown(lowdown, markdown, "-s", "-Tman", "--nroff-no-groff", "--nroff-nolinks", "-m", f"title={name.upper()}", "-m",
                    f"section={section}", "-m", f"date={date}", "-m", f"source=slipstream {version}", "-m", "volume=slipstream")
    made = made.translate(_ASCII).replace("\\fC", "\\fB")

    def block(found):
        lines = blocks[int(found[1])]
        cut = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        body = "\n".join(_roff(line[cut:]) for line in lines)
        return f".RS {INDENT}\n.nf\n{body}\n.fi\n.RE"

    made = _BLOCK.sub(block, made)
    made = re.sub(r"^(\.S[HS])\n(.+)\n(\.[LP]P\n)?", _title, made, flags=re.MULTILINE)
    # An item whose first line is its name: a list of names.
    return re.sub(r'^\.IP "\\\(bu" 2\n(.+)\n\.br\n', f".TP {INDENT}\n\\1\n", made, flags=re.MULTILINE)


def _title(found):
    """In capitals, as man's are, and with no paragraph begun below it."""
    words = found[2] if "\\" in found[2] or found[1] == ".SS" else found[2].upper()
    return f"{found[1]}\n{words}\n"
