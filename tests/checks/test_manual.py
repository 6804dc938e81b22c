"""What tools/dev/manual makes of Markdown: tables, links and code that fit a page, and an error for a link that leads nowhere."""

import sys
import unittest

from support import ROOT, CheckTest

sys.path.insert(0, str(ROOT / "tools" / "dev" / "manual"))
from source import Blocks, Dead, References, code, section  # noqa: E402  (the folder is known only now)


class Links(CheckTest):
    def setUp(self):
        super().setUp()
        self.write("docs/a.md", "# A\n\n## What is here\n\n### `stalls`\n")
        self.write("docs/advise.md", "# Advice\n\n### `stalls`\n")
        self.write("docs/maker.md", "# For those who build\n")
        self.references = References(self.scratch.resolve(), {"docs/a.md": "a", "docs/advise.md": "advise"}, ["stalls"], lambda topic: f"<{topic}>")

    def said(self, text, topic="b"):
        return self.references.resolve("docs/a.md", topic, text)

    def test_a_page_by_its_name(self):
        self.assertEqual(self.said("Every key is in [a.md](a.md)."), "Every key is in <a>.")
        self.assertEqual(self.said("It [waits\nthere](a.md#what-is-here) now"), 'It waits there (<a>, "What is here") now')
        self.assertEqual(self.said("It waits ([list](a.md))."), "It waits (list: <a>).")
        self.assertEqual(self.said("It waits (see [list](a.md))."), "It waits (see list \\[<a>\\]).")

    def test_a_part_of_the_same_page_by_its_heading(self):
        self.assertEqual(self.said("[what is here](#what-is-here)", topic="a"), '"What is here"')

    def test_a_rule_by_its_own_name(self):
        self.assertEqual(self.said("as [`stalls`](advise.md#stalls) does"), "as <stalls> does")

    def test_what_is_not_shipped(self):
        self.assertEqual(self.said("[maker](maker.md)"), "`docs/maker.md` of the sources")

    def test_code_is_left_alone(self):
        self.assertEqual(self.said("`a[0](b)` and [`x`](a.md)"), "`a[0](b)` and `x` (<a>)")

    def test_a_quote_that_is_not_closed_hides_no_link(self):
        self.assertEqual(self.said("| a `GLIBC' |\n| [a](a.md) and `b` |"), "| a `GLIBC' |\n| <a> and `b` |")
        self.assertEqual(self.said("a `GLIBC'\n\n[a](a.md) `b`"), "a `GLIBC'\n\n<a> `b`")
        self.assertEqual(self.said("`two\nlines [a](a.md)`"), "`two\nlines [a](a.md)`")

    def test_dead_links(self):
        for text in ("[x](none.md)", "[x](a.md#none)", "[x](#none)", "[x](../none)"):
            with self.assertRaises(Dead):
                self.said(text)
        with self.assertRaises(Dead):
            section("# A\n", "none")


class Shapes(unittest.TestCase):
    def out_of(self, text):
        blocks = Blocks()
        return blocks.out_of(text, lambda part: part), blocks.taken

    def test_a_narrow_table_stays_one(self):
        text, taken = self.out_of("| a | b |\n|---|---|\n| `1` | 2 \\| 3 |\n")
        self.assertEqual(taken, [["    a  b", "    -  -----", "    1  2 | 3"]])
        self.assertEqual(text.strip(), "@@BLOCK0@@")

    def test_a_wide_one_is_a_list(self):
        long = "word " * 20
        text, taken = self.out_of(f"| a | b | c |\n|---|---|---|\n| 1 | {long}| |\n| 2 | x | y |\n")
        self.assertEqual(taken, [])
        self.assertEqual(text.split("\n")[1:7], ["- **1**  ", f"  b: {long.strip()}", "", "- **2**  ", "  b: x  ", "  c: y"])

    def test_code_fits(self):
        self.assertEqual(code(["x = 1"]), ["        x = 1"])
        self.assertEqual(code(["y" * 78]), ["  " + "y" * 78])
        above = code(["slipstream top   # " + "word " * 16])
        self.assertEqual(above[-1].strip(), "slipstream top")
        self.assertTrue(all(line.strip().startswith("# ") and len(line) <= 80 for line in above[:-1]), above)
        broken = code(["slipstream run -- python train.py " + "--option " * 10])
        self.assertTrue(broken[0].endswith(" \\") and all(len(line) <= 80 for line in broken), broken)

    def test_comments_of_markdown_are_gone(self):
        text, taken = self.out_of("a\n\n<!-- x -->\n    code\n<!-- y -->\n")
        self.assertEqual(taken, [["        code"]])
        self.assertNotIn("<!--", text)


if __name__ == "__main__":
    unittest.main()
