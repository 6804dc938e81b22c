"""ddp_steps.py BACKEND [one_gpu]: twenty deterministic steps with DistributedDataParallel; started by torchrun.

After every step each rank gives its cached memory back. Rank 0 prints the losses and a sha256 over the weights.
With nccl each rank has a device of its own; with gloo all are on the CPU, or on the first device (one_gpu).
"""

import gc
import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 20


def main():
    backend = sys.argv[1]
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    one_gpu = sys.argv[2:] == ["one_gpu"]
    device = torch.device("cuda", 0) if one_gpu else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(local)
        device = torch.device("cuda", local)
    dist.init_process_group(backend)
    torch.manual_seed(0)
    width = 64 if device.type == "cpu" else 1024
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]
    model = DistributedDataParallel(torch.nn.Sequential(*layers, torch.nn.Linear(width, 1)).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + rank)
    losses = []
    for step in range(STEPS):
        # Other sizes at every step, so that memory comes and goes.
        x = torch.randn(32 * (1 + step % 5), width).to(device)
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item().hex())
        torch.cuda.empty_cache()
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode() + value.cpu().numpy().tobytes())
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest.hexdigest())
    if rank == 0:
        print(dist.get_world_size(), losses, digests, flush=True)
    # The process group's last references go before the interpreter does, as in distributed_step.py.
    dist.barrier()
    dist.destroy_process_group()
    del model, optimizer, loss, total, x
    gc.collect()


if __name__ == "__main__":
    main()
