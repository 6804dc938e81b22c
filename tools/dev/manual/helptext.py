"""What a command's --help prints, and the page of man with the same."""

import os
import re
import subprocess

_ROW = re.compile(r"  (\S(?:.*?\S)??)(?:  +(\S.*))?$")
_NAMES = 24  # kNames in tools/cli/help.h


class Help:
    def __init__(self, command, *verb):
        self._verb = verb
        self._command = command
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_") and name != "COLUMNS"}
        done = subprocess.run([command, *verb, "--help"], capture_output=True, text=True, check=True, env=environment)
        self.text = done.stdout
        usage, _, rest = self.text.partition("\n\n")
        self.usage = usage.removeprefix("Usage: ")
        self.description, _, self._rest = rest.partition("\n\n")
        self.description = " ".join(self.description.split())
        self.commands = [name for name, _ in self._rows("Commands")]

    def _rows(self, heading):
        found = re.search(rf"^{heading}:\n((?:  .+\n)+)", self.text, re.MULTILINE)
        rows = []
        for line in found[1].splitlines() if found else ():
            if line.startswith(" " * _NAMES):
                rows[-1][1] = f"{rows[-1][1]} {line.strip()}".strip()
            else:
                row = _ROW.match(line)
                rows.append([row[1], row[2] or ""])
        return rows

    def _footer(self):
        """Examples, statuses: what follows the tables, as it stands."""
        blocks = [block for block in self._rest.split("\n\n") if not re.match(r"(Arguments|Options|Commands):\n", block)]
        return "\n".join(blocks).rstrip()

    def _lists(self, level):
        made = ""
        for heading in ("Arguments", "Options", "Commands"):
            if rows := self._rows(heading):
                made += f"\n{level} {heading.upper() if level == '#' else heading}\n\n"
                made += "".join(f"- **{_escaped(name)}**  \n  {_escaped(what)}\n\n" for name, what in rows)
        return made

    def man_page(self):
        name = "-".join(("slipstream", *self._verb))
        made = f"# NAME\n\n{name} - {_escaped(self.description[0].lower() + self.description[1:].rstrip('.'))}\n\n# SYNOPSIS\n\n"
        made += f"**{_escaped(self.usage)}**\n" + self._lists("#")
        if self._verb:
            for command in self.commands:
                below = Help(self._command, *self._verb, command)
                made += f"\n# {' '.join((*self._verb, command)).upper()}\n\n**{_escaped(below.usage)}**\n\n{_escaped(below.description)}.\n"
                made += below._lists("##") + below._notes()
        return made + (f"\n# EXAMPLES AND EXIT STATUS\n{self._notes()}" if self._footer() else "")

    def _notes(self):
        footer = self._footer()
        return "\n" + "".join(f"    {line}\n" for line in footer.splitlines()) + "\n" if footer else ""


def _escaped(text):
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)
