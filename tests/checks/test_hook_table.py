"""hook_table.py finds a misspelt row, a wrong version, a function that bypasses the table, and a stale excuse."""

import unittest

from support import CheckTest

TABLE = """
#ifndef HOOK_NAME
#define HOOK_NAME(group, function)
#endif
#ifndef HOOK
#define HOOK(group, function, parameters, arguments, detail) HOOK_NAME(group, function)
#endif
#ifndef HOOK_PTSZ
#define HOOK_PTSZ(group, function, parameters, arguments, detail) \\
  HOOK(group, function, parameters, arguments, detail) HOOK(group, function##_ptsz, parameters, arguments, detail)
#endif
#ifndef HOOK_SINCE13
#define HOOK_SINCE13(group, function, parameters, arguments, detail) HOOK(group, function, parameters, arguments, detail)
#endif
#ifndef HOOK_WORDS
#define HOOK_WORDS(group, function, words, runtimes, detail) HOOK_NAME(group, function)
#endif
HOOK(kFree, cudaFree, (void* devPtr), (devPtr), NoDetail())
HOOK_PTSZ(kCopy, cudaMemcpyAsync, (void* dst, const void* src), (dst, src), Copy(1, 2))
HOOK_SINCE13(kPool, cudaMemGetMemPool, (), (), NoDetail())
HOOK_WORDS(kManaged, cudaMemAdvise_v2, 4, kCuda12, NoDetail())
"""
BOTH = ["cudaFree", "cudaMemcpyAsync", "cudaMemcpyAsync_ptsz", "cudaGetErrorString", "cudaGraphMemcpyNodeGetParams"]
EXCUSES = "# why\ncudaGraphMemcpyNode*: describes\n"


class HookTable(CheckTest):
    def library(self, version, names):
        functions = "".join(f'extern "C" int {name}() {{ return 0; }}\n' for name in names)
        library = self.compile_library(functions, f"libcudart.so.{version} {{ global: cuda*; local: *; }};")
        return library.rename(self.scratch / f"libcudart.so.{version}")

    def check(self, table=TABLE, in12=(), in13=(), excuses=EXCUSES, without13=()):
        names13 = [name for name in [*BOTH, "cudaMemGetMemPool", *in13] if name not in without13]
        return self.run_check(
            "hook_table", self.write("hooks.def", table), "--lib12", self.library(12, [*BOTH, "cudaMemAdvise_v2", *in12]),
            "--lib13", self.library(13, names13), "--not-hooked", self.write("not_hooked.txt", excuses))

    def test_all_in_order(self):
        self.assert_fine(self.check())

    def test_a_misspelt_row(self):
        done = self.check(TABLE.replace("cudaFree", "cudaFreee"))
        self.assert_finds(done, "cudaFreee: the row says CUDA 13, but libcudart.so.13 has no such function",
                          "cudaFree is neither hooked nor in not_hooked.txt")

    def test_a_row_twice(self):
        self.assert_finds(self.check(TABLE + "HOOK(kFree, cudaFree, (), (), NoDetail())\n"), "cudaFree has two rows")

    def test_a_row_for_a_version_that_lacks_it(self):
        done = self.check(TABLE.replace("HOOK_SINCE13(", "HOOK("))
        self.assert_finds(done, "cudaMemGetMemPool: the row says CUDA 12")

    def test_a_row_that_omits_a_version(self):
        self.assert_finds(self.check(in12=["cudaMemGetMemPool"]), "libcudart.so.12 has it, but the row says only CUDA 13")

    def test_a_name_that_a_newer_cuda_brings(self):
        self.assert_finds(self.check(in13=["cudaMallocAsync_v9"]), "cudaMallocAsync_v9 is neither hooked nor")
        self.assert_fine(self.check(in13=["cudaMallocAsync_v9"], excuses=EXCUSES + "cudaMallocAsync_v9: a test says so\n"))

    def test_a_name_that_is_of_no_interest(self):
        self.assert_fine(self.check(in13=["cudaGetSomethingElse"]))

    def test_a_stale_excuse(self):
        self.assert_finds(self.check(excuses=EXCUSES + "cudaMallocGone: was there once\n"), "no CUDA here has cudaMallocGone")
        self.assert_finds(self.check(excuses=EXCUSES + "cudaFree: but it is\n"), "cudaFree is hooked")

    def test_an_excuse_without_a_reason(self):
        self.assert_finds(self.check(excuses=EXCUSES + "cudaMallocX:\n"), "expected \"name: reason\"")

    def test_headers_alone(self):
        header = self.write("include/cuda_runtime_api.h",
                            "#define cudaMemcpyAsync __CUDART_API_PTSZ(cudaMemcpyAsync)\n"
                            "extern cudaError_t CUDARTAPI cudaFree(void*);\nextern cudaError_t CUDARTAPI cudaMemcpyAsync(void);\n"
                            "extern cudaError_t CUDARTAPI cudaMemGetMemPool(void);\nextern cudaError_t CUDARTAPI cudaMemsetNew(void);\n")
        done = self.run_check("hook_table", self.write("hooks.def", TABLE + "HOOK(kFree, cudaFreeNot, (), (), NoDetail())\n"),
                              "--include13", header.parent, "--not-hooked", self.write("not_hooked.txt", ""))
        self.assert_finds(done, "cudaFreeNot: no header of CUDA 13 declares it", "cudaMemsetNew is neither")
        self.assertNotIn("cudaMemcpyAsync_ptsz", done.stdout)

    def test_without_any_cuda_it_says_so(self):
        done = self.run_check("hook_table", self.write("hooks.def", TABLE))
        self.assertEqual(done.returncode, 77, done.stdout)
        done = self.run_check("hook_table", self.write("hooks.def", TABLE), "--lib13", self.library(13, BOTH), "--require", "12")
        self.assertEqual(done.returncode, 77, done.stdout)

    def test_a_line_that_is_no_row(self):
        done = self.run_check("hook_table", self.write("hooks.def", TABLE + "HOKO(kFree, cudaFree)\n"), "--lib13", self.library(13, BOTH))
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no row", done.stderr)


if __name__ == "__main__":
    unittest.main()
