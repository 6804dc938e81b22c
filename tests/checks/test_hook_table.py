"""hook_table.py finds a misspelled row, a wrong version, a function in neither list, and one that no CUDA has."""

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
#ifndef HOOK_LATER13
#define HOOK_LATER13(group, function, words, detail) HOOK_WORDS(group, function, words, kCuda13, detail)
#endif
HOOK(kFree, cudaFree, (void* devPtr), (devPtr), NoDetail())
HOOK_PTSZ(kCopy, cudaMemcpyAsync, (void* dst, const void* src), (dst, src), Copy(1, 2))
HOOK_SINCE13(kPool, cudaMemGetMemPool, (), (), NoDetail())
HOOK_WORDS(kManaged, cudaMemAdvise_v2, 4, kCuda12, NoDetail())
HOOK_LATER13(kLaunch, cudaLaunchHostFunc_v2, 4, NoDetail())
"""
BOTH = ["cudaFree", "cudaMemcpyAsync", "cudaMemcpyAsync_ptsz", "cudaGetErrorString", "cudaGraphMemcpyNodeGetParams"]
UNHOOKED = "// Answers.\nUNHOOKED(cudaGetErrorString)\n\n// They describe.\nUNHOOKED(cudaGraphMemcpyNodeGetParams)\n\n#undef UNHOOKED\n"


class HookTable(CheckTest):
    def library(self, version, names):
        functions = "".join(f'extern "C" int {name}() {{ return 0; }}\n' for name in names)
        library = self.compile_library(functions, f"libcudart.so.13 {{ global: cuda*; local: *; }};")
        return library.rename(self.scratch / f"libcudart.{version}")

    def check(self, table=TABLE, in12=(), in13=(), latest=("cudaLaunchHostFunc_v2",), unhooked=UNHOOKED, without13=()):
        names13 = [name for name in [*BOTH, "cudaMemGetMemPool", *in13] if name not in without13]
        return self.run_check(
            "hook_table", self.write("hooks.def", table), self.write("unhooked.def", unhooked),
            "--lib12", self.library(12, [*BOTH, "cudaMemAdvise_v2", *in12]), "--lib13", self.library(13, names13),
            "--lib-latest13", self.library("latest13", [*names13, *latest]))

    def test_all_in_order(self):
        self.assert_fine(self.check())
        self.assert_fine(self.check(in13=["cudaLaunchHostFunc_v2"], latest=()))

    def test_a_misspelled_row(self):
        done = self.check(TABLE.replace("cudaFree", "cudaFreee"))
        self.assert_finds(done, "cudaFreee: the row says CUDA 13, but its libcudart has no such function",
                          "cudaFree is neither in hooks.def nor in unhooked.def")

    def test_a_row_twice(self):
        self.assert_finds(self.check(TABLE + "HOOK(kFree, cudaFree, (), (), NoDetail())\n"), "cudaFree has two rows")

    def test_a_row_for_a_version_that_lacks_it(self):
        done = self.check(TABLE.replace("HOOK_SINCE13(kPool", "HOOK(kPool"))
        self.assert_finds(done, "cudaMemGetMemPool: the row says CUDA 12")

    def test_a_row_that_omits_a_version(self):
        self.assert_finds(self.check(in12=["cudaMemGetMemPool"]), "the libcudart of CUDA 12 has it, but the row does not say so")
        self.assert_finds(self.check(latest=["cudaLaunchHostFunc_v2", "cudaMemAdvise_v2"]), "the libcudart of CUDA latest13 has it")

    def test_a_later_row_that_the_latest_lacks(self):
        self.assert_finds(self.check(latest=()), "cudaLaunchHostFunc_v2: the row says CUDA latest13")
        self.assert_finds(self.check(in12=["cudaLaunchHostFunc_v2"]), "cudaLaunchHostFunc_v2: the libcudart of CUDA 12 has it")

    def test_a_name_that_a_newer_cuda_brings(self):
        for where in ("in12", "in13", "latest"):
            done = self.check(**{where: ["cudaLaunchHostFunc_v2"] * (where == "latest") + ["cudaGetSomethingElse"]})
            self.assert_finds(done, "cudaGetSomethingElse is neither in hooks.def nor in unhooked.def")
        self.assert_fine(self.check(in13=["cudaGetSomethingElse"],
                                    unhooked=UNHOOKED.replace("UNHOOKED(cudaGetE", "UNHOOKED(cudaGetSomethingElse)\nUNHOOKED(cudaGetE")))

    def test_rows_of_the_other_list(self):
        for more, found in (("// Was there once.\nUNHOOKED(cudaMallocGone)\n", "no CUDA here has cudaMallocGone"),
                            ("// But it is.\nUNHOOKED(cudaFree)\n", "cudaFree is hooked"),
                            ("// Again.\nUNHOOKED(cudaGetErrorString)\n", "cudaGetErrorString stands here twice"),
                            ("// Why.\nUNHOKED(cudaGetErrorString)\n", "expected \"UNHOOKED(function)\"")):
            self.assert_finds(self.check(unhooked=UNHOOKED + more), found)
        done = self.check(in13=["cudaNew"], unhooked=UNHOOKED + "\nUNHOOKED(cudaNew)\n")
        self.assert_finds(done, "cudaNew stands below no reason")

    def test_headers_alone(self):
        header = self.write("include/cuda_runtime_api.h",
                            "#define cudaMemcpyAsync __CUDART_API_PTSZ(cudaMemcpyAsync)\n"
                            "extern cudaError_t CUDARTAPI cudaFree(void*);\nextern cudaError_t CUDARTAPI cudaMemcpyAsync(void);\n"
                            "extern cudaError_t CUDARTAPI cudaMemGetMemPool(void);\nextern cudaError_t CUDARTAPI cudaMemsetNew(void);\n")
        done = self.run_check("hook_table", self.write("hooks.def", TABLE + "HOOK(kFree, cudaFreeNot, (), (), NoDetail())\n"),
                              self.write("unhooked.def", ""), "--include13", header.parent)
        self.assert_finds(done, "cudaFreeNot: no header of CUDA 13 declares it", "cudaMemsetNew is neither")
        self.assertNotIn("cudaMemcpyAsync_ptsz", done.stdout)

    def test_without_any_cuda_it_says_so(self):
        tables = self.write("hooks.def", TABLE), self.write("unhooked.def", UNHOOKED)
        done = self.run_check("hook_table", *tables)
        self.assertEqual(done.returncode, 77, done.stdout)
        for missing in ("12", "latest13"):
            done = self.run_check("hook_table", *tables, "--lib13", self.library(13, BOTH), "--require", missing)
            self.assertEqual(done.returncode, 77, done.stdout)

    def test_a_line_that_is_no_row(self):
        done = self.run_check("hook_table", self.write("hooks.def", TABLE + "HOKO(kFree, cudaFree)\n"),
                              self.write("unhooked.def", UNHOOKED), "--lib13", self.library(13, BOTH))
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no row", done.stderr)


if __name__ == "__main__":
    unittest.main()
