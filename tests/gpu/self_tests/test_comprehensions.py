"""No comprehension binds a name that its function has from an outer one.

Python 3.12 compiles comprehensions into their function and loses such a name on the way: a nested function then ends in
"NameError: cannot access free variable". Other versions do not, so only reading the sources shows it.
"""

import symtable
import unittest

from support import REPOSITORY

COMPREHENSIONS = ("listcomp", "setcomp", "dictcomp")
FOLDERS = ("tests", "tools", "bench")


def is_python(path):
    return path.suffix == ".py" or (path.suffix == "" and path.read_bytes().startswith(b"#!/usr/bin/env python3"))


def hidden_names(source, name="source"):
    """["line: names", ...] of the comprehensions in a source."""
    found = []

    def visit(table):
        children = table.get_children()
        if table.get_type() == "function":
            outer = set(table.get_frees())
            for child in children:
                bound = {symbol.get_name() for symbol in child.get_symbols() if symbol.is_local()}
                if child.get_name() in COMPREHENSIONS and bound & outer:
                    found.append(f"{child.get_lineno()}: {', '.join(sorted(bound & outer))}")
        for child in children:
            visit(child)

    visit(symtable.symtable(source, name, "exec"))
    return found


class Comprehensions(unittest.TestCase):
    def test_an_outer_functions_name(self):
        nested = "def outer(name):\n def check():\n  def run(): return name\n  return run(), [name for name in {}]\n"
        self.assertEqual(["4: name"], hidden_names(nested))
        self.assertEqual([], hidden_names(nested.replace("[name for name", "[other for other")))

    def test_every_source(self):
        sources = [path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*")]
        sources = [path for path in sources if path.is_file() and is_python(path)]
        self.assertGreater(len(sources), 50)
        for path in sources:
            with self.subTest(path=path):
                self.assertEqual([], hidden_names(path.read_text(), str(path)))


if __name__ == "__main__":
    unittest.main()
