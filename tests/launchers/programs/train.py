"""A training program in small, for launchers: it makes CUDA calls through ctypes, says which rank it is, and ends.

    train.py [--fail STATUS] [--wait] [--all-reduce]

--wait leaves a file ready-RANK and then waits for a signal; --all-reduce adds up over gloo, which needs PyTorch.
"""

import argparse
import ctypes
import os
import signal
import sys

BYTES = 1 << 20
TO_DEVICE, TO_HOST = 1, 2
# As launchers name them; the nearest to the process first.
RANKS = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
         ("SLURM_PROCID", "SLURM_NTASKS"), ("PARALLEL_SEQ", "PARALLEL_COUNT"))


def rank_and_size():
    for rank, size in RANKS:
        if rank in os.environ:
            return os.environ[rank], os.environ.get(size, "1")
    return "0", "1"


def round_trip():
    """There and back on the device. Symbols are those that a program linked to libcudart finds, a preload's first."""
    ctypes.CDLL("libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
    cuda = ctypes.CDLL(None)
    size = ctypes.c_size_t(BYTES)
    source = (ctypes.c_char * BYTES).from_buffer_copy(bytes(range(256)) * (BYTES // 256))
    target = (ctypes.c_char * BYTES)()
    device = ctypes.c_void_p()
    errors = [cuda.cudaMalloc(ctypes.byref(device), size), cuda.cudaMemcpy(device, source, size, TO_DEVICE),
              cuda.cudaMemcpy(target, device, size, TO_HOST), cuda.cudaFree(device)]
    return errors == [0, 0, 0, 0] and source.raw == target.raw


def all_reduce():
    import torch
    torch.distributed.init_process_group("gloo")
    mine = torch.tensor([torch.distributed.get_rank() + 1.0])
    torch.distributed.all_reduce(mine)
    good = mine.cuda().cpu().item() == 3.0
    torch.distributed.destroy_process_group()
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fail", type=int, default=0)
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--all-reduce", action="store_true")
    options = parser.parse_args()
    rank, size = rank_and_size()
    good = round_trip() and (not options.all_reduce or all_reduce())
    # At once: other ranks write there too.
    os.write(1, f"rank {rank} of {size}: {'good' if good else 'WRONG'}\n".encode())
    if options.wait:
        # Whoever sees the file may interrupt before the pause as well as in it: what is said is the same.
        sys.tracebacklimit = 0
        with open(f"ready-{rank}", "w") as file:
            file.write(str(os.getpid()))
        while True:
            signal.pause()
    if options.fail:
        os.write(2, f"rank {rank} fails\n".encode())
    sys.exit(options.fail)


if __name__ == "__main__":
    main()
