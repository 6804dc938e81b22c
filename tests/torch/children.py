"""Children of every kind that a training program makes, which use the device themselves or do not.

    children.py --workers|--programs

What a child prints is the same in every run. What it has loaded is not: it goes into files named *.maps, which
torch_test.py reads.
"""

import multiprocessing
import os
import shutil
import subprocess
import sys

import torch
from torch.utils.data import DataLoader, Dataset

from checks import expect, expect_same, finish, section, values

LENGTH, BATCH = 12, 3


def leave_maps(name):
    with open("/proc/self/maps") as maps, open(f"{name}.maps", "w") as out:
        out.write(maps.read())


class Rows(Dataset):
    """Of tensors that a worker makes, and that says which libraries the worker has."""

    def __init__(self, how):
        self.how = how

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        if index == 0:
            leave_maps(f"worker-{self.how}")
        return values(5000, seed=index)


def batches(how):
    loader = DataLoader(Rows(how), batch_size=BATCH, num_workers=2 if how == "fork" else 1, multiprocessing_context=how)
    counted = 0
    for number, batch in enumerate(loader):
        expected = torch.stack([values(5000, seed=index) for index in range(number * BATCH, (number + 1) * BATCH)])
        expect_same(f"{how} {number}", batch.cuda().cpu(), expected)
        counted += 1
    return counted


def loader_fork():
    return batches("fork")


def loader_spawn():
    return batches("spawn")


def loader_forkserver():
    return batches("forkserver")


def round_trip(seed):
    """A child's work: there and back on the device, and a word about it."""
    good = torch.equal(values(40_000, seed=seed).cuda().cpu(), values(40_000, seed=seed))
    print(f"child {seed}: {'good' if good else 'WRONG'}", flush=True)
    leave_maps(f"child-{seed}")
    return good


def in_process(how, seed):
    process = multiprocessing.get_context(how).Process(target=round_trip, args=(seed,))
    process.start()
    process.join()
    expect(f"{how}: exit code {process.exitcode}", process.exitcode == 0)
    return 1


def process_spawn():
    return in_process("spawn", 1)


def process_forkserver():
    return in_process("forkserver", 2)


def forked_without_cuda():
    """A forked child may not use the device, but it may become a program that does."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            os.execv(sys.executable, [sys.executable, "-B", __file__, "--child", "3"])
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    expect(f"status {status}", status == 0)
    return 1


def by_subprocess():
    command = [sys.executable, "-B", __file__, "--child"]
    for seed, arguments in (("4", {}), ("5", {"close_fds": False})):
        done = subprocess.run([*command, seed], stdout=subprocess.PIPE, text=True, **arguments)
        expect(f"{seed}: {done}", done.returncode == 0 and done.stdout == f"child {seed}: good\n")
    return 2


def by_a_shell():
    line = f"{sys.executable} -B {__file__} --child"
    done = subprocess.run(f"{line} 6 && nice env FRUIT=apple {line} 7", shell=True, stdout=subprocess.PIPE, text=True)
    expect(f"{done}", done.returncode == 0 and done.stdout == "child 6: good\nchild 7: good\n")
    return 1


def a_tool():
    """Something like ptxas: no Python, no CUDA."""
    tool = shutil.copy(shutil.which("cat"), os.path.abspath("ptxas"))
    with open("tool.maps", "w") as out:
        done = subprocess.run([tool, "/proc/self/maps"], stdout=out)
        expect(f"{done}", done.returncode == 0)
    with open("tool-of-a-shell.maps", "w") as out:
        done = subprocess.run(f"{tool} /proc/self/maps", stdout=out, shell=True)
        expect(f"{done}", done.returncode == 0)
    expect("system", os.system(f"{tool} /proc/self/maps > tool-of-system.maps") == 0)
    with open("tool-spawned.maps", "w") as out:
        child = os.posix_spawn(tool, [tool, "/proc/self/maps"], os.environ,
                               file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)])
        expect("spawned", os.waitpid(child, 0)[1] == 0)
    return 4


def ranks():
    """torchrun, with two ranks that talk by way of gloo."""
    command = [sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__, "--rank"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect(f"{done}", done.returncode == 0 and sorted(done.stdout.splitlines()) == ["rank 0: good", "rank 1: good"])
    return 1


def one_rank():
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    mine = values(20_000, seed=rank).cuda().cpu()
    torch.distributed.all_reduce(mine)
    good = torch.equal(mine, values(20_000, seed=0) + values(20_000, seed=1))
    torch.distributed.destroy_process_group()
    os.write(1, f"rank {rank}: {'good' if good else 'WRONG'}\n".encode())  # at once: the other rank writes there too
    leave_maps(f"rank-{rank}")


def main():
    if sys.argv[1:2] == ["--child"]:
        sys.exit(0 if round_trip(int(sys.argv[2])) else 1)
    if sys.argv[1:2] == ["--rank"]:
        one_rank()
        return
    torch.ones(1).cuda()
    leave_maps("program")
    parts = {"--workers": (loader_fork, loader_spawn, loader_forkserver, process_spawn, process_forkserver),
             "--programs": (forked_without_cuda, by_subprocess, by_a_shell, a_tool, ranks)}
    for part in parts[sys.argv[1]]:
        section(part)
    finish()


if __name__ == "__main__":
    main()
