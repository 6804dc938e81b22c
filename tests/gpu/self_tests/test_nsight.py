"""The group nsight: what NVIDIA's tools must find, and that each difference is found."""

import sqlite3
import types
import unittest

import support
from suite import harness, nsight
from suite.harness import Failed, Skipped

TABLES = """
CREATE TABLE StringIds (id INTEGER, value TEXT);
CREATE TABLE NVTX_EVENTS (eventType INTEGER, text TEXT, textId INTEGER, domainId INTEGER);
INSERT INTO StringIds VALUES (1, 'cudaMalloc'), (2, 'slipstream');
INSERT INTO NVTX_EVENTS VALUES (75, NULL, 2, 4), (75, 'other', NULL, 5), (59, NULL, 1, 4), (59, NULL, 1, 4),
  (59, 'cudaFree', NULL, 4), (34, 'a mark', NULL, 4), (59, 'cudaFree', NULL, 5), (59, 'cudaFree', NULL, 0);
"""
LINE = b"checksum 77 all bytes as expected"


class Ranges(unittest.TestCase):
    def test_of_the_domain_alone(self):
        connection = sqlite3.connect(":memory:")
        self.addCleanup(connection.close)
        connection.executescript(TABLES)
        wanted = {"push": nsight.PUSH_POP, "created": nsight.DOMAIN_CREATED, "domain": nsight.DOMAIN}
        ranges = dict(connection.execute(nsight.RANGES, wanted).fetchall())
        self.assertEqual({"cudaMalloc": 2, "cudaFree": 1}, ranges)
        self.assertIsNone(nsight.different(ranges, {"cudaMalloc": 2, "cudaFree": 1}))
        self.assertEqual("cudaFree: 1 ranges, 2 calls", nsight.different(ranges, {"cudaMalloc": 2, "cudaFree": 2}))
        self.assertEqual("cudaFree: 1 ranges, 0 calls", nsight.different(ranges, {"cudaMalloc": 2}))

    def test_the_launch_that_is_used(self):
        self.assertEqual(("cudaLaunchKernel", 3), nsight.launch_of({"cudaLaunchKernel": 3, "__cudaLaunchKernel": 0}))
        for calls in ({}, {"cudaLaunchKernel": 1, "__cudaLaunchKernel": 1}):
            with self.assertRaises(Failed):
                nsight.launch_of(calls)


class Compute(unittest.TestCase):
    """ncu that finds so many kernels by the name of a range, and under slipstream or not."""

    def outcome(self, kernels, output=b"", line=LINE):
        temporary = support.TemporarySuite(only="nsight")
        suite = temporary.__enter__()
        self.addCleanup(temporary.__exit__)
        suite.run_prefix = lambda *options: ["under"]
        self.addCleanup(setattr, nsight, "find_tool", nsight.find_tool)
        self.addCleanup(setattr, harness, "read_json", harness.read_json)
        nsight.find_tool = lambda suite, name: name
        harness.read_json = lambda *_: {"totals": {"functions": [{"name": "cudaLaunchKernel", "calls": 3}]}}

        def run(prefix, _arguments, timeout=0, env=None):
            found = kernels("under" in prefix, prefix[prefix.index("--nvtx-include") + 1]) if "ncu" in prefix else 0
            text = output + b'==PROF== Profiling "k" - 0: 0%\n' * found + line + b"\n"
            return types.SimpleNamespace(stdout=text, stderr=b"", expect_success=lambda what: None)

        program = types.SimpleNamespace(run=run, bare_line=lambda arguments: [LINE])
        try:
            return nsight.compute(suite, program)({})
        except (Failed, Skipped) as problem:
            return f"{type(problem).__name__} {problem}"

    def test_what_it_must_find(self):
        right = lambda under, name: 3 if under and name == "slipstream@cudaLaunchKernel/" else 0  # noqa: E731
        self.assertTrue(self.outcome(right).startswith("ncu profiled the 3 kernels"))
        self.assertIn("Failed ncu profiled 2 kernels", self.outcome(lambda under, name: min(2, right(under, name))))
        self.assertIn("Failed no such range", self.outcome(lambda under, name: 3 if under else 0))
        self.assertIn("Failed bare", self.outcome(lambda under, name: 3 if "Kernel" in name else 0))
        self.assertIn("Failed under ncu", self.outcome(right, line=b"checksum 78 all bytes as expected"))
        self.assertIn("Skipped", self.outcome(right, output=b"==ERROR== ERR_NVGPUCTRPERM"))

    def test_it_runs_only_where_it_is_named(self):
        self.assertIn(nsight.GROUP, harness.ON_REQUEST)


if __name__ == "__main__":
    unittest.main()
