"""symbols.py finds work at load and unique symbols."""

import unittest

from support import CheckTest


class Symbols(CheckTest):
    def check(self, source, version_script=None):
        return self.run_check("symbols", self.compile_library(source, version_script))

    def test_nothing_at_load(self):
        self.assert_fine(self.check('int table[] = {1, 2}; extern "C" int cudaMalloc() { return table[0]; }\n'))

    def test_what_the_c_plus_plus_library_does_itself(self):
        source = '#include <stdexcept>\n#include <sstream>\nvoid f(int n) { std::ostringstream s; s << n; throw std::runtime_error(s.str()); }\n'
        done = self.check('extern "C" int cudaMalloc() { return 0; }\n' + source, "{ global: cudaMalloc; local: *; };")
        self.assert_fine(done)
        self.assertIn("_GLOBAL__sub_I_eh_alloc.cc", done.stdout)

    def test_a_static_object(self):
        source = "#include <string>\nstd::string global_name(40, 'x');\n"
        self.assert_finds(self.check(source), "runs when the library is loaded")

    def test_iostream(self):
        self.assert_finds(self.check("#include <iostream>\nvoid f() { std::cout << 1; }\n"), "runs when the library is loaded")

    def test_a_constructor_function(self):
        self.assert_finds(self.check("__attribute__((constructor)) static void AtLoad() { __asm__(\"\"); }\n"), "AtLoad")

    def test_a_unique_symbol(self):
        self.assert_finds(self.check("template <class T> struct S { static int value; };\ntemplate <class T> int S<T>::value = 3;\nint f() { return S<int>::value; }\n"),
                          "is a unique symbol")

    def test_thread_local_variables(self):
        source = "static thread_local char text[%d]; char* f() { return text; }\nextern \"C\" int cudaMalloc() { return 0; }\n"
        self.assert_fine(self.check(source % 255))
        self.assert_finds(self.check(source % 256), "256 bytes of thread-local variables")


if __name__ == "__main__":
    unittest.main()
