#!/usr/bin/env python3
"""Cuts a spool file: what began before a moment stays, with the device's part of it, and no name of a machine does.

    cut_spool.py SPOOL OUT [--until NS]

NS is in the trace's time, as steps have it in a report (`slipstream report --json`). Without it all records stay. SPOOL and OUT
may end in .gz or .xz. tracer/spool/spool_format.h describes the format; this has none of slipstream's code.
"""

import argparse
import gzip
import lzma
import pathlib
import re
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "trace_check"))

import spools  # noqa: E402  (the folder is known only now)

HEADER_BYTES, CHUNK_HEADER = 32, struct.Struct("<IIIHHQQ")
MAGIC, CHUNK_MAGIC = 0x314C4F4F50535353, 0x4B4E4843
MODULES, STOPPED, SECTION, GIVEN_UP = 9, 12, 13, 14
HEAD = struct.Struct("<IIQIHH")  # of records: thread, bytes of each, first, count, version, reserved
THREAD_END, END = struct.Struct("<IIQQ"), struct.Struct("<IiQQ")
CORRELATION_AT = {spools.RECORDS: 48, spools.ACTIVITIES: 24}
KIND_AT = 62  # in a record
PATH = re.compile(r"(?<![\w.])/[^\s:=]+")
# What of a path stays, and where it is said to be.
KEPT_PATHS = (
    (re.compile(r".*(/tests/(?:gpu|torch)/.*)"), "/repository"),
    (re.compile(r".*/(?:site|dist)-packages(/.*)"), "/usr/lib/python3/site-packages"),
    (re.compile(r".*/lib/python3[.\d]*(/.*)"), "/usr/lib/python3"),
)
NEUTRAL_FACTS = {
    "host": "host",
    "boot_id": "00000000-0000-0000-0000-000000000000",
    "command": "",
    "job": "",
}
UUID = re.compile(r"uuid=[0-9a-f-]+")


class Unusable(Exception):
    """No file of which a part can be kept."""


def read(path):
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(pathlib.Path(path).suffix, open)
    with opened(path, "rb") as file:
        return file.read()


def pack(data):
    return lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)


def write(path, data):
    packed = {".gz": lambda: gzip.compress(data, 9, mtime=0), ".xz": lambda: pack(data)}
    pathlib.Path(path).write_bytes(packed.get(pathlib.Path(path).suffix, lambda: data)())


def chunks(data):
    """[(kind, version, time of the writer's round, payload)]"""
    if len(data) < HEADER_BYTES or struct.unpack_from("<QII", data) != (MAGIC, spools.FORMAT, HEADER_BYTES):
        raise Unusable(f"no spool file of format {spools.FORMAT}")
    found, at = [], HEADER_BYTES
    while at < len(data):
        if at + CHUNK_HEADER.size > len(data):
            raise Unusable("the file ends within a chunk")
        magic, _, length, kind, version, _, round_ns = CHUNK_HEADER.unpack_from(data, at)
        payload = data[at + CHUNK_HEADER.size : at + CHUNK_HEADER.size + length]
        if magic != CHUNK_MAGIC or len(payload) != length:
            raise Unusable(f"no chunk at byte {at}")
        if kind in (SECTION, GIVEN_UP, STOPPED):
            raise Unusable("a file that keeps the newest records, or whose recording ended early")
        found.append((kind, version, round_ns, payload))
        at += CHUNK_HEADER.size + (length + 7) // 8 * 8
    return found


def records(payload):
    """(head, [bytes of each])"""
    head = HEAD.unpack_from(payload)
    size, count = head[1], head[3]
    return head, [payload[HEAD.size + i * size : HEAD.size + (i + 1) * size] for i in range(count)]


def begin(record):
    return struct.unpack_from("<Q", record)[0]


def correlation(kind, record):
    return struct.unpack_from("<I", record, CORRELATION_AT[kind])[0]


def all_records(found):
    return [record for kind, _, _, payload in found if kind == spools.RECORDS for record in records(payload)[1]]


def is_call(record):
    """Others may have something else where a call has its correlation."""
    return record[KIND_AT] in (spools.CALL, spools.DRIVER_CALL)


def is_device_clock(record):
    return record[KIND_AT] == spools.DEVICE_CLOCK


