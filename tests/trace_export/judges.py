#!/usr/bin/env python3
"""What reads the exports, on exports of ours: the judges of their formats.

    judges.py perfetto|hta SLIPSTREAM SAMPLE_RUN

perfetto: Perfetto's own message definitions (package perfetto) and, where there is one, its trace processor: a
trace_processor_shell that SLIPSTREAM_TEST_TRACE_PROCESSOR names, or on PATH; the package would bring one from the network. hta: Holistic Trace Analysis (package
HolisticTraceAnalysis). tools/setup brings both into build/judges, which ctest puts onto PYTHONPATH; SLIPSTREAM_TEST_JUDGES_PYTHON names
another Python that has them. Exit status 77 where there is none.
"""

import collections
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest.mock

CALLS = ("cudaMalloc", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaLaunchKernel")
# What the sample has (sample_run.h), and what is put into its database here.
STEPS = 3
KERNELS = 2 * STEPS
COPIES = STEPS
KERNEL_US, COPY_US, COPY_BYTES = 20, 10, 1 << 20
RANK = 3  # not the one that readers take where they find none
# A step of the sample takes less than a microsecond, which is as fine as some readers look.
SLOWER = 1000

problems = []


def expect(what, actual, expected):
    if actual != expected:
        problems.append(f"{what}: {actual!r}, expected {expected!r}")


def add_work(database):
    """A graph of two kernels behind each launch, and a copy behind each that was asked for."""
    connection = sqlite3.connect(database)
    for table, columns in (
        ("CUPTI_ACTIVITY_KIND_RUNTIME", ("start", "end")),
        ("SLIPSTREAM_STEPS", ("start", "end")),
        ("NVTX_EVENTS", ("start", "end")),
        ("SLIPSTREAM_MEMORY", ("start",)),
        ("SLIPSTREAM_MARKS", ("start",)),
    ):
        for column in columns:
            connection.execute(f"UPDATE {table} SET {column} = {column} * {SLOWER}")
    connection.execute("UPDATE SLIPSTREAM_PROCESSES SET rank = ?", (RANK,))
    connection.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, "
        "shortName, registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory)"
    )
    connection.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind)"
    )
    connection.execute("INSERT INTO StringIds VALUES (1000000, 'void gemm<float>(float*, int)')")
    connection.execute("INSERT INTO StringIds VALUES (1000001, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(void*)')")
    rows = connection.execute(
        "SELECT r.correlationId, r.end, p.globalPid, n.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds n ON n.id = r.nameId "
        "JOIN SLIPSTREAM_PROCESSES p ON p.globalPid = (r.globalTid & ~16777215) ORDER BY r.correlationId"
    ).fetchall()
    for correlation, end, process, function in rows:
        if function.startswith("cudaLaunchKernel"):
            for i in range(2):
                start = end + 5_000 + i * 2_000  # both at once: one row of slices cannot hold them
                connection.execute(
                    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 7, ?, ?, ?, ?, 32, 132, 1, 1, 256, 1, 1, 0, 1024)",
                    (start, start + KERNEL_US * 1000, correlation, process, 1000000 + i, 1000000 + i),
                )
        elif function.startswith("cudaMemcpyAsync"):
            start = end + 1_000
            connection.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, 1, 13, ?, ?, ?, 1, 1, 2)",
                (start, start + COPY_US * 1000, correlation, process, COPY_BYTES),
            )
    connection.commit()
    return connection


def judge_messages(path):
    """Every packet is known to Perfetto's own definitions, down to the last field."""
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(pathlib.Path(path).read_bytes())

    def unknown(message):
        count = len(UnknownFieldSet(message))
        for field, value in message.ListFields():
            if field.message_type is not None:
                count += sum(map(unknown, [value] if hasattr(value, "ListFields") else value))
        return count

    expect("unknown fields", unknown(trace), 0)
    names, slices = {}, collections.Counter()
    for packet in trace.packet:
        for name in packet.interned_data.event_names:
            names[name.iid] = name.name
        if packet.HasField("track_event"):
            event = packet.track_event
            expect("flags", packet.sequence_flags, perfetto_trace_pb2.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE)
            if event.type == perfetto_trace_pb2.TrackEvent.TYPE_SLICE_BEGIN:
                slices[names[event.name_iid]] += 1
    for call in CALLS:
        expect(f"slices of {call}", slices[call], STEPS)
    expect("slices of the copies", slices["Memcpy HtoD (Pinned -> Device)"], COPIES)
    expect("slices of a kernel", slices["void gemm<float>(float*, int)"], STEPS)
    print(f"perfetto's messages: {len(trace.packet)} packets")


