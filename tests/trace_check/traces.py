"""Made-up runs of which everything is known: a loop of steps in several processes, drawn from a seed, as spool files and as the rows
that a database of them must have.

A run has something of every kind in it: threads that overlap, records dropped on the thread of the steps and on others, nested
ranges, two hosts that have a process of one number each, a wall clock that was set back, a damaged chunk, a killed writer, steps that were recorded,
named and to be found, decisions in calls and outside of them, kernels, copies and sets on several streams, blocks of memory.
"""

import random

import spools
from spools import ALLOCATED, CALL, CLOCK, COPY, DECISION, DEVICE_CLOCK, DRIVER_CALL, DROP, FREED, KERNEL, MARK, MEMORY, RANGE, SET, STEP, TASKS, WAIT_FOR

FUNCTIONS = (
    "cudaMemcpyAsync",
    "cudaMemcpy",
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaLaunchKernel",
    "cudaGraphLaunch",
    "cudaMalloc",
    "cudaFree",
    "cudaStreamQuery",
    "cudaMemsetAsync",
    "cuMemcpyHtoD_v2",
    "cudaStreamDestroy",
    "cudaDeviceReset",
)
OUTCOMES = (
    "transfer.h2d.promoted.small",
    "transfer.h2d.promoted.large",
    "transfer.h2d.declined.full",
    "transfer.sync.skipped",
    "transfer.sync.skipped.rest",
    "transfer.sync.settled.query",
    "allocator.reused",
    "allocator.parked",
    "allocator.grown",
    "allocator.freed.cap",
    "transfer.d2h.promoted",
    "allocator.retried",
    "allocator.reclaimed",
)
KERNEL_NAMES = ("gemm_s16816", "elementwise_kernel", "ncclDevKernel_AllReduce", "hmma_conv", "reduce_kernel")
LINES = {
    1: ("/job/train.py", 10, "upload"), 2: ("/job/train.py", 20, "forward"), 3: ("/job/train.py", 30, "wait"),
    4: ("/job/model.py", 7, "Layer.forward"), 5: ("/job/train.py", 3, "main"), 6: ("/job/b\u00fcro/x.py", 99, "mem\u00f3ria"),
    7: ("/job/evaluate.py", 5, "evaluate"), 8: ("/job/save.py", 6, "save"),
}  # fmt: skip
UPLOAD, FORWARD, WAIT, LAYER, MAIN, OTHER, EVALUATE, SAVE = LINES
LIBRARY_NAMES = {1: "/usr/lib/libnccl.so.2", 2: ""}
DRIVER_NAMES = {1: "cuLaunchKernel", 2: "cuMemcpyHtoDAsync_v2", 3: "cuStreamSynchronize"}
DRIVER_LIBRARIES = {1: "/usr/lib/libtriton.so", 2: ""}
DEVICE_FACTS = {
    "device.0": "uuid=00000000-0000-0000-0000-0000000000{host:02d} bus=0000:18:00.0 total_memory=150754820096 multiprocessors=132 "
    "compute_major=9 compute_minor=0 warp_size=32 threads_per_block=1024 threads_per_multiprocessor=2048 blocks_per_multiprocessor=32 "
    "registers_per_block=65536 registers_per_multiprocessor=65536 shared_per_block=49152 shared_per_block_optin=232448 "
    "shared_per_multiprocessor=233472 name=NVIDIA H200",
}
HOUR = 3_600_000_000_000
TICK = 1 << 17  # between two readings of a device's clock, in ns of it: a power of two, so that the line between them is exact
DEVICE_BASE = 987_654_321_000


def pack(fields):
    """The record of some fields. What a decision saved, and its call, have places of their own."""
    if fields["kind"] == DECISION:
        call = fields["call"]
        places = dict(fields, number=fields["saved"], stack=call & 0xFFFFFFFF, site=call >> 32, flags=fields["known"])
        return spools.record(**{key: value for key, value in places.items() if key not in ("saved", "call", "known")})
    return spools.record(**{key: value for key, value in fields.items() if key != "saved"})


class Host:
    def __init__(self, name, boot, difference):
        self.name, self.boot, self.difference = name, boot, difference


