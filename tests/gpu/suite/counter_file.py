"""Reads the counter file of a process that still runs (tracer/counters/counter_layout.h), while `slipstream run --record` keeps it.

The layout is the library's own, and this is a second reader of it; a self test compares the two on the same run.
"""

import glob
import os
import struct

from .harness import Failed

MAGIC, FORMAT = 0x3152544E434C5353, 5
HEADER = struct.Struct("<Q8I4i2Q2I64s3I4x")
NAME_BYTES, DECISIONS, SAMPLES, COPY_KINDS = 64, 128, 2048, 5
CALL = struct.Struct("<4Q")
DECISION = struct.Struct("<3Q")
SAMPLE = struct.Struct("<6Q2Ii")


def up_to(size, multiple):
    return (size + multiple - 1) // multiple * multiple


def text_of(raw):
    return raw.split(b"\0", 1)[0].decode(errors="replace")


def parse(data):
    """{"pid", "calls": {function: calls}, "decisions": {name: count}, "live_bytes": {device: bytes}} of a file's bytes."""
    try:
        fields = HEADER.unpack_from(data)
        magic, layout, hooks, threads, name_bytes, facts_bytes, decision_bytes, sample_bytes, thread_bytes = fields[:9]
        if magic != MAGIC:
            raise Failed("not a counter file")
        if layout != FORMAT:
            raise Failed(f"a counter file of format {layout}; this suite reads {FORMAT}")
        used_decisions = fields[16]
        names = up_to(HEADER.size, 64)
        decisions = up_to(names + hooks * name_bytes + facts_bytes, 64)
        samples = decisions + DECISIONS * decision_bytes
        blocks = samples + SAMPLES * sample_bytes
        counted = blocks + 8 + COPY_KINDS * 16
        calls = {}
        for hook in range(hooks):
            name = text_of(data[names + hook * name_bytes :][:NAME_BYTES])
            first = counted + DECISIONS * DECISION.size + hook * CALL.size
            count = sum(CALL.unpack_from(data, first + thread * thread_bytes)[0] for thread in range(threads))
            if count:
                calls[name] = count
        decided = {}
        for index in range(min(used_decisions, DECISIONS)):
            entry = decisions + index * decision_bytes
            first = counted + index * DECISION.size
            count = sum(DECISION.unpack_from(data, first + thread * thread_bytes)[0] for thread in range(threads))
            if count:
                decided[text_of(data[entry : entry + NAME_BYTES])] = count
        newest = {}
        for index in range(SAMPLES):
            number, _, live, _, _, _, _, _, device = SAMPLE.unpack_from(data, samples + index * sample_bytes)
            if number and number > newest.get(device, (0, 0))[0]:
                newest[device] = (number, live)
    except struct.error as error:
        raise Failed(f"a counter file that is cut off: {error}") from None
    live = {device: size for device, (_, size) in newest.items()}
    return {"pid": fields[9], "calls": calls, "decisions": decided, "live_bytes": live}


def of_process(folder, pid):
    """What parse says of the process's file in a run's folder; None: it has none (yet)."""
    for path in glob.glob(os.path.join(folder, f"{pid}-*.counters")):
        with open(path, "rb") as file:
            return parse(file.read())
    return None
