"""Copies between host and device in every way that PyTorch's users write them.

Results do not depend on what a kernel computes: PyTorch's own kernels do nothing on the simulated device, and are only
launched to be in the way of a copy (SIMCUDA_KERNELS=empty).
"""

import io
import threading

import torch

from checks import expect, expect_same, finish, section, values

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool,
          torch.complex64)
SIZES = (0, 1, 3, 1000, 16384, 65537, 1 << 20)
LARGE = (5 << 20) + 3


def round_trips():
    counted = 0
    for dtype in DTYPES:
        for size in SIZES:
            x = values(size, dtype, seed=size)
            expect_same(f"{dtype} {size}", x.cuda().cpu(), x)
            expect_same(f"{dtype} {size} to()", x.to("cuda").to("cpu"), x)
            counted += 2
    for size in (LARGE, 3 * LARGE):
        x = values(size, torch.float32)
        expect_same(f"large {size}", x.cuda().cpu(), x)
        counted += 1
    return counted


def strides():
    x = values(600 * 500).view(600, 500)
    views = {
        "transposed": x.t(),
        "every third": x[::2, ::3],
        "a column": x[:, 7],
        "rows": x[5:77],
        "expanded": x[3].expand(50, 500),
        "channels last": values(2 * 3 * 64 * 64).view(2, 3, 64, 64).to(memory_format=torch.channels_last),
        "odd offset": values(100001, torch.uint8)[1:],
        "cast on the way": None,
    }
    for name, view in views.items():
        if view is not None:
            expect_same(name, view.cuda().cpu(), view)
    expect_same("cast on the way", x.to("cuda", torch.float16).cpu(), x.to(torch.float16))
    return len(views)


def c16_overwritten_sources():
    """What was copied is what was there when the call was made."""
    counted = 0
    for size in (1, 1000, 65537, 1 << 20, LARGE):
        for non_blocking in (False, True):
            x = values(size)
            kept = x.clone()
            on_device = x.to("cuda", non_blocking=non_blocking)
            x.fill_(-1.0)
            expect_same(f"{size} non_blocking={non_blocking}", on_device.cpu(), kept)
            counted += 1
    return counted


def c16_pinned_buffers():
    """Two pinned buffers in turn, each filled again once the copy from it is done, and pageable ones at once."""
    size, steps = 600_000, 12
    buffers = [torch.empty(size).pin_memory() for _ in range(2)]
    copied = [torch.cuda.Event() for _ in range(2)]
    loose = torch.empty(size)
    on_device = []
    for step in range(steps):
        buffer, event = buffers[step % 2], copied[step % 2]
        if step % 3 == 0:
            event.synchronize()
        while not event.query():
            pass
        buffer.copy_(values(size, seed=step))
        loose.copy_(values(size, seed=100 + step))
        on_device.append((buffer.to("cuda", non_blocking=True), loose.to("cuda", non_blocking=True)))
        event.record()
        loose.fill_(-1.0)
    # Into memory that PyTorch pins, and that is there once the stream has been waited for.
    back = [[tensor.to("cpu", non_blocking=True) for tensor in pair] for pair in on_device]
    torch.cuda.current_stream().synchronize()
    for step, (pinned_one, loose_one) in enumerate(back):
        expect_same(f"pinned {step}", pinned_one, values(size, seed=step))
        expect_same(f"pageable {step}", loose_one, values(size, seed=100 + step))
    return 2 * steps


def c16_through_pinned_memory():
    """Pinned memory is written and read in the order of the stream, with nobody waiting in between."""
    counted = 0
    for size in (1000, 65537, 600_000):
        for i in range(4):
            source = values(size, seed=i).cuda()
            source.mul_(2)  # does nothing
            host = torch.full((size,), -1.0).pin_memory()
            target = torch.empty(size, device="cuda")
            host.copy_(source, non_blocking=True)
            target.copy_(host, non_blocking=True)
            expect_same(f"{size} {i}", target.cpu(), values(size, seed=i))
            counted += 1
    return counted