def on_device(found, moment):
    """The moment by the clock of what devices did, as its last reading before has it."""
    readings = [struct.unpack_from("<QQQQ", record) for record in all_records(found) if is_device_clock(record)]
    readings = [(start, device - base - (start + end) // 2) for start, end, device, base in readings]
    before = [reading for reading in readings if reading[0] < moment] or readings[:1]
    return moment + (max(before)[1] if before else 0)


def neutral_path(path):
    for pattern, place in KEPT_PATHS:
        if match := pattern.fullmatch(path):
            return place + match[1]
    return path if path.startswith(("/usr/lib/", "/lib/", "/dev/")) else f"/elsewhere/{path.rsplit('/', 1)[-1]}"


def neutral_fact(key, value):
    if key in NEUTRAL_FACTS:
        return NEUTRAL_FACTS[key]
    value = UUID.sub(f"uuid=00000000-0000-0000-0000-{int(key[7:]):012}" if key[7:].isdigit() else "uuid=0", value)
    return PATH.sub(lambda match: neutral_path(match[0]), value)


class Texts:
    """Reads a payload's numbers and texts and writes them again, changed."""

    def __init__(self, payload):
        self.payload, self.at, self.out = payload, 0, bytearray()

    def copy(self, size):
        self.out += self.payload[self.at : self.at + size]
        self.at += size
        return self.out[-size:]

    def number(self):
        return struct.unpack("<I", self.copy(4))[0]

    def text(self, change=lambda text: text):
        length = struct.unpack_from("<I", self.payload, self.at)[0]
        old = self.payload[self.at + 4 : self.at + 4 + length].decode(errors="surrogateescape")
        self.at += 4 + length
        self.out += spools.text_of(change(old).encode(errors="surrogateescape"))
        return old


def neutral(kind, payload):
    """A chunk of texts without what only one machine has."""
    texts = Texts(payload)
    some_path = lambda path: neutral_path(path) if path.startswith("/") else path
    if kind == spools.FACTS:
        for _ in range(texts.number()):
            key = texts.text()
            texts.text(lambda value, key=key: neutral_fact(key, value))
    elif kind == spools.NAMES:
        texts.number()
        for _ in range(texts.number()):
            texts.copy(4)
            texts.text(some_path)
    elif kind == spools.SITES:
        for _ in range(texts.number()):
            texts.copy(8)
            texts.text(some_path)
            texts.text()
    elif kind == MODULES:
        for _ in range(texts.number()):
            texts.copy(4 + 16)
            texts.text(some_path)
            texts.text()
    else:
        return payload
    return bytes(texts.out + payload[texts.at :])


class Output:
    """The new file. Chunks and records are counted anew."""

    def __init__(self, header):
        self.data, self.number, self.made = bytearray(header), 0, {}

    def chunk(self, kind, version, round_ns, payload):
        rest = struct.pack("<IHHQQ", len(payload), kind, version, self.number, round_ns) + payload
        data = struct.pack("<II", CHUNK_MAGIC, spools.crc32c(rest)) + rest
        self.data += data + bytes(-len(data) % 8)
        self.number += 1

    def records(self, chunk, head, kept):
        kind, version, round_ns, _ = chunk
        thread, size, _, _, record_version, reserved = head
        if kept:
            head = HEAD.pack(thread, size, self.made.get(thread, 0), len(kept), record_version, reserved)
            self.chunk(kind, version, round_ns, head + b"".join(kept))
            self.made[thread] = self.made.get(thread, 0) + len(kept)


def cut(data, until=None):
    """The file with what began before `until` (ns of the trace's time; None: all of it)."""
    found = chunks(data)
    everything = all_records(found)
    if not everything:
        raise Unusable("the file has no records")
    whole = until is None
    until = 1 << 62 if whole else until
    # The trace's time begins at the first record of all.
    limit = min(map(begin, everything)) + until
    device_limit = on_device(found, limit)
    # All readings of the device's clock: the times of its work are by them.
    stays = lambda record: begin(record) < limit or is_device_clock(record)
    kept = {correlation(spools.RECORDS, record) for record in everything if is_call(record) and stays(record)} - {0}
    # What a device does of a call may begin much later than the call.
    work_stays = lambda work: begin(work) < device_limit or correlation(spools.ACTIVITIES, work) in kept
    out = Output(data[:HEADER_BYTES])
    for chunk in found:
        kind, version, round_ns, payload = chunk
        if kind in CORRELATION_AT:
            head, all_of_it = records(payload)
            out.records(chunk, head, list(filter(stays if kind == spools.RECORDS else work_stays, all_of_it)))
        elif kind == spools.THREAD_END:
            thread, reserved, _, dropped = THREAD_END.unpack(payload)
            if dropped:
                raise Unusable("records were dropped")
            out.chunk(kind, version, round_ns, THREAD_END.pack(thread, reserved, out.made.get(thread, 0), 0))
        elif kind == spools.END:
            reason, error, _, dropped = END.unpack_from(payload)
            if dropped:
                raise Unusable("records were dropped")
            rest = payload[END.size :]
            out.chunk(kind, version, round_ns, END.pack(reason, error, sum(out.made.values()), 0) + rest)
        elif kind != spools.COUNTERS or whole:
            # What was counted is no longer what there is.
            out.chunk(kind, version, round_ns, neutral(kind, payload))
    return bytes(out.data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spool")
    parser.add_argument("out")
    parser.add_argument("--until", type=int, metavar="NS")
    options = parser.parse_args()
    try:
        write(options.out, cut(read(options.spool), options.until))
    except (OSError, Unusable) as error:
        print(f"cut_spool: {options.spool}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