class Process:
    """What is put into one file: `threads` has groups of records by thread, each a list of (fields, packed record)."""

    def __init__(self, run, file, host, pid, rank, steps):
        self.run, self.file, self.host, self.pid, self.rank, self.steps_by = run, file, host, pid, rank, steps
        self.random = random.Random(f"{run.seed} {file}")
        self.groups = {0: [], 1: [], 2: []}
        self.tids = {1: (pid, "main"), 2: (pid + 1, "pt_autograd_0")}
        self.steps = []  # (start, end, number, line)
        self.dropped = {1: 0, 2: 0}  # in all, by thread
        self.dropped_without_ring = 0
        self.device = None
        self.clocks = []
        self.has_events = True
        self.damaged_thread = None
        self.ending = "finished"  # "limit", "killed", "cut"
        self.lost_at_end = set()
        self.damage = None  # of self.damaged_thread: (from, end, count)
        self.correlation = 0
        self.blocks = {}
        self.next_address = 0x7F0000000000
        self.iterations = []
        self.numbers = 0  # of calls
        self.pace = 0  # that each step is longer, in ns
        self.refused = {}
        self.command = None
        self.start_ticks = None

    # ---- records
    def add(self, thread, *records):
        for fields in records:
            if self.steps_by == "none" and fields["kind"] in (CALL, MARK, ALLOCATED, FREED):
                fields["site"] = 0  # tracer.stacks = "none": or the lines would show the steps
        self.groups[thread].append([(fields, pack(fields)) for fields in records])

    def call(
        self,
        thread,
        name,
        start,
        end,
        site=0,
        bytes=0,
        stream=0,
        status=0,
        device=-1,
        decisions=(),
        inner=None,
        correlate=False,
        block=None,
    ):
        correlation = 0
        if correlate:
            self.correlation += 1
            correlation = self.correlation
        saved = sum(saved for _, _, _, saved in decisions)
        main = max(decisions, key=lambda each: each[0], default=(0, 0, 0, 0))[0]
        group = []
        if inner is not None:
            group.append(inner)
        if self.has_events:
            for decision, size, time, lost in decisions:
                at = (start + end) // 2
                group.append(
                    dict(
                        kind=DECISION,
                        start=at,
                        end=at,
                        bytes=size,
                        stream=time,
                        saved=lost,
                        decision=decision,
                        call=self.numbers + 1,
                        known=1 if lost else 0,
                        **self.contents(),
                    )
                )
        if not self.has_events:
            saved = 0  # only decisions know it
        self.numbers += 1
        own = 2 if self.random.randrange(9) == 0 else 0
        record = dict(kind=CALL, start=start, end=end, bytes=bytes, stream=stream, saved=saved, number=self.numbers, flags=own, site=site, correlation=correlation, status=status,
                      hook=FUNCTIONS.index(name), decision=main, device=device)  # fmt: skip
        group.append(record)
        if block is not None:
            group.append(dict(block, start=start, end=end, stream=stream, site=site, hook=FUNCTIONS.index(name)))
        self.add(thread, *group)
        return record

    def decision(self, name):
        return OUTCOMES.index(name) + 1

    # ---- the program
    def make(self, iterations, begin):
        draw = self.random
        self.pools = draw.choice((1, 2))
        at = begin
        self.add(1, dict(kind=MARK, start=at, end=at, site=MAIN, bytes=7))
        for i in range(draw.randrange(3)):
            at += draw.randrange(1, 4000)
            self.call(1, "cudaStreamQuery", at, at + 500, site=MAIN if i == 0 else 0, status=600)
            at += 500
        loop = at = at + 1000
        for i in range(iterations):
            first = at
            at = self.iteration(i, at, slow=i == 0 and draw.randrange(2) == 0)
            self.iterations.append((first, at))
            self.range(1, ("forward", "forward", "load")[i % 3], first + 11 + (at - first) * (i % 5) // 9, at - 11)
            if self.steps_by == "recorded":
                self.add(1, dict(kind=STEP, start=first, end=at, bytes=i))
                self.steps.append((first, at, i, None))
            if self.steps_by == "named":
                if draw.randrange(4) == 0 and self.damaged_thread is None:
                    self.range(1, "ProfilerStep#%d" % (900 + i), first + 10, at - 10)  # within the step
                self.range(1, "ProfilerStep#%d" % i, first, at)
                self.steps.append((first, at, i, None))
            # Between two steps: a loader.
            at += draw.choice((0, 0, 700, 30_000))
            if self.steps_by in ("recorded", "named") and draw.randrange(8) == 0:
                at = self.phase(at + 500)
        if self.steps_by == "named" and self.damaged_thread is None:
            self.range(1, "ProfilerStep#7777", loop - 5, at + 5)  # around the loop
            at += 5
        for i in range(draw.randrange(3)):
            at += 2000
            self.call(1, "cudaStreamQuery", at, at + 300, status=draw.choice((0, 600, 700)))
            at += 300
        if self.steps_by == "found":
            starts = [self.upload_of[i] for i in range(iterations)]
            ends = starts[1:] + [max(fields["end"] for group in self.groups[1] for fields, _ in group if fields["kind"] == CALL)]
            self.steps = [(start, end, i, LINES[UPLOAD]) for i, (start, end) in enumerate(zip(starts, ends))]
        return at

    def phase(self, at):
        """Between two steps: an evaluation, a checkpoint, or neither."""
        draw = self.random
        what = draw.choice(("evaluation", "checkpoint", "either", "little"))
        stream = draw.choice((0, 0x5500))
        for _ in range(draw.randrange(9, 14) if what != "little" else 1):
            end = at + draw.randrange(1, 4000)
            if what == "evaluation":
                call = self.call(1, "cudaLaunchKernel", at, end, site=EVALUATE, stream=stream, device=0, correlate=True)
                self.work(call, KERNEL, stream)
            elif what == "checkpoint":
                decision = (self.decision("transfer.d2h.promoted"), 1 << 16, 0, 0)
                call = self.call(
                    1, "cudaMemcpy", at, end, site=SAVE, bytes=1 << 16, stream=stream, device=0, decisions=[decision], correlate=True
                )
                self.work(call, COPY, stream, copy=2)
            else:
                self.call(
                    1,
                    draw.choice(("cudaLaunchKernel", "cudaMemcpy", "cudaStreamQuery")),
                    at,
                    end,
                    site=draw.choice((0, SAVE, FORWARD)),
                    bytes=64,
                    device=0,
                )
            at = end + draw.choice((0, 900, 20_000))
        return at

    def range(self, thread, name, start, end, kind=1, number=0):
        self.add(
            thread,
            dict(kind=RANGE, start=start, end=end, bytes=number, site=self.run.range_number(name), hook=kind, status=1 if number else 0),
        )

    def iteration(self, i, at, slow):
        draw = self.random
        begin = at
        if i == 0:
            self.upload_of = {}
        other = at + draw.randrange(3000)
        stream = draw.choice((0, 0x5500, 0x5600))
        # What gets the batch.
        at += draw.randrange(200_000 if slow else 5000)
        at += self.pace + (draw.randrange(12) == 0) * draw.randrange(150_000)
        self.upload_of[i] = at
        end = at + draw.randrange(1, 3000)
        decisions = []
        if draw.randrange(2):
            decisions.append((self.decision(draw.choice(OUTCOMES[:3])), 4096 << draw.randrange(8), 0, draw.choice((0, 0, 55))))
        if draw.randrange(4) == 0:
            decisions.append((self.decision("transfer.sync.settled.query"), 0, 77, -77))
        name = draw.choice(("cudaMemcpyAsync", "cudaMemcpy"))
        copied = self.call(1, name, at, end, site=UPLOAD, bytes=draw.choice((0, 100, 4096, 1 << 20, 3 << 20)), stream=stream, device=0,
                           decisions=decisions, correlate=True)  # fmt: skip
        self.work(copied, COPY, stream)
        at = end
        for _ in range(4 + draw.randrange(3)):
            at += draw.choice((0, 0, 100, 2000))
            end = at + draw.randrange(0, 2500)
            inner = None
            if draw.randrange(6) == 0 and end - at > 20:
                self.numbers += 1
                inner = dict(
                    number=self.numbers,
                    kind=CALL,
                    start=at + 5,
                    end=end - 5,
                    site=LAYER,
                    hook=FUNCTIONS.index("cudaStreamQuery"),
                    status=0,
                    device=-1,
                )
            launched = self.call(1, draw.choice(("cudaLaunchKernel", "cudaLaunchKernel", "cudaGraphLaunch", "cudaMemsetAsync")), at, end, site=draw.choice((FORWARD, LAYER)),
                                 stream=stream, device=0, inner=inner, correlate=True)  # fmt: skip
            for _ in range(draw.randrange(3)):
                self.work(launched, SET if FUNCTIONS[launched["hook"]] == "cudaMemsetAsync" else KERNEL, stream)
            at = end
        if draw.randrange(2):
            at = self.memory_call(at)
        if draw.randrange(8) == 0:
            self.drop(1, at, at + 400, draw.randrange(1, 9))
            at += 400
        at += draw.randrange(1000)
        end = at + draw.randrange(20_000)
        skipped = draw.randrange(3)
        decisions = [(self.decision(("transfer.sync.skipped", "transfer.sync.skipped.rest")[skipped - 1]), 0, 900, 0)] if skipped else []
        self.call(1, "cudaStreamSynchronize" if skipped or draw.randrange(2) else "cudaDeviceSynchronize", at, end, site=WAIT, stream=stream if skipped else 0,
                  decisions=decisions, status=draw.choice((0, 0, 0, 0, 0, 719)))  # fmt: skip
        at = end
        # Another thread, whose calls may overlap with these.
        for _ in range(draw.randrange(5)):
            other += draw.randrange(4000)
            length = draw.randrange(6000)
            name = draw.choice(("cudaLaunchKernel", "cudaMemcpyAsync", "cudaMalloc"))
            launched = self.call(
                2, name, other, other + length, bytes=draw.choice((0, 64, 1 << 16)), device=0, stream=stream, correlate=True
            )
            if name == "cudaLaunchKernel":
                self.work(launched, KERNEL, stream)
            other += length
        if draw.randrange(3) == 0:
            wait = (self.decision("transfer.sync.skipped"), 0, 30, 0)
            self.call(2, "cudaStreamSynchronize", other, other + 200, stream=draw.choice((stream, 0x5700)), decisions=[wait])
            other += 200
        if self.device is not None and draw.randrange(4) == 0:
            # A library that calls the driver past every hook.
            self.correlation += 1
            function = draw.choice((1, 2, 3))
            driver = dict(
                kind=DRIVER_CALL,
                start=other + 10,
                end=other + 60,
                bytes=draw.randrange(3),
                number=draw.choice((0, self.numbers)),
                flags=draw.choice((0, 2)),
                correlation=self.correlation,
                hook=function,
            )
            self.add(2, driver)
            self.work(driver, (KERNEL, COPY, WAIT_FOR)[function - 1], stream)
            other += 60
        if draw.randrange(9) == 0 and self.damaged_thread != 2:
            self.drop(2, other, other + 50, draw.randrange(1, 90))
            other += 50
        if self.has_events and draw.randrange(3) == 0:
            self.add(
                2,
                dict(
                    kind=DECISION,
                    start=other,
                    end=other,
                    bytes=draw.randrange(1 << 20),
                    saved=0,
                    decision=self.decision("allocator.parked"),
                    call=0,
                    known=0,
                    **self.contents(),
                ),
            )
        idle = draw.randrange(1 << 30)
        self.add(1, dict(kind=MEMORY, start=at, end=at, bytes=draw.randrange(1 << 36), stream=idle, number=draw.randrange(idle + 1), site=draw.randrange(9),
                         correlation=draw.randrange(4), device=draw.randrange(self.pools), flags=draw.randrange(4), stack=draw.randrange(1 << 32), status=draw.randrange(32),
                         hook=draw.randrange(1 << 16), decision=draw.randrange(1 << 10)))  # fmt: skip
        self.add(1, dict(kind=TASKS, start=at - draw.randrange(2) * draw.randrange(500), end=at, bytes=draw.randrange(1 << 40), stream=draw.randrange(1 << 40),
                         number=draw.randrange(1 << 40), stack=draw.randrange(1 << 10), site=draw.randrange(99), correlation=draw.randrange(99), status=draw.randrange(3),
                         hook=draw.randrange(3), flags=draw.randrange(4)))  # fmt: skip
        return max(at, other, begin + 1)

    def contents(self):
        """The two halves of a fingerprint of what a copy carried, or none."""
        known = self.random.randrange(3) != 0
        return dict(correlation=self.random.randrange(1 << 32) * known, status=self.random.randrange(-(1 << 31), 1 << 31) * known)

    def memory_call(self, at):
        draw = self.random
        end = at + draw.randrange(1, 3000)
        if draw.randrange(25) == 0:
            self.blocks.clear()
            self.call(1, "cudaDeviceReset", at, end, block=dict(kind=FREED, number=0, status=3 << 8, device=-1))
            return end
        if self.blocks and draw.randrange(3) == 0:
            address = draw.choice(sorted(self.blocks))
            del self.blocks[address]
            block = dict(kind=FREED, number=address, status=2 << 8, device=-1)
            self.call(
                1,
                "cudaFree",
                at,
                end,
                site=LAYER,
                decisions=[
                    (self.decision(draw.choice(("allocator.parked", "allocator.freed.cap", "allocator.reclaimed"))), 512, 0, 0)
                ],
                block=block,
            )
            return end
        if draw.randrange(12) == 0:  # one that nobody saw allocated
            self.call(1, "cudaFree", at, end, site=LAYER, block=dict(kind=FREED, number=0x1234000, status=2 << 8, device=-1))
            return end
        if draw.randrange(12):  # else it is given out again, and nobody saw it freed
            self.next_address += 1 << 21
        address, size = self.next_address, draw.choice((512, 1 << 20, 20 << 20))
        self.blocks[address] = size
        decision = draw.choice(("allocator.reused", "allocator.grown", "allocator.retried"))
        block = dict(
            kind=ALLOCATED,
            number=address,
            bytes=size,
            status=1 << 8 | draw.choice((0, 0, 0, 1)),
            device=draw.randrange(2),
            correlation=draw.randrange(3),
        )
        self.call(1, "cudaMalloc", at, end, site=draw.choice((0, LAYER, OTHER)), bytes=size, device=0, stream=draw.choice((0, 0x5500)),
                  decisions=[(self.decision(decision), size, 0, 0)], block=block)  # fmt: skip
        return end

    def drop(self, thread, start, end, count):
        if self.damaged_thread == thread or self.steps_by == "found" and thread == 1:
            return
        self.dropped[thread] += count
        self.add(thread, dict(kind=DROP, start=start, end=end, bytes=count, number=self.dropped[thread]))

    # ---- devices
    def record_devices(self, begin):
        """Readings of both clocks, far enough: Monotonic is the line through them."""
        draw = self.random
        self.device = []
        mono, device = begin, begin + DEVICE_BASE + 5000
        for _ in range(draw.choice((5, 9, 30))):
            before, after = mono - 30, mono + 30
            self.device.append((before, after, device))
            mono += TICK + draw.randrange(-40, 40)
            device += TICK

    def monotonic(self, recorded):
        """Of a time as a record of device work has it: exact, and rounded down."""
        readings = [(device - DEVICE_BASE, before + (after - before) // 2) for before, after, device in self.device]
        if recorded < readings[0][0]:
            return recorded - readings[0][0] + readings[0][1]
        for (from_device, from_mono), (to_device, to_mono) in zip(readings, readings[1:]):
            if from_device <= recorded < to_device:
                return from_mono + (recorded - from_device) * (to_mono - from_mono) // (to_device - from_device)
        return recorded - readings[-1][0] + readings[-1][1]

    def work(self, call, kind, stream, copy=None):
        if self.device is None:
            return
        if kind == WAIT_FOR:
            return self.groups[0].append([spools.synchronization(self.random, call)])
        draw = self.random
        start = call["end"] + 5000 + draw.randrange(9000)
        end = start + draw.choice((0, 500, 8000, 60_000))
        correlation = call["correlation"] if draw.randrange(12) else 4_000_000_000 + draw.randrange(1000)
        number = {0: 7, 0x5500: 13, 0x5600: 14}[stream]
        work = dict(kind=kind, start=start, end=end, context=1, stream=number, correlation=correlation, device=draw.choice((0, 0, 0, 1)))
        if kind == KERNEL:
            grid, block = (draw.randrange(1, 500), draw.randrange(1, 4), 1), (32 * draw.randrange(1, 9), draw.randrange(1, 3), 1)
            registers, static, dynamic = draw.randrange(16, 128), draw.randrange(3000), draw.randrange(40_000)
            name = 1 + draw.randrange(len(KERNEL_NAMES))
            detail = (name, *grid, block[0] | block[1] << 16, block[2] | registers << 16, static, dynamic)
            if call["kind"] == CALL and FUNCTIONS[call["hook"]] == "cudaGraphLaunch":
                work.update(node=77)
            more = dict(name=name, shape=(grid, block, registers, static, dynamic))
        else:
            size = draw.randrange(1 << 34)
            copy = copy or draw.choice((1, 2, 8))
            last = (copy | 1 << 8 | 3 << 16, 0xFFFFFFFF, 0xFFFFFFFF) if kind == COPY else (0, 3)
            detail = (size & 0xFFFFFFFF, size >> 32, *last)
            more = dict(bytes=size, copy=copy)
        self.groups[0].append([({**work, **more}, spools.activity(**work, detail=detail))])

    # ---- the file
    def facts(self):
        facts = {"pid": str(self.pid), "host": self.host.name, "executable": "/usr/bin/python3", "start": "x"}
        if self.pace:
            facts["intercept"] = "driver" if self.device is None else "runtime"
        if self.start_ticks is not None:
            facts["process_start_ticks"] = str(self.start_ticks)
        if self.host.boot:
            facts["boot_id"] = self.host.boot
        if self.rank is not None:
            facts.update({"rank": str(self.rank), "local_rank": "0", "world_size": str(self.run.ranks)})
        facts.update({key: str(count) for key, count in self.refused.items()})
        if self.command is not None:
            facts["command_line"] = "".join(word + "\0" for word in self.command)
        if self.device is not None:
            facts.update({"deviceWork": "cupti"})
            facts.update({key: value.format(host=self.run.hosts.index(self.host)) for key, value in DEVICE_FACTS.items()})
        return facts

    def write(self, folder):
        spool = spools.Spool(self.host.difference + 1000)
        spool.facts(self.facts())
        spool.names(spools.HOOKS, dict(enumerate(FUNCTIONS)))
        spool.names(spools.DECISIONS, {i + 1: name for i, name in enumerate(OUTCOMES)})
        spool.names(spools.KERNELS, {i + 1: name for i, name in enumerate(KERNEL_NAMES)})
        spool.names(spools.RANGES, {number: name for name, number in self.run.range_names.items()})
        spool.names(spools.CALLERS, LIBRARY_NAMES)
        spool.names(spools.DRIVER_FUNCTIONS, DRIVER_NAMES)
        spool.names(spools.LIBRARIES, DRIVER_LIBRARIES)
        spool.sites(LINES)
        own = [spools.record(CLOCK, before, after, bytes=realtime, stream=before) for before, after, realtime in self.clocks]
        if self.device is not None:
            for i, (before, after, device) in enumerate(self.device):
                reading = 1 if i == 0 else 2 if i == len(self.device) - 1 else 0
                own.append(spools.record(DEVICE_CLOCK, before, after, bytes=device, stream=DEVICE_BASE, status=reading))
        if self.dropped_without_ring:
            at = self.iterations[-1][1]
            own.append(spools.record(DROP, at, at + 10, bytes=self.dropped_without_ring, number=self.dropped_without_ring))
        spool.records(0, own)
        spool.activities([data for group in self.groups[0] for _, data in group])
        for thread in (1, 2):
            spool.thread(thread, *self.tids[thread])
            groups = self.groups[thread]
            size = max(1, len(groups) // 4)
            parts = [groups[at : at + size] for at in range(0, len(groups), size)]
            for number, part in enumerate(parts):
                records = [data for group in part for _, data in group]
                chunks = spool.records(thread, records)
                if self.damaged_thread == thread and number == 1:
                    spool.damage(chunks[0])
                    self.lose(part)
                    before = [fields["end"] for group in parts[0] for fields, _ in group]
                    self.damage = (max(before), parts[2][0][0][0]["end"], len(records))
                if self.ending == "cut" and thread == 2 and number == len(parts) - 1:
                    self.lose(part)
                    cut = len(spool.data) - 13
            if self.ending in ("finished", "limit"):
                spool.thread_end(thread, self.dropped[thread] + self.unsaid(thread))
        if self.ending == "finished":
            spool.counters(spools.HOOKS, self.counted(CALL, "hook"))
            spool.counters(spools.DECISIONS, self.counted(DECISION, "decision"))
        if self.ending in ("finished", "limit"):
            spool.end(
                sum(self.dropped.values()) + self.unsaid(1) + self.unsaid(2) + self.dropped_without_ring,
                spools.FINISHED if self.ending == "finished" else spools.LIMIT,
            )
        if self.ending == "cut":
            del spool.data[cut:]
        spool.write(folder / self.file)

    def counted(self, kind, number):
        """What the process's own counters say: of all that it did, whatever became of the records."""
        counted = {}
        for thread in (1, 2):
            for group in self.groups[thread]:
                for fields, _ in group:
                    if fields["kind"] == kind:
                        calls, errors, size, time = counted.get(fields[number], (0, 0, 0, 0))
                        errors += kind == CALL and fields.get("status", 0) not in (0, 600)
                        time += fields.get("stream", 0) if kind == DECISION else fields["end"] - fields["start"]
                        counted[fields[number]] = (calls + 1, errors, size + fields.get("bytes", 0), time)
        return counted

    def told_dropped(self):
        """Of a file without an end: what the gaps in it say."""
        return sum(max((fields["number"] for of, fields in self.rows(DROP) if of == thread), default=0) for thread in (1, 2))

    def unsaid(self, thread):
        """Dropped at the very end of the thread, where there was no room for a record of it."""
        return 5 if self.run.seed % 3 == 0 and thread == 2 and self.ending == "finished" and self.damaged_thread is None else 0

    def lose(self, groups):
        for group in groups:
            for fields, _ in group:
                self.lost_at_end.add(id(fields))
                if fields["kind"] == STEP or fields["kind"] == RANGE:
                    self.steps = [step for step in self.steps if step[:2] != (fields["start"], fields["end"])]

    def rows(self, *kinds):
        """(thread, fields) of what is in the file."""
        for thread, groups in self.groups.items():
            for group in groups:
                for fields, _ in group:
                    if fields["kind"] in kinds and id(fields) not in self.lost_at_end:
                        yield thread, fields


class Run:
    def __init__(self, seed):
        self.seed = seed
        self.random = random.Random(seed)
        self.range_names = {}
        self.hosts = [
            Host("node-a", "boot-a", 1_700_000_000_000_000_000 - 50_000_000_000),
            Host("node-b", "boot-b", 1_700_000_000_000_000_000 - 9_000_000_000_000),
        ]
        draw = self.random
        ways = ["recorded", "named", "found", "none"]
        draw.shuffle(ways)
        self.ranks = 2
        a, b = self.hosts
        # Two of one number, on two hosts; one of no rank.
        self.processes = [
            Process(self, "a.spool", a, 100, 0, ways[0]),
            Process(self, "b.spool", b, 100, 1, ways[1]),
            Process(self, "c.spool", a, 102, None, ways[2]),
        ]
        begins = {a: 60_000_000_000, b: 9_010_000_000_000}
        for number, process in enumerate(self.processes):
            begin = begins[process.host] + number * 77_777
            process.has_events = draw.randrange(4) != 0
            process.ending = draw.choice(("finished", "finished", "limit", "killed", "cut"))
            if process.steps_by in ("recorded", "none") and draw.randrange(3) == 0:
                process.damaged_thread = draw.choice((1, 2))
            process.pace = draw.choice((0, 0, 25_000))
            process.start_ticks = draw.choice((None, begin // 10_000_000 - 250, begin // 10_000_000 + 10))  # the last cannot be
            if draw.randrange(4) != 0:
                process.record_devices(begin - 100_000)
            if draw.randrange(3) == 0:
                process.refused = {"sites.refused": draw.randrange(1, 99), "range_names.refused": 2}
                process.command = ("python3", "train.py", "--name", "a b")
            process.dropped_without_ring = draw.choice((0, 0, 3))
            difference = process.host.difference
            process.clocks = [(begin - 10_000, begin - 9_900 + number, begin - 9_950 + difference + number // 2)]
            last = process.make(draw.randrange(14, 50), begin)
            # Set back by an hour: the reading took longer, so that the first one counts.
            set_back = HOUR if process.host is a else 0
            process.clocks.append((last, last + 900, last + 450 + difference - set_back))

    def range_number(self, name):
        return self.range_names.setdefault(name, len(self.range_names) + 1)

    def write(self, folder):
        folder.mkdir(mode=0o700)
        for process in self.processes:
            process.write(folder)
