"""What a program may lean on: the order of a stream, and that a blocking copy is over when it returns.

Each part fails where a copy is read or written too early, and most of them where the synchronization behind a blocking copy is
left out without paying for it. Parts begin with work that nobody waits for, so that streams are busy.
"""

import threading

import torch

from checks import expect, expect_same, finish, section, values

SIZES = (1, 1000, 30_000, 700_000)


def later():
    """A stream that nothing orders with others."""
    return torch.cuda.Stream()


def busy(count=3):
    """Work on the current stream that nobody waits for: kernels that do nothing, and copies on the device."""
    a = torch.empty(1000, device="cuda")
    b = torch.empty_like(a)
    for _ in range(count):
        a.mul_(2)
        b.copy_(a)


def destinations_that_are_still_read():
    """A copy to the device may not overwrite what work in front of it on the stream has yet to read."""
    counted = 0
    for size in SIZES:
        for non_blocking in (False, True):
            old, new = values(size, seed=1), values(size, seed=2)
            target = old.cuda()
            kept = torch.empty_like(target)
            torch.cuda.synchronize()
            busy()
            kept.copy_(target)
            target.copy_(new, non_blocking=non_blocking)
            busy()
            expect_same(f"{size} {non_blocking} what was there", kept.cpu(), old)
            expect_same(f"{size} {non_blocking} what is there", target.cpu(), new)
            counted += 2
    return counted


def destinations_that_are_still_written():
    """The last one on the stream wins."""
    counted = 0
    for size in SIZES:
        source = values(size, seed=3).cuda()
        target = values(size, seed=4).cuda()
        torch.cuda.synchronize()
        busy()
        target.copy_(source)
        target.copy_(values(size, seed=5))
        expect_same(f"{size}", target.cpu(), values(size, seed=5))
        target.copy_(values(size, seed=6))
        target.copy_(source)
        expect_same(f"{size} by the device", target.cpu(), values(size, seed=3))
        counted += 2
    return counted


def pinned_memory_behind_a_blocking_copy():
    """What was copied to pinned memory in front of it is there: the program has waited for the stream."""
    counted = 0
    for size in SIZES:
        for other in (30, 100_000):
            source = values(size, seed=7).cuda()
            out = torch.zeros(size).pin_memory()
            torch.cuda.synchronize()
            busy()
            out.copy_(source, non_blocking=True)
            y = values(other, seed=8).cuda()
            expect_same(f"{size} {other}", out, values(size, seed=7))
            expect_same(f"{size} {other} itself", y.cpu(), values(other, seed=8))
            counted += 2
    return counted


def pinned_memory_of_another_stream():
    """As above, when the copy's stream had been told to wait for the other one."""
    counted = 0
    for size in SIZES:
        side = torch.cuda.Stream()
        source = values(size, seed=9).cuda()
        out = torch.zeros(size).pin_memory()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            busy()
            out.copy_(source, non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        values(500, seed=10).cuda()
        expect_same(f"{size}", out, values(size, seed=9))
        counted += 1
    return counted


def pinned_memory_that_is_read_again():
    """Pinned memory is read when the stream comes to it, not before: it is being written."""
    counted = 0
    for size in SIZES:
        source = values(size, seed=11).cuda()
        between = torch.zeros(size).pin_memory()
        torch.cuda.synchronize()
        busy()
        between.copy_(source, non_blocking=True)
        y = between.cuda(non_blocking=True)
        z = between.cuda()
        expect_same(f"{size}", y.cpu(), values(size, seed=11))
        expect_same(f"{size} blocking", z.cpu(), values(size, seed=11))
        counted += 2
    return counted


def other_streams_behind_a_blocking_copy():
    """Nothing orders the other stream, and nothing has to: the copy is over."""
    counted = 0
    for size in SIZES:
        side = later()
        busy()
        y = values(size, seed=12).cuda()
        with torch.cuda.stream(side):
            z = torch.empty_like(y)
            z.copy_(y)
            back = torch.zeros(size).pin_memory()
            back.copy_(z, non_blocking=True)
        side.synchronize()
        expect_same(f"{size}", back, values(size, seed=12))
        counted += 1
    return counted


def questions_behind_a_blocking_copy():
    """The stream is done, and an event in front of the copy has passed: at once, not after a while."""
    counted = 0
    for size in SIZES:
        event = torch.cuda.Event()
        busy()
        event.record()
        values(size, seed=13).cuda()
        expect(f"{size} event", event.query())
        busy()
        values(size, seed=14).cuda()
        expect(f"{size} stream", torch.cuda.current_stream().query())
        counted += 2
    return counted


def synchronizations_of_the_program():
    """A synchronization of its own, behind a copy that does not block, is one."""
    counted = 0
    for size in SIZES:
        for wait in (lambda: torch.cuda.current_stream().synchronize(), torch.cuda.synchronize):
            out = torch.zeros(size).pin_memory()
            busy()
            y = values(size, seed=15).to("cuda", non_blocking=True)
            out.copy_(y, non_blocking=True)
            wait()
            expect_same(f"{size}", out, values(size, seed=15))
            counted += 1
        out = torch.zeros(size).pin_memory()
        event = torch.cuda.Event()
        y = values(size, seed=16).cuda()
        out.copy_(y, non_blocking=True)
        event.record()
        event.synchronize()
        expect_same(f"{size} event", out, values(size, seed=16))
        counted += 1
    return counted


def copies_of_another_thread():
    """A thread that made blocking copies and is gone: whoever joined it may use them on any stream."""
    counted = 0
    for size in SIZES:
        made = []

        def work():
            with torch.cuda.stream(torch.cuda.Stream()):
                busy()
                made.append(values(size, seed=17).cuda())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with torch.cuda.stream(later()):
            expect_same(f"{size}", made[0].cpu(), values(size, seed=17))
        counted += 1
    return counted


def many_at_once():
    """More than fits in staging memory, small and large, while nothing runs that nobody waits for."""
    busy()
    small = [values(2000, seed=i).to("cuda", non_blocking=True) for i in range(800)]
    large = [values(600_000, seed=i).to("cuda", non_blocking=i % 2 == 0) for i in range(140)]
    for i, y in enumerate(small):
        expect_same(f"small {i}", y.cpu(), values(2000, seed=i))
    for i, y in enumerate(large):
        expect_same(f"large {i}", y.cpu(), values(600_000, seed=i))
    return len(small) + len(large)


def results_in_pageable_memory():
    """.cpu() and .item() are complete when they return, also into memory that was used before."""
    counted = 0
    for size in SIZES:
        source = values(size, seed=18).cuda()
        target = torch.zeros(size)
        for _ in range(3):
            busy()
            target.copy_(source)
            expect_same(f"{size}", target, values(size, seed=18))
            target.zero_()
            counted += 1
        expect(f"{size} item", source[size // 2].item() == values(size, seed=18)[size // 2].item())
    return counted


def main():
    for part in (destinations_that_are_still_read, destinations_that_are_still_written,
                 pinned_memory_behind_a_blocking_copy, pinned_memory_of_another_stream,
                 pinned_memory_that_is_read_again, other_streams_behind_a_blocking_copy,
                 questions_behind_a_blocking_copy, synchronizations_of_the_program, copies_of_another_thread, many_at_once,
                 results_in_pageable_memory):
        section(part)
    finish()


if __name__ == "__main__":
    main()
