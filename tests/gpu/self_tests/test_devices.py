"""The group devices: what it compares, and that each difference is found."""

import sqlite3
import unittest

import support  # noqa: F401  pylint: disable=unused-import  (finds the suite)
from suite import devices
from suite.harness import Failed

TABLES = """
CREATE TABLE StringIds (id INTEGER, value TEXT);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, demangledName INTEGER, correlationId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, correlationId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, correlationId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (correlationId INTEGER);
CREATE TABLE SLIPSTREAM_DEVICE_WORK (unattributed INTEGER);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'gelu'), (3, 'window 1');
INSERT INTO NVTX_EVENTS VALUES (0, 10, 59, 'window 0', NULL), (10, 20, 59, NULL, 3), (20, 30, 59, 'window 2', NULL),
  (0, 99, 60, 'window 9', NULL), (0, 99, 59, 'step', NULL);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (9, 12, 1, 1), (11, 14, 1, 2), (15, 16, 2, 3), (19, 40, 2, 4), (21, 22, 2, 5);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (12, 13, 6), (30, 31, 7);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1), (2), (3), (5), (6);
INSERT INTO SLIPSTREAM_DEVICE_WORK VALUES (2), (3);
"""


class Devices(unittest.TestCase):
    def database(self):
        connection = sqlite3.connect(":memory:")
        self.addCleanup(connection.close)
        connection.executescript(TABLES)
        return connection

    def test_work_in_a_window(self):
        connection = self.database()
        self.assertEqual({0: (0, 10), 1: (10, 20), 2: (20, 30)}, devices.windows_of(connection))
        totals, names = devices.work_in(connection, 10, 20)
        self.assertEqual({"gemm": (1, 3), "gelu": (2, 22)}, names)
        self.assertEqual({"kernel": (3, 25), "gpu_memcpy": (1, 1), "gpu_memset": (0, 0)}, totals)
        connection.execute("DELETE FROM NVTX_EVENTS WHERE start = 20")
        with self.assertRaises(Failed):
            devices.windows_of(connection)

    def test_work_without_a_call_is_counted(self):
        self.assertEqual((2, 5), devices.calls_missing(self.database()))

    def test_any_other_count_is_found(self):
        self.assertIsNone(devices.other_counts({"a": (1, 7), "b": (2, 9)}, {"b": [2, 1], "a": [1, 1]}))
        self.assertEqual("b: 1 in the trace, 2 by torch.profiler", devices.other_counts({"b": (1, 7)}, {"b": [2, 7]}))
        self.assertEqual("b: 0 in the trace, 2 by torch.profiler", devices.other_counts({}, {"b": [2, 7]}))
        self.assertEqual("b: 2 in the trace, 0 by torch.profiler", devices.other_counts({"b": (2, 7)}, {}))

    def test_totals_and_distance(self):
        window = {"kernel": {"a": [2, 30], "b": [1, 5]}, "gpu_memcpy": {}, "gpu_memset": {"c": [4, 4]}}
        self.assertEqual({"kernel": (3, 35), "gpu_memcpy": (0, 0), "gpu_memset": (4, 4)}, devices.totals_of(window))
        self.assertEqual((0.5, 0.25, 0.0, 1.0), tuple(devices.apart(*pair) for pair in ((3, 2), (3, 4), (0, 0), (1, 0))))


if __name__ == "__main__":
    unittest.main()