def c16_read_at_once():
    """A copy to pageable memory is complete when the call returns, whatever it is called with."""
    counted = 0
    for size in (1, 1000, 65537, LARGE):
        y = values(size, seed=size).cuda()
        for non_blocking in (True, False):
            y.add_(1)  # does nothing
            host = torch.full((size,), -1.0)
            host.copy_(y, non_blocking=non_blocking)
            expect_same(f"{size} non_blocking={non_blocking}", host, values(size, seed=size))
            counted += 1
    return counted


def freed_sources():
    """The host memory of a batch is free, and somebody else's, as soon as the copy has returned."""
    on_device = []
    for i in range(24):
        on_device.append((i, values(300_000, seed=i).cuda()))
        values(300_000, seed=1000 + i)
    for i, y in on_device:
        expect_same(f"batch {i}", y.cpu(), values(300_000, seed=i))
    return len(on_device)


def behind_kernels():
    """Copies whose stream has work, among them small ones; the work reads and writes their memory."""
    counted = 0
    busy = values(1 << 20).cuda()
    for i in range(12):
        busy.mul_(3)  # does nothing
        x = values(40_000 + i, seed=i)
        y = x.cuda()
        y.add_(1)
        small = torch.tensor([float(i)]).cuda()
        small.add_(1)
        expect_same(f"step {i}", y.cpu(), x)
        expect(f"item {i}", small.item() == float(i))
        counted += 2
    expect_same("busy", busy.cpu(), values(1 << 20))
    return counted + 1


def into_given_memory():
    counted = 0
    device = values(400_000).cuda()
    for start, count in ((0, 1), (17, 1000), (4096, 200_000)):
        x = values(count, seed=start)
        device[start:start + count].copy_(x)
        expect_same(f"slice {start}", device[start:start + count].cpu(), x)
        counted += 1
    host = values(400_000, seed=9)
    expected = host.clone()
    for start, count in ((1, 3), (999, 100_000), (200_001, 150_000)):
        host[start:start + count].copy_(device[:count])
        expected[start:start + count] = device[:count].cpu()
        counted += 1
    expect_same("slices of the host", host, expected)
    again = torch.empty_like(device)
    again.copy_(device)
    device.copy_(values(400_000, seed=3))
    expect_same("first", again.cpu()[:1], values(1, seed=0))
    expect_same("second", device.cpu(), values(400_000, seed=3))
    return counted + 3


