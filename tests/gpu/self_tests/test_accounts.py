"""Where the time of a step goes, from a trace."""

import unittest

import support  # noqa: F401  pylint: disable=unused-import  (finds the suite)
from suite import accounts


def event(category, name, start, duration):
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration}


class Accounts(unittest.TestCase):
    def test_a_union_counts_no_moment_twice(self):
        self.assertEqual(0, accounts.union([]))
        self.assertEqual(15, accounts.union([(10, 20), (0, 5)]))
        self.assertEqual(20, accounts.union([(0, 20), (5, 10), (20, 20), (10, 20)]))

    def test_parts_add_up_to_the_step(self):
        events = [
            event("kernel", "gemm", 1000, 4000),
            event("kernel", "gelu", 3000, 3000),  # beside the other one
            event("gpu_memset", "Memset (Device)", 6000, 1000),
            event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 500, 1500),  # a third of it alone
            event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 9000, 200),
            event("cuda_runtime", "cudaStreamSynchronize", 0, 700),
            event("cuda_runtime", "cudaLaunchKernel", 800, 5),
            event("cuda_driver", "cuLaunchKernelEx", 810, 5),
            event("cpu_op", "aten::to", 0, 9999),
            {"ph": "s", "cat": "kernel", "name": "flow", "ts": 0},
        ]
        found = accounts.of_trace(events, steps=2, seconds=0.010, moving_seconds=0.002)
        self.assertEqual(5, found["step"])
        self.assertEqual(3, found["kernels"])
        self.assertEqual(0.35, found["copies_alone"])
        self.assertAlmostEqual(found["step"], sum(found[part] for part in accounts.PARTS))
        self.assertEqual((0.75, 0.1), (found["copies_to_device"], found["copies_to_host"]))
        self.assertEqual((1, 0.35, 1), (found["host_moving"], found["host_waiting"], found["launches"]))
        self.assertIn("5.00 ms = kernels 3.00 + copies alone 0.35 + idle 1.65", accounts.in_words(found))


if __name__ == "__main__":
    unittest.main()
