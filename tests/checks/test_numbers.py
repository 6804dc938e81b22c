"""numbers.py finds a number that no test names."""

import unittest

from support import CheckTest

ALL = [f"C{number}" for number in range(1, 20) if number != 17] + [f"S{number}" for number in range(50, 60)]


class Numbers(CheckTest):
    def check(self, *names):
        self.write("tests/a_test.cpp", "".join(f"TEST(A, {name}_Works) {{}}\n" for name in names))
        return self.run_check("numbers", self.scratch)

    def test_all_are_there(self):
        self.assert_fine(self.check(*ALL))

    def test_one_is_missing(self):
        self.assert_finds(self.check(*[name for name in ALL if name != "C1"]), "no test names C1\n")
        self.assert_finds(self.check(*[name for name in ALL if name != "S55"]), "no test names S55\n")

    def test_a_number_that_begins_as_another_is_not_that_one(self):
        self.assert_finds(self.check("S520", *[name for name in ALL if name != "S52"]), "no test names S52\n")

    def test_a_second_number_in_a_name_counts(self):
        self.assert_fine(self.check("S52_C3", *[name for name in ALL if name not in ("S52", "C3")]))

    def test_other_files_do_not_count(self):
        self.write("shim/a.cpp", "// C1\n")
        self.write("tests/checks/test_other.py", "# C1\n")
        self.assert_finds(self.check(*ALL[1:]), "no test names C1\n")


if __name__ == "__main__":
    unittest.main()
