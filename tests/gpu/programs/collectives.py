"""collectives.py BACKEND SEED: all-reduce and its kin of many sizes and types; started by torchrun.

Memory is freed and given back in between, so that buffers lie where others were. Rank 0 prints a sha256 over the bytes
of each result of all ranks.
"""

import gc
import hashlib
import os
import sys

import torch
import torch.distributed as dist

COUNTS = (1, 1000, 1 << 16, 3_000_001, 16 << 20)
TYPES = (torch.float32, torch.bfloat16, torch.int64)


def digest_of(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def show(name, tensors):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, digest_of(tensors))
    if dist.get_rank() == 0:
        print(name, *found, flush=True)


def values(count, dtype, device):
    """Whole numbers, made on the host: every type holds their sums exactly."""
    return torch.randint(-60, 60, (count,)).to(dtype).to(device)


def main():
    backend, seed = sys.argv[1], int(sys.argv[2])
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1000 * seed + rank)
    counts = COUNTS if backend == "nccl" else COUNTS[:3]
    for dtype in TYPES:
        for name, operation in (("sum", dist.ReduceOp.SUM), ("max", dist.ReduceOp.MAX)):
            results = []
            for count in counts:
                tensor = values(count, dtype, device)
                dist.all_reduce(tensor, operation)
                results.append(tensor)
                torch.cuda.empty_cache()
            show(f"all_reduce {name} {dtype}", results)
            del results, tensor
            torch.cuda.empty_cache()
    gathered, broadcast = [], []
    for count in counts:
        parts = [torch.empty(count, dtype=torch.float32, device=device) for _ in range(ranks)]
        dist.all_gather(parts, values(count, torch.float32, device))
        gathered += parts
        tensor = values(count, torch.float32, device)
        dist.broadcast(tensor, src=ranks - 1)
        broadcast.append(tensor)
    show("all_gather", gathered)
    show("broadcast", broadcast)
    # The process group's last references go before the interpreter does, as in distributed_step.py.
    dist.barrier()
    dist.destroy_process_group()
    del gathered, broadcast, parts, tensor
    gc.collect()


if __name__ == "__main__":
    main()