def pinned():
    counted = 0
    for size in (1, 1000, 65537, LARGE):
        x = values(size, seed=5)
        p = x.pin_memory()
        expect("is_pinned", p.is_pinned() and not x.is_pinned())
        expect_same(f"blocking {size}", p.cuda().cpu(), x)
        y = p.cuda(non_blocking=True)
        torch.cuda.synchronize()
        p.fill_(0)  # nobody reads it any more
        expect_same(f"non_blocking {size}", y.cpu(), x)
        back = torch.empty(size).pin_memory()
        back.copy_(y, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        expect_same(f"back {size}", back, x)
        counted += 4
    return counted


def streams_and_events():
    counted = 0
    first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    for size in (1000, 65537, LARGE):
        x = values(size, seed=size)
        p = x.pin_memory()
        copied = torch.cuda.Event()
        with torch.cuda.stream(first):
            a = p.cuda(non_blocking=True)
            b = x.cuda(non_blocking=True)
            copied.record()
        second.wait_event(copied)
        with torch.cuda.stream(second):
            c = torch.empty_like(a)
            c.copy_(a, non_blocking=True)
            back = torch.empty(size).pin_memory()
            back.copy_(c, non_blocking=True)
            a.record_stream(second)
        del a
        torch.cuda.current_stream().wait_stream(second)
        torch.cuda.current_stream().wait_stream(first)
        expect_same(f"b {size}", b.cpu(), x)
        expect_same(f"c {size}", c.cpu(), x)
        second.synchronize()
        expect_same(f"back {size}", back, x)
        expect("query", copied.query() and first.query())
        counted += 4
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    x = values(1 << 20).cuda()
    end.record()
    end.synchronize()
    expect("time", start.elapsed_time(end) >= 0)
    return counted + 1


def reused_device_memory():
    """A block that is freed and allocated again while its copies are not yet done."""
    for i in range(20):
        x = values(700_000, seed=i)
        y = x.cuda()
        del y
        z = values(700_000, seed=100 + i).cuda()
        if i % 5 == 4:
            torch.cuda.empty_cache()
        expect_same(f"{i}", z.cpu(), values(700_000, seed=100 + i))
    return 20


def two_devices():
    x = values(200_000, seed=8)
    a = x.to("cuda:0")
    b = a.to("cuda:1")
    expect_same("0 to 1", b.cpu(), x)
    expect_same("1 to 0", b.to("cuda:0").cpu(), x)
    with torch.cuda.device(1):
        y = values(LARGE, seed=2)
        expect_same("on 1", y.cuda().cpu(), y)
    expect("device", torch.cuda.current_device() == 0)
    return 4


def threads():
    wrong = []

    def work(number):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(15):
                x = values(10_000 * (1 + i % 7), seed=100 * number + i)
                y = x.cuda(non_blocking=i % 2 == 0)
                x.fill_(0)
                y.mul_(1)
                if not torch.equal(y.cpu(), values(10_000 * (1 + i % 7), seed=100 * number + i)):
                    wrong.append((number, i))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expect(f"threads {wrong}", not wrong)
    return 45


def saved():
    x = values(100_000)
    file = io.BytesIO()
    torch.save({"a": x.cuda(), "b": [x[:7].cuda()]}, file)
    file.seek(0)
    loaded = torch.load(file)
    expect("device", loaded["a"].is_cuda)
    expect_same("a", loaded["a"].cpu(), x)
    expect_same("b", loaded["b"][0].cpu(), x[:7])
    file.seek(0)
    expect_same("on the host", torch.load(file, map_location="cpu")["a"], x)
    return 4


def module_and_optimizer():
    model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.BatchNorm1d(200))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.cuda()
    for name, value in model.state_dict().items():
        expect_same(name, value.cpu(), before[name])
    model.load_state_dict({name: value + 1 for name, value in before.items()})
    model.cpu()
    for name, value in model.state_dict().items():
        expect_same(name, value, before[name] + 1)
    return 2 * len(before)


def cuda_graph():
    source, target = values(50_000).cuda(), torch.empty(50_000, device="cuda")
    host = values(50_000).pin_memory()
    out = torch.empty(50_000).pin_memory()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        source.copy_(host, non_blocking=True)
        target.copy_(source)
        out.copy_(target, non_blocking=True)
    for seed in (4, 5):
        host.copy_(values(50_000, seed=seed))
        graph.replay()
        torch.cuda.synchronize()
        expect_same(f"replay {seed}", out, values(50_000, seed=seed))
    x = values(70_000, seed=6)
    expect_same("behind a graph", x.cuda().cpu(), x)
    return 3


def errors():
    """What PyTorch says of a mistake is what it says without slipstream, and life goes on."""
    for mistake in (lambda: torch.empty(3, device="cuda").copy_(values(4)), lambda: values(3).to("cuda:7"),
                    lambda: torch.empty(3, device="cuda").numpy()):
        try:
            mistake()
            expect("no error", False)
        except Exception as error:  # whatever it is, it is printed, and compared with a run without slipstream
            print(f"{type(error).__name__}: {str(error).splitlines()[0]}")
    x = values(1000)
    expect_same("afterwards", x.cuda().cpu(), x)
    return 4


def main():
    torch.manual_seed(1)
    for part in (round_trips, strides, c16_overwritten_sources, c16_pinned_buffers, c16_through_pinned_memory,
                 c16_read_at_once, freed_sources, behind_kernels, into_given_memory, pinned, streams_and_events,
                 reused_device_memory, two_devices, threads, saved, module_and_optimizer, cuda_graph, errors):
        section(part)
    finish()


if __name__ == "__main__":
    main()
