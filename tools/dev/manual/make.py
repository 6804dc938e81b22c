#!/usr/bin/env python3
"""Makes the manual of docs/*.md and of what the command says of itself.

    make.py --command PATH --lowdown PATH --version VERSION --out DIR

DIR then has man/man1, man5 and man7, which `man` reads, and slipstream/help, plain text of 80 columns, which `slipstream help` shows:
a file TOPIC.txt each, and their list, slipstream/topics. (pip removes a folder whole only if a file lies in it, not in its folders alone.) A link that leads nowhere is an error.

Exit status: 0 all pages are there; 1 one could not be made.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import output  # noqa: E402  (the folder is known only now)
import pages  # noqa: E402
from helptext import Help  # noqa: E402
from source import CODE, COLUMNS, Blocks, Dead, References, section, title  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


def date_of_sources():
    """So that the same sources make the same pages."""
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        return time.strftime("%Y-%m-%d", time.gmtime(int(epoch)))
    done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%cs"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or time.strftime("%Y-%m-%d", time.gmtime((ROOT / "CHANGELOG.md").stat().st_mtime))


def without_title(text):
    return text.partition("\n")[2]


def raised(text):
    """Headings one level up: man has two of them."""
    return re.sub(r"^#(#+ )", r"\1", text, flags=re.MULTILINE)


class Manual:
    def __init__(self, options):
        self._options = options
        self._date = date_of_sources()
        self.advise = (ROOT / "docs" / "advise.md").read_text()
        self.rules = pages.rules(self.advise)
        self._in_text = References(ROOT, pages.TOPICS, self.rules, lambda topic: f"`slipstream help {topic}`")
        self._in_man = References(ROOT, pages.TOPICS, self.rules, pages.name_for_man)

    @staticmethod
    def _prepared(references, document, topic, markdown):
        blocks = Blocks()
        return blocks.out_of(references.names(markdown), lambda part: references.resolve(document, topic, part)), blocks.taken

    def write_text(self, topic, document, markdown, before=""):
        markdown, blocks = self._prepared(self._in_text, document, topic, markdown)
        # A screen has no other letters for code: it keeps its quotes, as in what --help prints.
        markdown = CODE.sub(lambda found: rf"\``{found[1]}`\`" if found[1] else found[0], markdown)
        made = before + output.text(self._options.lowdown, markdown, blocks)
        for line in made.splitlines():
            if len(line) > COLUMNS and len(line.split()) > 1:
                raise Dead(f"topic {topic}: {len(line)} columns: {line}")
        (self._options.out / "slipstream" / "help" / f"{topic}.txt").write_text(made)

    def write_man(self, topic, number, document, markdown):
        markdown, blocks = self._prepared(self._in_man, document, topic, markdown)
        name = topic if topic == "slipstream" else f"slipstream-{topic}"
        made = output.man(self._options.lowdown, markdown, blocks, name, number, self._date, self._options.version)
        (self._options.out / "man" / f"man{number}" / f"{name}.{number}").write_text(made)

    def document(self, topic, path, number, about):
        text = (ROOT / path).read_text()
        self.write_text(topic, path, text)
        named = f"# NAME\n\nslipstream-{topic} - {about}\n\n# DESCRIPTION\n"
        self.write_man(topic, number, path, named + raised(without_title(text)) + "\n# SEE ALSO\n\n**slipstream**(1)\n")

    def verb(self, verb):
        shown = Help(self._options.command, verb)
        path, body = "README.md", ""
        if verb in pages.OF_VERBS:
            path = pages.OF_VERBS[verb]
            body = without_title((ROOT / path).read_text())
        elif verb in pages.SECTIONS_OF_VERBS:
            path, heading = pages.SECTIONS_OF_VERBS[verb]
            body = section((ROOT / path).read_text(), heading) + f"\nMore: [{pages.TOPICS[path]}]({pathlib.Path(path).name}).\n"
        self.write_text(verb, path, f"## About slipstream {verb}\n" + body if body else "", before=shown.text + "\n" if body else shown.text)
        man = shown.man_page() + (f"\n# DESCRIPTION\n\n{raised(body)}" if body else "")
        self.write_man(verb, 1, path, man + "\n# SEE ALSO\n\n**slipstream**(1)\n")

    def rule(self, name):
        body = section(self.advise, f"`{name}`")
        self.write_text(name, "docs/advise.md", f"# Advice: {name}\n\n{body}\nAll rules: [advise](advise.md).\n")

    def overview(self, verbs):
        readme = (ROOT / "README.md").read_text()
        shown = Help(self._options.command)
        begin = without_title(readme).partition("\n## ")[0]
        rest = "".join(f"\n## {heading}\n{section(readme, heading)}" for heading in pages.OF_README)
        self.write_text("slipstream", "README.md", f"# slipstream\n{begin}{rest}")
        pages_of_man = [pages.name_for_man(topic) for topic in (*verbs, *pages.NUMBERS)]
        self.write_man("slipstream", 1, "README.md", shown.man_page() + f"\n# DESCRIPTION\n{begin}{raised(rest)}"
                       + "\n# SEE ALSO\n\n" + ",\n".join(pages_of_man) + "\n")

    def topics(self):
        """What `slipstream help` lists below the commands."""
        lines = ["Topics (`slipstream help TOPIC`; each command is one too):"]
        for topic, about in (("slipstream", "what slipstream is, changes, and cannot do"), *((one[0], one[3]) for one in pages.DOCUMENTS)):
            lines += textwrap.wrap(about, COLUMNS, initial_indent=f"  {topic:<22}", subsequent_indent=" " * 24)
        lines += ["", "Rules of advice (`slipstream help RULE`):"]
        lines += textwrap.wrap(", ".join(self.rules), COLUMNS, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        (self._options.out / "slipstream" / "topics").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", type=pathlib.Path, required=True)
    parser.add_argument("--lowdown", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()

    for folder in (options.out / "man", options.out / "slipstream" / "help"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for number in (1, 5, 7):
        (options.out / "man" / f"man{number}").mkdir()
    manual = Manual(options)
    verbs = Help(options.command).commands
    manual.overview(verbs)
    for verb in verbs:
        manual.verb(verb)
    for document in pages.DOCUMENTS:
        manual.document(*document)
    for rule in manual.rules:
        manual.rule(rule)
    manual.topics()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Dead as dead:
        sys.exit(f"make.py: {dead}")
    except subprocess.CalledProcessError as failed:
        sys.exit(f"make.py: {failed}\n{failed.stderr}")
