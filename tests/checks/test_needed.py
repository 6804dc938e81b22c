"""needed.py finds a library, a path or a permission that should not be there."""

import unittest

from support import CheckTest

PLAIN = 'extern "C" int cudaMalloc() { return 0; }\n'


class Needed(CheckTest):
    def check(self, source, *flags, arguments=()):
        return self.run_check("needed", self.compile_library(source, None, *flags), *arguments)

    def test_the_c_library_alone(self):
        self.assert_fine(self.check(PLAIN))

    def test_a_cuda_library(self):
        stand_in = self.compile_library('extern "C" int cuInit() { return 0; }\n', None, "-Wl,-soname,libcudart.so.13")
        stand_in.rename(self.scratch / "libcudart.so")
        done = self.check('extern "C" int cuInit(); int f() { return cuInit(); }\n', f"-L{self.scratch}", "-lcudart")
        self.assert_finds(done, "DT_NEEDED has libcudart.so.13")

    def test_a_shared_c_plus_plus_library(self):
        done = self.check(PLAIN, "-Wl,--no-as-needed", "-l:libstdc++.so.6")
        self.assert_finds(done, "DT_NEEDED has libstdc++.so.6")

    def test_a_sanitizer_only_where_allowed(self):
        flags = ("-fsanitize=undefined",)
        source = 'extern "C" int cudaMalloc(int a, int b) { return a / b; }\n'
        self.assert_finds(self.check(source, *flags), "DT_NEEDED has libubsan.so")
        self.assert_fine(self.check(source, *flags, arguments=("--allow", "libubsan.so")))
        self.assert_finds(self.check(source, *flags, arguments=("--allow", "libasan.so")), "libubsan.so")

    def test_a_run_path(self):
        self.assert_finds(self.check(PLAIN, "-Wl,-rpath,/opt/x"), "DT_RUNPATH is set")
        self.assert_finds(self.check(PLAIN, "-Wl,-rpath,/opt/x", "-Wl,--disable-new-dtags"), "DT_RPATH is set")

    def test_an_executable_stack(self):
        self.assert_finds(self.check(PLAIN, "-Wl,-z,execstack"), "executable stack")

    def test_lazy_binding(self):
        self.assert_finds(self.check(PLAIN, "-Wl,-z,lazy"), "not linked with -z now")

    def test_text_relocations(self):
        # Today's x86-64 linkers refuse to make one, so the check is fed what readelf would say.
        from needed import problems_of

        self.assertEqual(problems_of([("FLAGS", "BIND_NOW")], "RW"), [])
        for entries in ([("TEXTREL", "0x0"), ("FLAGS", "BIND_NOW")], [("FLAGS", "TEXTREL BIND_NOW")]):
            self.assertIn("text relocations", " ".join(problems_of(entries, "RW")))
        self.assertIn("GNU_STACK", " ".join(problems_of([("FLAGS", "BIND_NOW")], None)))


if __name__ == "__main__":
    unittest.main()
