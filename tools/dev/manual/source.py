"""The documents as Markdown, made ready for pages: no table, link or line of code that a screen of 80 columns cannot show.

lowdown does the rest. Blocks of code, and tables that are narrow, become a mark in a line of its own; output.py puts them back.
"""

import pathlib
import re
import textwrap

COLUMNS = 80
INDENT = 4  # of text below a heading
MARK = "@@BLOCK{}@@"
# Code within a paragraph, an item or a row of a table: a quote that is never closed ends with it.
CODE = re.compile(r"``.+?``|`((?:[^`\n]|\n(?!\s*(?:\n|\||[-*] |\d+\. |#)))+)`")


class Dead(Exception):
    """A link to something that is not there."""


def slug(heading):
    """The anchor of a heading, as a browser of Markdown makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings(text):
    """The text of every heading by its anchor."""
    return {slug(found[1]): re.sub(r"`", "", found[1]) for found in re.finditer(r"^#+ (.+)$", text, re.MULTILINE)}


def title(text):
    return re.match(r"# (.+)", text)[1]


def section(text, heading):
    """The body below a heading, down to the next one that is as high."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n", text, re.MULTILINE)
    if not found:
        raise Dead(f"no heading \"{heading}\"")
    rest = text[found.end():]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[:end.start()] if end else rest


class References:
    """What a link says on a page. `topics`: the topic of a shipped document by its path; `name`: how the page shows a topic."""

    def __init__(self, root, topics, rules, name):
        self._root = root
        self._topics = topics
        self._rules = rules
        self._name = name

    def _heading(self, path, anchor):
        found = headings((self._root / path).read_text()).get(anchor)
        if found is None:
            raise Dead(f"{path} has no heading #{anchor}")
        return found

    def of(self, document, topic, text, target):
        """Where it leads, and whether the link's own text says nothing more."""
        if "://" in target:
            return target, text == target
        name, _, anchor = target.partition("#")
        path = pathlib.Path(document) if not name else pathlib.Path(document).parent / name
        path = str((self._root / path).resolve().relative_to(self._root))
        if not (self._root / path).exists():
            raise Dead(f"{document} links to {path}, which is not there")
        plain = re.sub(r"`", "", text).lower()
        heading = self._heading(path, anchor) if anchor and path.endswith(".md") else ""
        said = {pathlib.Path(path).name.lower(), pathlib.Path(path).stem.lower(), heading.lower()}
        if path not in self._topics:
            return f"`{path}` of the sources", plain in said | {path}
        if heading in self._rules and self._topics[path] == "advise":
            return self._name(heading), plain in said
        if self._topics[path] == topic:
            return f"\"{heading}\"", plain in said
        return self._name(self._topics[path]) + (f", \"{heading}\"" if heading else ""), plain in said

    def resolve(self, document, topic, text):
        """The text, with every link said in words."""
        spans = []

        def keep(found):
            spans.append(found[0])
            return f"\0{len(spans) - 1}\0"

        def put_back(part):
            return re.sub("\0(\\d+)\0", lambda found: spans[int(found[1])], part)

        hidden = CODE.sub(keep, text)
        hidden = re.sub(r"!\[[^\]]*\]\([^)]*\)\n*", "", hidden)

        def link(found):
            label = put_back(" ".join(found[1].split()))
            where, is_all = self.of(document, topic, label, found[2])
            if is_all:
                return where
            before = found.string[:found.start()]
            paragraph = before[before.rfind("\n\n") + 1:]
            if paragraph.count("(") <= paragraph.count(")"):
                return f"{label} ({where})"
            return f"{label}: {where}" if before.endswith("(") else f"{label} \\[{where}\\]"

        hidden = re.sub(r"\[([^\]]+)\]\(([^)\s]*)\)", link, hidden)
        return put_back(hidden)

    def names(self, text):
        """`docs/report.md`, in text or code, by the name that the page has."""

        def name(found):
            topic = self._topics.get(found[1])
            return f"slipstream help {topic}" if topic else found[0]

        return re.sub(r"\b(docs/[\w-]+\.md)\b", name, text)


# ---- blocks


def _comment_above(line, width):
    """A line of shell whose comment makes it too long: the comment first."""
    found = re.match(r"(\s*)(\S.*?)\s+# (.+)$", line)
    if not found or len(line) <= width:
        return [line]
    return [*textwrap.wrap(found[3], width, initial_indent=f"{found[1]}# ", subsequent_indent=f"{found[1]}# "), found[1] + found[2]]


