#!/usr/bin/env python3
"""`slipstream help`, and the pages for man, as the build has made them.

    manual.py BUILD

Every topic that a page, a message of the command or a document names has a page; on a terminal pages go through a pager, elsewhere they
are plain text of 80 columns.
"""

import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build" / "release"
COMMAND = BUILD / "slipstream"
SHARE = BUILD / "share"
PAGES = SHARE / "slipstream" / "help"
SKIPPED = 77
# Where words for the reader stand; what only tests or builds says nothing to him.
SOURCES = ("allocator", "cuda", "policy", "shim", "tools/cli", "tools/compare", "tools/python", "tools/text", "tools/trace", "tools/tune",
           "tracer", "transfer")
NAMED = r"slipstream help ([a-z][a-z0-9-]*)"


def run(*words, command=COMMAND, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_") and name not in ("PAGER", "LESS")}
    return subprocess.run([command, *words], capture_output=True, text=True, env={**kept, **variables}, stdin=subprocess.DEVNULL, check=False)


def on_terminal(*words, **variables):
    """What a terminal shows."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_") and name not in ("PAGER", "LESS")}
    ours, theirs = pty.openpty()
    process = subprocess.Popen([COMMAND, *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env={**kept, "TERM": "xterm", **variables})
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(60), shown.decode().replace("\r\n", "\n")


def topics():
    return {path.stem for path in PAGES.glob("*.txt")}


class Topics(unittest.TestCase):
    def test_the_list_has_every_topic(self):
        done = run("help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), 80, line)
        words = set(re.findall(r"[a-z][a-z0-9-]+", done.stdout))
        self.assertEqual(topics() - words, set())
        below = done.stdout[done.stdout.index("\nTopics "):]
        listed = set(re.findall(r"^  ([a-z-]+)  ", below, re.MULTILINE))
        self.assertGreater(len(listed), 10)
        self.assertEqual(listed - topics(), set())

    def test_each_is_plain_text_of_80_columns(self):
        self.assertGreater(len(topics()), 60)
        for topic in sorted(topics()):
            done = run("help", topic, TERM="xterm")  # in a pipe
            self.assertEqual((done.returncode, done.stderr), (0, ""), topic)
            self.assertNotRegex(done.stdout, r"[\x00-\x08\x0b-\x1f\x7f]", topic)
            self.assertNotIn("@@", done.stdout, topic)
            for line in done.stdout.splitlines():
                if len(line.split()) > 1:  # a path of more than that is not broken
                    self.assertLessEqual(len(line), 80, f"{topic}: {line}")

    def test_a_verb_shows_its_options_and_its_document(self):
        page = run("help", "report").stdout
        self.assertTrue(page.startswith(run("report", "--help").stdout), page[:200])
        self.assertIn("\nAbout slipstream report\n", page)
        self.assertIn("`--steps N`", run("help", "run").stdout)  # code keeps its quotes
        self.assertEqual(run("help", "policy", "diff").stdout, run("policy", "diff", "--help").stdout)
        self.assertIn("TOPIC", run("help", "--help").stdout)
        self.assertEqual(run("help", "run", "--help").stdout, run("run", "--help").stdout)

    def test_shells_complete_topics(self):
        for shell in ("bash", "zsh", "fish"):
            script = run("completion", shell).stdout
            for topic in ("effects", "exposed-copies"):
                self.assertRegex(script, rf"\b{topic}\b", shell)

    def test_every_verb_is_a_topic(self):
        verbs = re.findall(r"^  ([a-z]+)  ", run("--help").stdout.partition("\nCommands:\n")[2], re.MULTILINE)
        self.assertGreater(len(verbs), 10)
        self.assertEqual(set(verbs) - topics(), set())

    def test_every_rule_is_a_topic_of_its_own(self):
        rules = re.findall(r"^([a-z0-9-]+)  ", run("advise", "--list").stdout, re.MULTILINE)
        self.assertGreater(len(rules), 30)
        advise = (ROOT / "docs" / "advise.md").read_text()
        for rule in rules:
            page = " ".join(run("help", rule).stdout.replace("`", "").split())
            self.assertTrue(page.startswith(f"Advice: {rule} "), page[:80])
            section = advise.partition(f"### `{rule}`\n")[2]
            first = " ".join(section.split("(")[0].split(".")[0].split()[:5]).replace("`", "")
            self.assertIn(first, page)
            self.assertNotIn("###", page)

    def test_what_is_named_anywhere_is_there(self):
        texts = {path.name: path.read_text() for path in (*PAGES.iterdir(), PAGES.parent / "topics")}
        for path in [*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md",
                     *(file for folder in SOURCES for file in (ROOT / folder).rglob("*") if file.suffix in (".cpp", ".h", ".py", ".def"))]:
            texts[str(path)] = re.sub(r'"\s*\n\s*"', "", path.read_text())  # a message in several strings
        named = 0
        for place, text in texts.items():
            # On a page, code that is no reference has no quotes: "slipstream help or man slipstream".
            for found in re.compile(("`" if place.endswith(".txt") else "") + NAMED).finditer(" ".join(text.replace("\\n", " ").split())):
                named += 1
                self.assertIn(found[1], topics(), f"{place}: {found[0]}")
        self.assertGreater(named, 50)

    def test_no_binary_names_a_file_that_is_not_installed(self):
        for binary in (COMMAND, BUILD / "libslipstream.so"):
            found = re.findall(rb"docs/[\w-]+\.md", binary.read_bytes())
            self.assertEqual(set(found), set(), binary.name)

    def test_no_such_topic(self):
        for word, said in (("efects", 'no help on "efects"; did you mean effects?'), ("frobnicate", 'no help on "frobnicate"'),
                           ("../../slipstream/help/run", 'no help on "../../slipstream/help/run"'), ("reprt", "did you mean report?")):
            done = run("help", word)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(said, done.stderr)
            self.assertIn("`slipstream help` lists the topics", done.stderr)


class Pager(unittest.TestCase):
    def test_the_users_own(self):
        status, shown = on_terminal("help", "effects", PAGER="sed 's/^/> /'")
        self.assertEqual(status, 0)
        self.assertEqual(shown, "".join(f"> {line}\n" for line in run("help", "effects").stdout.splitlines()))

    def test_none_on_a_dumb_terminal_or_where_none_is_wanted(self):
        page = run("help", "effects").stdout
        self.assertEqual(on_terminal("help", "effects", PAGER="sed 's/^/> /'", TERM="dumb"), (0, page))
        self.assertEqual(on_terminal("help", "effects", PAGER=""), (0, page))

    def test_less_where_there_is_no_other(self):
        with tempfile.TemporaryDirectory() as folder:
            less = pathlib.Path(folder) / "less"
            less.write_text('#!/bin/sh\necho "less $LESS"\ncat\n')
            less.chmod(0o755)
            status, shown = on_terminal("help", "effects", PATH=f"{folder}:{os.environ['PATH']}")
            self.assertEqual(status, 0)
            self.assertEqual(shown, "less FRX\n" + run("help", "effects").stdout)
            # A machine without one.
            less.unlink()
            (pathlib.Path(folder) / "cat").symlink_to(shutil.which("cat"))
            self.assertEqual(on_terminal("help", "effects", PATH=folder), (0, run("help", "effects").stdout))


class WithoutPages(unittest.TestCase):
    """As it is built where lowdown is missing."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.command = pathlib.Path(folder.name) / "bin" / "slipstream"
        self.command.parent.mkdir()
        shutil.copy(COMMAND, self.command)

    def test_it_says_where_to_read(self):
        done = run("help", command=self.command)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith(run("--help").stdout))
        self.assertIn("built without its manual", done.stdout)
        done = run("help", "effects", command=self.command)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('no help on "effects"\n', done.stderr)
        self.assertIn("folder docs of its sources", done.stderr)

    def test_verbs_have_their_options(self):
        done = run("help", "report", command=self.command)
        self.assertEqual((done.returncode, done.stdout), (0, run("report", "--help").stdout))


