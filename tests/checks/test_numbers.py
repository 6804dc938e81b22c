"""numbers.py finds a number that is cited and not defined, and one that is defined and that no test names."""

import unittest

from support import CheckTest

RULES = "# Rules\n\n- **S52** One.\n- **S30b** Another.\n- **C3** A complaint.\n- **H4** A case.\n"
TESTS = "TEST(A, S52_C3_Works) {}\n// S30b: too.\n// H4\n"
TARGETS = "| number | target |\n| --- | --- |\n| T1 | fast |\n"


class Numbers(CheckTest):
    def check(self, tests=TESTS, rules=RULES, targets=TARGETS):
        self.write("docs/rules.md", rules)
        self.write("docs/targets.md", targets)
        self.write("tests/a_test.cpp", tests)
        self.write("tests/gpu/b.py", "# T1\n")
        return self.run_check("numbers", self.scratch)

    def test_all_are_there(self):
        self.assert_fine(self.check())

    def test_no_test_names_one(self):
        self.assert_finds(self.check(TESTS.replace("H4", "")), "no test names H4\n")
        self.assert_finds(self.check(TESTS.replace("S30b", "")), "no test names S30b\n")
        self.write("shim/a.cpp", "// C3\n")
        self.assert_finds(self.check(TESTS.replace("_C3", "")), "no test names C3\n")

    def test_a_complaint_is_in_the_name_of_a_test(self):
        self.assert_finds(self.check(TESTS.replace("_C3", "") + "// C3\n"), "no test is named for C3\n")
        self.assert_finds(self.check(TESTS.replace("_C3", "") + "// C3_Works\n"), "no test is named for C3\n")
        self.assert_fine(self.check(TESTS.replace("S52_C3_Works", "C3_Works") + "// S52\n"))
        self.assert_fine(self.check(TESTS.replace("TEST(A, S52_C3_Works", "TEST_F(A,\n       S52_C3_Works")))
        self.write("tests/torch/c.py", "def c03_works():\n    pass\n")
        self.assert_fine(self.check(TESTS.replace("_C3", "")))
        self.write("tests/torch/c.py", "def c18_works():\n    pass\n")
        self.assert_finds(self.check(), "C18 is not defined: tests/torch/c.py\n")

    def test_the_rule_itself_is_not_a_test_of_it(self):
        self.assert_finds(self.check(rules=RULES + "- **S53** As S52.\n"), "no test names S53\n")

    def test_one_is_not_defined(self):
        for text in ("// S99\n", "// (S99).\n", "// S99, S52\n", "Broken(Mutant::kS99Wait)\n"):
            self.write("shim/a.cpp", text)
            self.assert_finds(self.check(), "S99 is not defined: shim/a.cpp\n")
        (self.scratch / "shim" / "a.cpp").unlink()
        self.assert_finds(self.check(TESTS + "TEST(A, S98_Works) {}\n"), "S98 is not defined: tests/a_test.cpp\n")
        self.assert_finds(self.check(TESTS + "TEST(A, S52_C18_Works) {}\n"), "C18 is not defined: tests/a_test.cpp\n")
        self.assert_finds(self.check(TESTS + "def h05_stopped(side):\n"), "H5 is not defined: tests/a_test.cpp\n")
        self.write("README.md", "T12\n")
        self.assert_finds(self.check(), "T12 is not defined: README.md\n")

    def test_a_number_that_begins_as_another_is_not_that_one(self):
        self.assert_finds(self.check(TESTS.replace("S30b", "S30")), "S30 is not defined", "no test names S30b\n")

    def test_what_only_looks_like_one(self):
        self.write("docs/a.md", "H2D copies on an H100, #C3F0A1, v1.S12, a/S12, sim_S12, 0xC1, T4s, S3://, C++17, -S77\n")
        self.assert_fine(self.check())

    def test_a_mutant_that_nobody_runs(self):
        self.write("transfer/mutant.h", '  ROW(kS52, "S52", "a")  \\\n  ROW(kS30b, "S30bLater", "b")\n')
        self.write("tests/a/CMakeLists.txt", "add_rules(RULES S52 S30b)\n")
        self.assert_finds(self.check(), "no test breaks S30bLater\n")
        self.write("tests/a/CMakeLists.txt", "add_rules(RULES S52\n  S30bLater)\n")
        self.assert_fine(self.check())

    def test_one_is_defined_twice(self):
        self.assert_finds(self.check(rules=RULES + "- **S52** Again.\n"), "S52 is defined twice\n")


if __name__ == "__main__":
    unittest.main()
