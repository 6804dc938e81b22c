"""driver_table.py finds a misspelled row, a function that bypasses the table, a row twice, and a stale excuse."""

import unittest

from support import CheckTest

TABLE = """
#ifndef HOOK_DRIVER
#define HOOK_DRIVER(group, function, parameters, arguments, detail)
#endif
HOOK_DRIVER(kFree, cuMemFree_v2, (CUdeviceptr dptr), (dptr), NoDetail())
HOOK_DRIVER(kCopy, cuMemcpyAsync, (), (), NoDetail())
"""
HEADER = """
typedef int CUresult;
#ifndef __CUDA_API_VERSION_INTERNAL
#define cuMemFree cuMemFree_v2
#endif
CUresult cuMemFree(unsigned dptr);
#ifdef __CUDA_API_VERSION_INTERNAL
CUresult cuMemFree_v2(unsigned long dptr);
#endif
CUresult cuMemcpyAsync(void);
CUresult cuStreamGetFlags(void);
CUresult cuDeviceGetName(void);
"""
EXCUSES = "# why\ncuMemFree: replaced\ncuStreamGet*: reads\n"


class DriverTable(CheckTest):
    def check(self, table=TABLE, header=HEADER, excuses=EXCUSES):
        self.write("include/cudaProfiler.h", "")
        return self.run_check(
            "driver_table", self.write("shim/hooks.def", table), "--include", self.write("include/cuda.h", header).parent,
            "--not-hooked", self.write("not_hooked_driver.txt", excuses))

    def test_all_in_order(self):
        self.assert_fine(self.check())

    def test_a_misspelled_row(self):
        done = self.check(TABLE.replace("cuMemFree_v2", "cuMemFree_v3"))
        self.assert_finds(done, "cuMemFree_v3: cuda.h declares no such function", "cuMemFree_v2 is neither hooked nor")

    def test_a_function_that_bypasses_the_table(self):
        done = self.check(header=HEADER + "CUresult cuMemcpyAsync_v2(void);\n")
        self.assert_finds(done, "cuMemcpyAsync_v2 is neither hooked nor in not_hooked_driver.txt")

    def test_a_row_twice(self):
        done = self.check(TABLE + "HOOK_DRIVER(kCopy, cuMemcpyAsync, (), (), NoDetail())\n")
        self.assert_finds(done, "cuMemcpyAsync has two rows")

    def test_a_stale_excuse(self):
        self.assert_finds(self.check(excuses=EXCUSES + "cuNoSuch: gone\n"), "cuda.h has no cuNoSuch")

    def test_an_excuse_for_what_is_hooked(self):
        self.assert_finds(self.check(excuses=EXCUSES + "cuMemcpyAsync: why\n"), "cuMemcpyAsync is hooked")

    def test_no_header(self):
        self.assertEqual(self.check(header="#error none\n").returncode, 77)


if __name__ == "__main__":
    unittest.main()