class Man(unittest.TestCase):
    def test_every_verb_and_document_has_a_page(self):
        names = {path.name for path in SHARE.glob("man/man*/*")}
        verbs = re.findall(r"^  ([a-z]+)  ", run("--help").stdout.partition("\nCommands:\n")[2], re.MULTILINE)
        self.assertLessEqual({"slipstream.1", "slipstream-effects.7", "slipstream-trace.5", *(f"slipstream-{verb}.1" for verb in verbs)}, names)

    def test_pages_name_pages_that_are_there(self):
        names = {path.name for path in SHARE.glob("man/man*/*")}
        count = 0
        for path in SHARE.glob("man/man*/*"):
            for name, section in re.findall(r"\\fB(slipstream[a-z-]*)\\fR\((\d)\)", path.read_text()):
                count += 1
                self.assertIn(f"{name}.{section}", names, path.name)
        self.assertGreater(count, 50)

    def test_mandoc_has_no_warning(self):
        if shutil.which("mandoc") is None:
            self.skipTest("mandoc is not here (Debian: apt install mandoc)")
        for path in sorted(SHARE.glob("man/man*/*")):
            done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", path], capture_output=True, text=True, check=False)
            self.assertEqual(done.stdout + done.stderr, "", path.name)

    def test_man_finds_them_beside_a_folder_of_the_path(self):
        """As in a virtual environment: bin is in PATH, share/man beside it."""
        if shutil.which("man") is None or run("-w", "true", command="man").returncode not in (0, 16):
            self.skipTest("man is not here")
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            (place / "bin").mkdir()
            (place / "share").mkdir()
            (place / "share" / "man").symlink_to(SHARE / "man")
            for page in ("slipstream", "slipstream-run", "slipstream-effects"):
                done = run("-w", page, command="man", PATH=f"{place / 'bin'}:{os.environ['PATH']}", MANPATH="")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(str(SHARE / "man"), str(pathlib.Path(done.stdout.strip()).resolve()))


if __name__ == "__main__":
    if not PAGES.is_dir():
        print(f"{PAGES} is not there: slipstream was built without its manual (lowdown was missing)")
        sys.exit(SKIPPED)
    unittest.main()