def _continued(line, width):
    """A line that is still too long, at its spaces: of shell, with its backslash."""
    if len(line) <= width:
        return [line]
    indent = re.match(r"\s*", line)[0]
    is_shell = re.match(r"\s*(\$ |[A-Z_]+=\S+ |slipstream |tools/|pip |python|srun |torchrun |docker |cmake |nsys )", line)
    end = " \\" if is_shell else ""
    longest = max(map(len, line.split()))
    indent = (indent + "    ")[:max(0, width - len(end) - longest)]
    parts = textwrap.wrap(line, width - len(end), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
                          drop_whitespace=True)
    return [part + end for part in parts[:-1]] + parts[-1:]


def code(lines):
    """A block of code in lines of 80 columns: indented as far as its longest line leaves room."""
    lines = [new for line in textwrap.dedent("\n".join(lines)).expandtabs().splitlines() for new in _comment_above(line, COLUMNS - INDENT)]
    if max(map(len, lines), default=0) > COLUMNS:
        lines = [new for line in lines for new in _continued(line, COLUMNS - INDENT)]
    indent = max(0, min(2 * INDENT, COLUMNS - max(map(len, lines), default=0)))
    return [(" " * indent + line).rstrip() for line in lines]


def cells(line):
    parts = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [part.strip() for part in parts]


def _plain(cell):
    return re.sub(r"[`*]", "", re.sub(r"\\(.)", r"\1", cell))


def narrow(rows):
    """The table in columns; None where it needs more than a screen has."""
    shown = [[_plain(cell) for cell in row] for row in rows]
    if not any(shown[0]):
        shown = shown[1:]
        rule = []
    else:
        rule = [["-" * max(len(row[i]) for row in shown) for i in range(len(shown[0]))]]
        shown = shown[:1] + rule + shown[1:]
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    if sum(widths) + 2 * (len(widths) - 1) > COLUMNS - 2 * INDENT:
        return None
    return [("  ".join(cell.ljust(width) for cell, width in zip(row, widths))).rstrip() for row in shown]


def as_list(rows):
    """A row an item; what stands in its other columns, by their names."""
    header, made = rows[0], []
    for row in rows[1:]:
        made.append(f"- **{row[0]}**" if row[0] and "**" not in row[0] else f"- {row[0]}")
        for name, cell in zip(header[1:], row[1:]):
            if cell:
                made[-1] += "  "
                made.append(f"  {name}: {cell}" if name else f"  {cell}")
        made.append("")
    return made


class Blocks:
    """Takes blocks of code and tables out of a text."""

    def __init__(self):
        self.taken = []

    def _take(self, lines):
        self.taken.append(lines)
        return ["", MARK.format(len(self.taken) - 1), ""]

    def _table(self, lines):
        rows = [cells(line) for line in lines]
        rows = [rows[0], *rows[2:]]
        columns = narrow(rows)
        return self._take([" " * INDENT + line for line in columns]) if columns else ["", *as_list(rows), ""]

    def out_of(self, text, resolve):
        """The text without them. `resolve` says links in words, before tables are measured."""
        text = re.sub(r"^<!--.*?-->\n", "\n", text, flags=re.MULTILINE | re.DOTALL)
        lines = self._without_code(text.splitlines())
        lines = resolve("\n".join(lines)).splitlines()
        made, at = [], 0
        while at < len(lines):
            end = at
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            made += self._table(lines[at:end]) if end > at else [lines[at]]
            at = max(end, at + 1)
        return "\n".join(made) + "\n"

    def _without_code(self, lines):
        made, at = [], 0
        while at < len(lines):
            line = lines[at]
            if line.lstrip().startswith("```"):
                end = next(i for i in range(at + 1, len(lines)) if lines[i].lstrip().startswith("```"))
                made += self._take(code(lines[at + 1:end]))
                at = end + 1
            elif line.startswith("    ") and (not made or not made[-1].strip()) and not self._in_list(made):
                end = at
                while end < len(lines) and (not lines[end].strip() or lines[end].startswith("    ")):
                    end += 1
                block = lines[at:end]
                while block and not block[-1].strip():
                    block.pop()
                made += self._take(code(block))
                at = end
            else:
                made.append(line)
                at += 1
        return made

    @staticmethod
    def _in_list(before):
        """Whether the paragraph before is an item of a list, so that what is indented belongs to it."""
        for line in reversed(before):
            if line.strip():
                if re.match(r"\s*([-*]|\d+\.) ", line):
                    return True
                if not line.startswith("  "):
                    return False
        return False
