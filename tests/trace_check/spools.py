"""Writes spool files byte by byte, as docs and tracer/spool/spool_format.h describe them, and with none of slipstream's
code: what a test put into a file is known, whatever the writer does.

The format is 2. Records have 64 bytes, and what a device did has 80. All numbers are those of the machine this runs on (little-endian).
"""

import os
import struct

FORMAT = 2
RECORD_VERSION = ACTIVITY_VERSION = 1
RECORD = struct.Struct("<QQQQQIIIiHHhBB")
ACTIVITY = struct.Struct("<QQQIIII9IhBB")
MASK = (1 << 64) - 1
# Kinds of chunks, of records, tables of names.
FACTS, NAMES, SITES, THREAD, RECORDS, THREAD_END, END = 1, 2, 3, 4, 5, 6, 7
ACTIVITIES = 11
COUNTERS = 15
CALL, MARK, MEMORY, DROP, STEP, CLOCK, DEVICE_CLOCK, DRIVER_CALL, RANGE, ALLOCATED, FREED, DECISION = range(1, 13)
TASKS = 14
# Beyond the records' kinds, so that a list may have both.
KERNEL, COPY, SET, WAIT_FOR = 101, 102, 103, 104
HOOKS, DECISIONS, KERNELS, DRIVER_FUNCTIONS, RANGES, LIBRARIES, CALLERS = range(1, 8)
FINISHED, LIMIT = 1, 2
RECORDS_A_CHUNK = 800


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC = crc_table()


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = CRC[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def text_of(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<I", len(data)) + data


def record(kind, start, end, bytes=0, stream=0, number=0, stack=0, site=0, correlation=0, status=0, hook=0, decision=0, device=-1, flags=0):
    return RECORD.pack(start, end, bytes, stream, number & MASK, stack, site, correlation, status, hook, decision, device, kind, flags)


def activity(kind, start, end, device, context, stream, correlation, detail, node=0):
    detail = tuple(detail) + (0,) * (9 - len(detail))
    return ACTIVITY.pack(start, end, node, correlation, context, stream, 0, *detail, device, kind - KERNEL + 1, 0)


def synchronization(draw, call):
    """Of a context in which there is work, or of one in which there is none: what is known of it, and its record."""
    start = call["end"] + draw.randrange(500)
    kind = draw.choice((1, 2, 3, 4))
    none = 0xFFFFFFFF
    stream = draw.choice((7, 13)) if kind in (2, 3) else none
    event = draw.randrange(9) if kind in (1, 2) else none
    wait = dict(kind=WAIT_FOR, start=start, end=start + draw.randrange(900), context=draw.choice((1, 9)), stream=stream)
    wait.update(correlation=call["correlation"] if draw.randrange(5) else 4_100_000_000, device=-1)
    return {**wait, "type": kind, "event": event}, activity(**wait, detail=(kind, event))


class Spool:
    """One file, chunk by chunk. `number_of_chunk` is what the next one has."""

    def __init__(self, start_unix_ns):
        head = struct.pack("<QIIQI", 0x314C4F4F50535353, FORMAT, 32, start_unix_ns, 0)
        self.data = bytearray(head + struct.pack("<I", crc32c(head)))
        self.chunks = []  # where each begins
        self.pass_ns = 1
        self.made = {}  # records by thread

    def chunk(self, kind, payload):
        rest = struct.pack("<IHHQQ", len(payload), kind, 1, len(self.chunks), self.pass_ns) + payload
        self.chunks.append(len(self.data))
        data = struct.pack("<II", 0x4B4E4843, crc32c(rest)) + rest
        self.data += data + bytes(-len(data) % 8)

    def facts(self, facts):
        self.chunk(FACTS, struct.pack("<I", len(facts)) + b"".join(text_of(key) + text_of(value) for key, value in facts.items()))

    def names(self, table, names):
        if names:
            self.chunk(
                NAMES,
                struct.pack("<II", table, len(names))
                + b"".join(struct.pack("<I", number) + text_of(name) for number, name in names.items()),
            )

    def sites(self, sites):
        if sites:
            entries = (
                struct.pack("<Ii", number, line) + text_of(file) + text_of(function) for number, (file, line, function) in sites.items()
            )
            self.chunk(SITES, struct.pack("<I", len(sites)) + b"".join(entries))

    def thread(self, number, tid, name):
        self.chunk(THREAD, struct.pack("<II", number, tid) + text_of(name))

    def records(self, thread, records):
        """Returns the numbers of the chunks."""
        return self.put(RECORDS, thread, records, RECORD.size, RECORD_VERSION)

    def activities(self, activities):
        self.put(ACTIVITIES, 0, activities, ACTIVITY.size, ACTIVITY_VERSION)

    def put(self, kind, thread, records, size, version):
        numbers = []
        for at in range(0, len(records), RECORDS_A_CHUNK):
            some = records[at : at + RECORDS_A_CHUNK]
            numbers.append(len(self.chunks))
            head = struct.pack("<IIQIHH", thread, size, self.made.get(thread, 0), len(some), version, 0)
            self.chunk(kind, head + b"".join(some))
            self.made[thread] = self.made.get(thread, 0) + len(some)
        return numbers

    def counters(self, table, counted):
        """`counted`: (calls, errors, bytes, ns) by number; all of it before the recording ended."""
        entries = (struct.pack("<II8Q", number, 0, *figures, *figures) for number, figures in counted.items())
        self.chunk(COUNTERS, struct.pack("<II", table, len(counted)) + b"".join(entries))

    def thread_end(self, thread, dropped):
        self.chunk(THREAD_END, struct.pack("<IIQQ", thread, 0, self.made.get(thread, 0), dropped))

    def end(self, dropped, reason=FINISHED):
        self.chunk(END, struct.pack("<IiQQ", reason, 0, sum(self.made.values()), dropped))

    def damage(self, chunk):
        """Its checksum is wrong from now on."""
        self.data[self.chunks[chunk] + 40] ^= 0xFF

    def write(self, path):
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(self.data)
