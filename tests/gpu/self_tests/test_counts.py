"""The checker of counts on canned files: what is equal passes, and every kind of difference is found."""

import copy
import os
import shutil
import subprocess
import unittest

import support
from suite import counts
from suite.harness import Failed

HOOKED = [
    "cudaMalloc",
    "cudaMemcpyAsync",
    "cudaMemcpyAsync_ptsz",
    "cudaStreamSynchronize",
    "cudaLaunchKernel",
    "__cudaLaunchKernel",
    "cudaEventDestroy",
    "__cudaRegisterFatBinary",
    "cudaMemPrefetchAsync",
    "cudaMemPrefetchAsync_v2",
]


def cupti(pid=7, launches=100, mallocs=4, destroyed_at_exit=0, static=30, **attribution):
    def calls(number, at_mark=None):
        return {"at_mark": number if at_mark is None else at_mark, "at_exit": number}

    return {
        "schema": "cupti-count-1",
        "pid": pid,
        "libcupti": "libcupti.so.13",
        "error": "",
        "attribution": {
            "agree": 1,
            "disagree": 0,
            "frames_only": 0,
            "name_only": 0,
            "neither": 0,
            "beyond_table": 0,
            **attribution,
        },
        "modules": [
            {
                "path": "/x/libcudart.so.13",
                "shared_runtime": True,
                "functions": {
                    "cudaMalloc_v3020": calls(mallocs),
                    "cudaMemcpyAsync_v3020": calls(10),
                    "cudaStreamSynchronize_v3020": calls(10),
                    "cudaLaunchKernel_v7000": calls(launches),
                    "cudaEventDestroy_v3020": calls(5 + destroyed_at_exit, 5),
                    "cudaGetDeviceCount_v3020": calls(2),
                },
                "callers": {
                    "libslipstream.so": {"cudaMalloc_v3020": mallocs - 1},
                    "libother.so": {"cudaMalloc_v3020": 1, "cudaGetDeviceCount_v3020": 2},
                },
            },
            {
                "path": "/x/libcublasLt.so.13",
                "shared_runtime": False,
                "functions": {"cudaLaunchKernel_v7000": calls(static), "cudaMalloc_v3020": calls(1)},
            },
        ],
    }


def ours(launches=100, mallocs=4, destroyed=5):
    return {
        "cudaMalloc": mallocs,
        "cudaMemcpyAsync": 10,
        "cudaStreamSynchronize": 10,
        "cudaLaunchKernel": 0,
        "__cudaLaunchKernel": launches,
        "cudaEventDestroy": destroyed,
        "__cudaRegisterFatBinary": 12,
    }


def compare(our_counts, record):
    return counts.compare_process(our_counts, counts.CuptiCounts(record), HOOKED)


