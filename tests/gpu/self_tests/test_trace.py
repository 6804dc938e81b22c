"""The group trace: what it compares, and that each difference is found."""

import unittest

import support  # noqa: F401  pylint: disable=unused-import  (finds the suite)
from suite import trace

LINES = [
    ("cudaMemcpyAsync_v3020", "/data/me/train_lm.py", 12, 8),
    ("cudaMemcpyAsync_ptsz_v7000", "/data/me/train_lm.py", 12, 100),
    ("cudaMemcpyAsync_v3020", "/data/me/other.py", 3, 1),
    ("cudaMemcpyAsync_v3020", None, None, 1),
    ("cudaLaunchKernel_v7000", "/data/me/train_lm.py", 20, 5),
]


class Trace(unittest.TestCase):
    def test_functions_without_their_versions(self):
        self.assertEqual("cudaMemcpyAsync", trace.without_version("cudaMemcpyAsync_v3020"))
        self.assertEqual("cudaMemcpyAsync_ptsz", trace.without_version("cudaMemcpyAsync_ptsz_v7000"))
        self.assertEqual("cudaMemAdvise", trace.without_version("cudaMemAdvise_v2"))
        self.assertEqual("cudaLaunchKernel", trace.without_version("__cudaLaunchKernel"))
        self.assertEqual("cudaStreamGetCaptureInfo", trace.without_version("cudaStreamGetCaptureInfo_v2_v11030"))
        rows = [("cudaMemAdvise_v12020", 2), ("cudaMemAdvise_v2", 1), ("cudaFree", 4)]
        self.assertEqual({"cudaMemAdvise": 3, "cudaFree": 4}, trace.by_function(rows))

    def test_any_difference_is_found(self):
        self.assertIsNone(trace.same_calls({"a": 1, "b": 2}, {"b": 2, "a": 1}))
        self.assertEqual("b: 1 in the trace, 2 counted", trace.same_calls({"a": 1, "b": 1}, {"b": 2, "a": 1}))
        self.assertEqual("a: 0 in the trace, 1 counted", trace.same_calls({}, {"a": 1}))
        self.assertEqual("a: 1 in the trace, 0 counted", trace.same_calls({"a": 1}, {}))

    def test_lines_of_the_program_alone_count(self):
        self.assertEqual((9, 10), trace.put_down(LINES, "cudaMemcpyAsync", "/data/me"))
        self.assertEqual((5, 5), trace.put_down(LINES, "cudaLaunchKernel", "/data/me"))
        self.assertEqual((0, 0), trace.put_down(LINES, "cudaFree", "/data/me"))
        self.assertEqual((0, 5), trace.put_down(LINES, "cudaLaunchKernel", "/data"))
        self.assertEqual("no line 1", trace.others(LINES, "cudaMemcpyAsync", "/data/me"))
        self.assertEqual("train_lm.py 8, other.py 1, no line 1", trace.others(LINES, "cudaMemcpyAsync", "/data"))

    def test_native_stacks(self):
        # cudaLaunchKernel < at::fill < main; the second one is cut, the third has no name in front, the fourth is no PyTorch.
        frames = [
            (1, None, 0, 1, "/usr/bin/python"),
            (2, 1, 0, 1, "/lib/libtorch_cuda.so"),
            (3, 2, 0, 1, "/lib/libcudart.so.13"),
            (4, None, 1, 1, "/lib/libtorch_cuda.so"),
            (5, 2, 0, 0, None),
            (6, 1, 0, 1, "/data/libtorch/other.so"),
        ]
        counts = trace.native_launches([(3, 10), (4, 100), (5, 1000), (6, 10000), (None, 5)], frames)
        self.assertEqual({"all": 11115, "stack": 11110, "whole": 11010, "torch": 1110, "named": 10110}, counts)


if __name__ == "__main__":
    unittest.main()