def judge_queries(path, connection):
    """The trace processor, which the Perfetto UI has inside."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    shell = os.environ.get("SLIPSTREAM_TEST_TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
    if shell is None:
        print("no trace_processor_shell here: perfetto's messages only")
        return
    processor = TraceProcessor(trace=str(path), config=TraceProcessorConfig(bin_path=shell))
    rows = lambda sql: [tuple(row.__dict__.values()) for row in processor.query(sql)]
    base = rows("SELECT min(ts) AS ts FROM slice")[0][0]
    first = connection.execute(
        "SELECT min(start) FROM (SELECT start FROM CUPTI_ACTIVITY_KIND_RUNTIME UNION ALL SELECT start FROM SLIPSTREAM_STEPS)"
    ).fetchone()[0]
    for call in CALLS:
        expect(
            f"times of {call}",
            [(ts - base + first, duration) for ts, duration in rows(f"SELECT ts, dur FROM slice WHERE name = '{call}' ORDER BY ts")],
            connection.execute(
                f"SELECT start, end - start FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds n ON n.id = nameId WHERE n.value LIKE '{call}\\_v%' ESCAPE '\\' ORDER BY start"
            ).fetchall(),
        )
    expect("durations of kernels", rows("SELECT DISTINCT dur FROM slice WHERE category = 'kernel'"), [(KERNEL_US * 1000,)])
    expect("kernels on stream 7", rows("SELECT count(*) AS n FROM slice JOIN track ON track.id = track_id WHERE track.name = 'stream 7'"), [(KERNELS,)])
    expect("threads", rows("SELECT DISTINCT count(*) AS n FROM slice JOIN thread_track ON thread_track.id = track_id JOIN thread USING (utid)"), [(4 * STEPS,)])
    expect("flows", rows("SELECT count(*) AS n FROM flow"), [(KERNELS + COPIES,)])
    expect("lines", rows("SELECT DISTINCT string_value AS v FROM args WHERE flat_key = 'source.file_name'"), [("train.py",)])
    expect("what went wrong", rows("SELECT name, value FROM stats WHERE severity != 'info' AND value > 0"), [])
    print("perfetto's trace processor agrees")


# What Holistic Trace Analysis draws with, and searches critical paths with. It imports them wherever it is asked; nothing is drawn here.
FOR_DRAWING = ("networkx", "plotly", "plotly.express", "plotly.graph_objects", "plotly.io", "plotly.subplots", "psutil", "yaml")


def stand_in_for_drawing():
    for name in FOR_DRAWING:
        try:
            __import__(name)
        except ImportError:
            sys.modules[name] = unittest.mock.MagicMock()


def judge_hta(path):
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_files=[str(path)])
    trace = analysis.t.get_trace(RANK)
    symbols = analysis.t.symbol_table.get_sym_table()
    count = lambda name: int(trace["name"].map(lambda number: symbols[number] == name).sum())
    # It leaves the last step out, as it may be cut.
    kept = STEPS - 1
    expect("steps", analysis.get_profiler_steps(), list(range(kept)))
    expect("kernels", count("void gemm<float>(float*, int)"), kept)
    expect("copies", count("Memcpy HtoD (Pinned -> Device)"), kept)
    breakdown = analysis.get_temporal_breakdown(visualize=False)
    expect("ranks", list(breakdown["rank"]), [RANK])
    expect("compute time", float(breakdown["compute_time(us)"][0]), float(kept * KERNEL_US))
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    expect("kinds of kernels", sorted(kinds["kernel_type"]), ["COMMUNICATION", "COMPUTATION", "COMPUTATION overlapping COMMUNICATION", "MEMORY"])
    expect("names of kernels", len(kernels), 3)
    launches = analysis.get_cuda_kernel_launch_stats(ranks=[RANK], visualize=False)[RANK]
    expect("launches that were matched", len(launches), kept * 3)
    bandwidth = analysis.get_memory_bw_summary(ranks=[RANK])
    expect("copies with a bandwidth", list(bandwidth.reset_index()["name"]), ["Memcpy HtoD"])
    overlap = analysis.get_comm_comp_overlap(visualize=False)
    expect("overlap in percent", float(overlap["comp_comm_overlap_pctg"][0]), round(100 * (KERNEL_US - 2) / KERNEL_US, 2))
    print("Holistic Trace Analysis agrees")


def main():
    judge, slipstream, sample_run = sys.argv[1:4]
    python = os.environ.get("SLIPSTREAM_TEST_JUDGES_PYTHON")
    if python and os.environ.get("SLIPSTREAM_TEST_JUDGES_INSIDE") != "1":
        return subprocess.run([python, "-B", *sys.argv], env={**os.environ, "SLIPSTREAM_TEST_JUDGES_INSIDE": "1"}).returncode
    if judge == "hta":
        stand_in_for_drawing()
    try:
        __import__("perfetto.protos.perfetto.trace.perfetto_trace_pb2" if judge == "perfetto" else "hta.trace_analysis")
    except ImportError as error:
        print(f"skipped: {error} (SLIPSTREAM_TEST_JUDGES_PYTHON may name a Python that has it)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        run, database, file = (pathlib.Path(folder, name) for name in ("run", "trace.sqlite", "trace.pftrace"))
        subprocess.run([sample_run, run], check=True)
        subprocess.run([slipstream, "export", run, "--sqlite", database], check=True)
        connection = add_work(database)
        if judge == "perfetto":
            subprocess.run([slipstream, "export", database, "--perfetto", file], check=True)
            judge_messages(file)
            judge_queries(file, connection)
        else:
            for name in ("trace.json", "trace.json.gz"):
                subprocess.run([slipstream, "export", database, "--chrome", pathlib.Path(folder, name), "--rank", str(RANK)], check=True)
                judge_hta(pathlib.Path(folder, name))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
