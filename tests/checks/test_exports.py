"""exports.py finds a symbol too many, one too few, and a symbol version."""

import unittest

from support import CheckTest

TABLE = """
#ifndef HOOK_NAME
#define HOOK_NAME(group, function)
#endif
#ifndef HOOK
#define HOOK(group, function, parameters, arguments, detail) HOOK_NAME(group, function)
#endif
HOOK(kFree, cudaFree, (void* devPtr), (devPtr), NoDetail())
HOOK(kAllocate, cudaMalloc, (void** devPtr, size_t size), (devPtr, size), Bytes(size))
"""
BOTH = 'extern "C" { int cudaMalloc() { return 0; } int cudaFree() { return 0; } }\n'


class Exports(CheckTest):
    def check(self, source, version_script="{ global: cudaMalloc; cudaFree; local: *; };", table=TABLE):
        library = self.compile_library(source, version_script)
        return self.run_check("exports", library, self.write("hooks.def", table))

    def test_the_table_and_nothing_else(self):
        self.assert_fine(self.check(BOTH))

    def test_one_too_many(self):
        done = self.check(BOTH + 'extern "C" int cudaSetDevice() { return 0; }', "{ global: cuda*; local: *; };")
        self.assert_finds(done, "cudaSetDevice is exported and is no row")

    def test_without_a_version_script_everything_gets_out(self):
        self.assert_finds(self.check(BOTH + "namespace slipstream { int Helper() { return 1; } }", None), "Helper")

    def test_one_too_few(self):
        self.assert_finds(self.check(BOTH, "{ global: cudaMalloc; local: *; };"), "cudaFree is a row of the hook table and is not exported")

    def test_a_row_of_the_c_library(self):
        row = "#ifdef HOOK_LIBC\nHOOK_LIBC(munmap)\n#endif\n"
        done = self.check(BOTH, table=TABLE + row)
        self.assert_finds(done, "munmap is a row of the hook table and is not exported")
        script = "{ global: cudaMalloc; cudaFree; munmap; local: *; };"
        self.assert_fine(self.check(BOTH + 'extern "C" int munmap() { return 0; }', script, TABLE + row))

    def test_a_new_row_without_an_export(self):
        self.assert_finds(self.check(BOTH, table=TABLE + "HOOK(kDevice, cudaSetDevice, (), (), NoDetail())\n"), "cudaSetDevice is a row")

    def test_a_named_version_node(self):
        done = self.check(BOTH, "SLIPSTREAM_1 { global: cudaMalloc; cudaFree; local: *; };")
        self.assert_finds(done, "cudaMalloc carries the version SLIPSTREAM_1", "defines symbol versions")

    def test_a_variable_is_no_hook(self):
        self.assert_finds(self.check('extern "C" { int cudaMalloc() { return 0; } int cudaFree = 1; }'), "cudaFree is OBJECT, not FUNC")


if __name__ == "__main__":
    unittest.main()