class HookTable(unittest.TestCase):
    def expanded(self, definition):
        """The words that the preprocessor makes of the table."""
        compiler = os.environ.get("GPU_TEST_CXX") or shutil.which("g++")
        if not compiler:
            self.skipTest("no C++ compiler")
        table = support.REPOSITORY / "shim" / "hooks.def"
        command = [compiler, "-E", "-P", "-x", "c++", "-I", str(support.REPOSITORY), f"-D{definition}", str(table)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.replace("@", "").split()

    def test_is_what_the_preprocessor_makes_of_it(self):
        expected = self.expanded("HOOK_NAME(group, function)=@ function")
        self.assertGreater(len(expected), 200)
        self.assertEqual(sorted(expected), sorted(counts.hook_table()))

    def test_the_drivers_rows_are_what_the_preprocessor_makes_of_them(self):
        if not counts.driver_hook_table():
            self.skipTest("no function of the driver is hooked in this tree")
        names = self.expanded("HOOK_DRIVER_NAME(group, function, name)=@ name")
        names = [name.strip('"') for name in names if name.startswith('"')]
        self.assertEqual(sorted(names), sorted(counts.driver_hook_table()))

    def test_names_of_the_drivers_rows(self):
        text = (
            "// HOOK_DRIVER(group, function)\n// ---- kCopy\nHOOK_DRIVER(kCopy, cuMemAlloc_v2, (x), (x), Bytes(x))\n"
            "HOOK_DRIVER_PTSZ(kCopy, cuMemcpyAsync,\n  (x), (x), Bytes(x))\nHOOK_DRIVER_V1(kCopy, cuMemAdvise, (x))\n"
            "HOOK_DRIVER_V1_PTSZ(kCopy, cuMemPrefetchAsync, (x))\nHOOK_DRIVER_PTDS(kCopy, cuMemcpy, (x))\n"
        )
        expected = ["cuMemAlloc_v2", "cuMemcpyAsync", "cuMemcpyAsync_ptsz", "cuMemAdvise", "cuMemPrefetchAsync"]
        self.assertEqual([*expected, "cuMemPrefetchAsync_ptsz", "cuMemcpy", "cuMemcpy_ptds"], counts.hook_names(text))


class Names(unittest.TestCase):
    def test_version_of_the_callback(self):
        self.assertEqual("cudaLaunchKernel_ptsz", counts.strip_version("cudaLaunchKernel_ptsz_v7000"))
        self.assertEqual("cudaStreamGetCaptureInfo_v2", counts.strip_version("cudaStreamGetCaptureInfo_v2_v11030"))
        self.assertEqual("cudaMemPrefetchAsync_v2", counts.strip_version("cudaMemPrefetchAsync_v2"))

    def test_names_of_one_function(self):
        self.assertEqual("cudaLaunchKernel_ptsz", counts.common_name("__cudaLaunchKernel_ptsz"))
        self.assertEqual("cudaMemPrefetchAsync_ptsz", counts.common_name("cudaMemPrefetchAsync_v2_ptsz"))
        self.assertEqual("cudaStreamGetCaptureInfo", counts.common_name("cudaStreamGetCaptureInfo_v3"))
        self.assertEqual("__cudaRegisterFatBinary", counts.common_name("__cudaRegisterFatBinary"))


class Process(unittest.TestCase):
    def test_equal(self):
        rows, problems, notes = compare(ours(), cupti())
        self.assertEqual(([], []), (problems, notes))
        self.assertEqual({"slipstream": 100, "cupti": 100}, rows["cudaLaunchKernel"])

    def test_one_call_missed(self):
        for missed in (ours(launches=99), ours(mallocs=3), {**ours(), "cudaMemcpyAsync": 11}):
            _, problems, _ = compare(missed, cupti())
            self.assertEqual(1, len(problems), problems)

    def test_static_runtimes_do_not_count(self):
        _, problems, _ = compare(ours(launches=130), cupti())
        self.assertEqual(["cudaLaunchKernel: slipstream 130, CUPTI 100"], problems)

    def test_calls_at_exit_may_come_after_the_books_were_closed(self):
        for destroyed, wrong in ((5, False), (6, False), (8, False), (4, True), (9, True)):
            _, problems, notes = compare(ours(destroyed=destroyed), cupti(destroyed_at_exit=3))
            self.assertEqual(wrong, bool(problems), (destroyed, problems))
            self.assertEqual(["cudaEventDestroy 3 at exit"], notes)

    def test_launches_must_be_exact_even_at_exit(self):
        record = cupti()
        record["modules"][0]["functions"]["cudaLaunchKernel_v7000"] = {"at_mark": 98, "at_exit": 100}
        _, problems, _ = compare(ours(launches=99), record)
        self.assertEqual(1, len(problems), problems)

    def test_nothing_called_is_no_success(self):
        record = cupti()
        record["modules"][0]["functions"] = {}
        _, problems, _ = compare({}, record)
        self.assertEqual(len(counts.MUST_OCCUR), len(problems))

    def test_a_function_outside_the_table(self):
        _, problems, _ = compare({**ours(), "cudaInvented": 1}, cupti())
        self.assertEqual(1, len(problems))

    def test_what_no_hook_saw(self):
        found = counts.unseen(counts.CuptiCounts(cupti()), HOOKED)
        self.assertEqual({"libcublasLt.so.13": {"cudaLaunchKernel": 30, "cudaMalloc": 1}}, found["static_runtime"])
        self.assertEqual({"cudaGetDeviceCount": 2}, found["not_hooked"])
        self.assertEqual({"libother.so": {"cudaMalloc": 1}}, found["past_the_hook"])

    def test_a_counter_that_failed(self):
        with self.assertRaises(Failed):
            counts.CuptiCounts({**cupti(), "error": "CUPTI refused the subscription: error 39"})
        self.assertEqual(3, counts.CuptiCounts(cupti(neither=1, disagree=2)).unplaced())

    def test_the_process_is_found_by_its_id(self):
        function = {"name": "cudaMalloc", "calls": 2}
        summary = {"processes": [{"pid": 1, "functions": [function]}, {"pid": 2, "functions": [function, function]}]}
        self.assertEqual({"cudaMalloc": 4}, counts.slipstream_counts(summary, 2))
        self.assertEqual({"cudaMalloc": 6}, counts.slipstream_counts(summary))
        self.assertFalse(counts.slipstream_counts(summary, 3))


class Steps(unittest.TestCase):
    def test_difference_of_two_runs(self):
        few, many = counts.CuptiCounts(cupti()), counts.CuptiCounts(cupti(launches=180))
        rows, problems = counts.compare_difference(ours(), ours(launches=180), few, many, HOOKED)
        self.assertEqual([], problems)
        self.assertEqual({"cudaLaunchKernel": {"slipstream": 80, "cupti": 80}}, rows)
        # A constant error cancels; one of the steps does not.
        self.assertEqual([], counts.compare_difference(ours(99), ours(179), few, many, HOOKED)[1])
        self.assertEqual(1, len(counts.compare_difference(ours(), ours(launches=179), few, many, HOOKED)[1]))
        self.assertEqual(1, len(counts.compare_difference(ours(), ours(), few, few, HOOKED)[1]))

    def test_against_the_profiler(self):
        few, many = counts.CuptiCounts(cupti()), counts.CuptiCounts(cupti(launches=180, static=54))
        record = {
            "windows": [
                {"steps": 1, "counts": {"cuda_runtime": {"cudaLaunchKernel": 999}}},
                {"steps": 4, "counts": {"cuda_runtime": {"cudaLaunchKernel": 50, "cudaDeviceSynchronize": 2}}},
                {"steps": 12, "counts": {"cuda_runtime": {"cudaLaunchKernel": 154, "cudaDeviceSynchronize": 2}}},
            ]
        }
        profiled = counts.profiler_steps(record)
        self.assertEqual(104, profiled["cudaLaunchKernel"])
        rows, problems = counts.compare_profiler(profiled, ours(), ours(launches=180), few, many, HOOKED)
        self.assertEqual([], problems)
        self.assertEqual({"slipstream": 80, "profiler": 104, "static_runtime": 24}, rows["cudaLaunchKernel"])
        wrong = copy.deepcopy(record)
        wrong["windows"][2]["counts"]["cuda_runtime"]["cudaLaunchKernel"] += 1
        profiled = counts.profiler_steps(wrong)
        self.assertEqual(1, len(counts.compare_profiler(profiled, ours(), ours(launches=180), few, many, HOOKED)[1]))
        # A copy that slipstream missed and the profiler saw.
        wrong["windows"][2]["counts"]["cuda_runtime"] = {"cudaLaunchKernel": 154, "cudaMemcpyAsync": 8}
        profiled = counts.profiler_steps(wrong)
        self.assertIn(
            "cudaMemcpyAsync", counts.compare_profiler(profiled, ours(), ours(launches=180), few, many, HOOKED)[1][0]
        )


if __name__ == "__main__":
    unittest.main()
