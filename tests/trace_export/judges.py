#!/usr/bin/env python3
"""What reads the exports, on exports of ours: the judges of their formats.

    judges.py perfetto|hta SLIPSTREAM SAMPLE_RUN

perfetto: Perfetto's own message definitions (package perfetto) and, where there is one, its trace processor: a
trace_processor_shell that SLIPSTREAM_TEST_TRACE_PROCESSOR names, or on PATH; the package would bring one from the network. hta: Holistic Trace Analysis (package
HolisticTraceAnalysis). tools/setup brings both into build/judges, which ctest puts onto PYTHONPATH; SLIPSTREAM_TEST_JUDGES_PYTHON names
another Python that has them. Exit status 77 where there is none.
"""

import collections
import json
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
    """A graph of two kernels behind each launch, a copy behind each that was asked for, and two waits."""
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
    connection.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start, end, deviceId, contextId, streamId, correlationId, globalPid, syncType, eventId, isOwn)"
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
        elif function.startswith("cudaStreamSynchronize"):
            # Longer than the work, on its stream; and one of slipstream's own before it. No time of the device is in either.
            for is_own, number in ((1, 0), (0, correlation)):
                connection.execute(
                    "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (?, ?, 0, 1, 7, ?, ?, 3, 4294967295, ?)",
                    (end - 90_000, end + 60_000, number, process, is_own),
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


def judge_sequence(path, connection):
    """The rules of a sequence: a state that was cleared first, names and tracks before they are used, flows from one call each, the times of the database."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

    trace = messages.Trace()
    trace.ParseFromString(pathlib.Path(path).read_bytes())
    cleared, wrong = False, collections.Counter()
    known = collections.defaultdict(set)
    tracks, categories, open_slices, ends = set(), {}, collections.defaultdict(list), []
    callers, launched = collections.Counter(), collections.Counter()
    for packet in trace.packet:
        cleared = cleared or bool(packet.sequence_flags & messages.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
        wrong["before the state was cleared"] += not cleared
        wrong["of another sequence"] += packet.trusted_packet_sequence_id != trace.packet[0].trusted_packet_sequence_id
        for field, entries in packet.interned_data.ListFields():
            for entry in entries:
                wrong[f"{field.name} that are 0 or defined twice"] += entry.iid == 0 or entry.iid in known[field.name]
                known[field.name].add(entry.iid)
        categories.update((entry.iid, entry.name) for entry in packet.interned_data.event_categories)
        for frame in packet.interned_data.frames:
            wrong["functions"] += frame.function_name_id not in known["function_names"]
            wrong["paths"] += frame.source_path_iid not in known["source_paths"]
        for stack in packet.interned_data.callstacks:
            wrong["frames"] += not set(stack.frame_ids) <= known["frames"]
        if packet.HasField("track_descriptor"):
            described = packet.track_descriptor
            wrong["parents"] += bool(described.parent_uuid) and described.parent_uuid not in tracks
            wrong["tracks described twice"] += described.uuid in tracks
            tracks.add(described.uuid)
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        wrong["tracks"] += event.track_uuid not in tracks
        wrong["categories"] += not set(event.category_iids) <= known["event_categories"]
        wrong["names"] += bool(event.name_iid) and event.name_iid not in known["event_names"]
        wrong["stacks"] += bool(event.callstack_iid) and event.callstack_iid not in known["callstacks"]
        wrong["lines"] += bool(event.source_location_iid) and event.source_location_iid not in known["source_locations"]
        for annotation in event.debug_annotations:
            wrong["annotations"] += annotation.name_iid not in known["debug_annotation_names"]
            text = annotation.string_value_iid
            wrong["texts"] += bool(text) and text not in known["debug_annotation_string_values"]
        category = categories[event.category_iids[0]] if event.category_iids else ""
        for flow in event.flow_ids:
            (callers if category in ("cuda_runtime", "cuda_driver") else launched)[flow] += 1
        if event.type == messages.TrackEvent.TYPE_SLICE_BEGIN:
            open_slices[event.track_uuid].append((category, packet.timestamp))
        elif event.type == messages.TrackEvent.TYPE_SLICE_END:
            if open_slices[event.track_uuid]:
                ends.append((*open_slices[event.track_uuid].pop(), packet.timestamp))
            else:
                wrong["ends of nothing"] += 1
    expect("what breaks the rules of a sequence", {what: count for what, count in wrong.items() if count}, {})
    expect("slices without an end", sum(map(len, open_slices.values())), 0)
    expect("calls of a flow", set(callers.values()), {1})
    expect("flows of device work and of calls", set(launched), set(callers))
    wanted = lambda table: connection.execute(f"SELECT start, end FROM {table}").fetchall()
    there = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    work = sum((wanted(f"CUPTI_ACTIVITY_KIND_{kind}") for kind in ("KERNEL", "MEMCPY", "MEMSET") if f"CUPTI_ACTIVITY_KIND_{kind}" in there), [])
    expect("ends of flows", sum(launched.values()), len(work))
    # The trace begins at the database's 0 (nothing is earlier).
    of = lambda *names: sorted((start, end) for category, start, end in ends if category in names)
    expect("times of device work", of("kernel", "gpu_memcpy", "gpu_memset"), sorted(work))
    expect("times of calls", of("cuda_runtime", "cuda_driver"), sorted(wanted("CUPTI_ACTIVITY_KIND_RUNTIME")))


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
    expect("waits of the program's", count("Stream Sync"), kept)
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


def judge_report(path, report):
    """What Holistic Trace Analysis computes of all steps is what the report says of them, in microseconds."""
    from hta.trace_analysis import TraceAnalysis

    steps, device = report["processes"][0]["steps"], report["processes"][0]["devices"][0]
    expect("steps of the report", (steps["measured"], steps["warm_up"]), (STEPS, 0))
    of = lambda *keys: sum(device[key] for key in keys) / 1000
    analysis = TraceAnalysis(trace_files=[str(path)], include_last_profiler_step=True)
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    expect(
        "time by kind",
        {kind: float(time) for kind, time in zip(kinds["kernel_type"], kinds["sum"])},
        {
            "COMPUTATION": of("computing_only_ns"),
            "COMMUNICATION": of("communication_alone_ns"),
            "COMPUTATION overlapping COMMUNICATION": of("communication_overlapped_ns"),
            "MEMORY": of("copies_alone_ns"),
        },
    )
    is_kernel = kernels["kernel_type"] != "MEMORY"
    expect("time of kernels", float(kernels[is_kernel]["sum (us)"].sum()), of("kernel_time_ns"))
    breakdown = analysis.get_temporal_breakdown(visualize=False)
    expect("computing", float(breakdown["compute_time(us)"][0]), of("computing_only_ns", "communication_overlapped_ns"))
    expect("busy with else", float(breakdown["non_compute_time(us)"][0]), of("communication_alone_ns", "copies_alone_ns"))
    print("Holistic Trace Analysis and the report agree")


def main():
    judge, slipstream, sample_run = sys.argv[1:4]
    python = os.environ.get("SLIPSTREAM_TEST_JUDGES_PYTHON")
    if python and os.environ.get("SLIPSTREAM_TEST_JUDGES_INSIDE") != "1":
        # Not what set-up brought, which is for the Python that runs this.
        inside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run([python, "-B", *sys.argv], env={**inside, "SLIPSTREAM_TEST_JUDGES_INSIDE": "1"}).returncode
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
            judge_sequence(file, connection)
            judge_queries(file, connection)
        else:
            for name in ("trace.json", "trace.json.gz"):
                subprocess.run([slipstream, "export", database, "--chrome", pathlib.Path(folder, name), "--rank", str(RANK)], check=True)
                judge_hta(pathlib.Path(folder, name))
            report = subprocess.run([slipstream, "report", database, "--json"], check=True, capture_output=True).stdout
            judge_report(pathlib.Path(folder, "trace.json"), json.loads(report))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
