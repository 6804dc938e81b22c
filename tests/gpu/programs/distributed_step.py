"""Trains a few steps with DistributedDataParallel; started by torchrun. Rank 0 prints the losses."""

import gc
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    backend = sys.argv[1]
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if backend == "nccl":
        torch.cuda.set_device(local)
    device = torch.device("cuda", local) if backend == "nccl" else torch.device("cpu")
    dist.init_process_group(backend)
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).to(device)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(1 + rank)
    losses = []
    for _ in range(5):
        x = torch.randn(64, 128).to(device)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item().hex())
    if rank == 0:
        print(dist.get_world_size(), losses, flush=True)
    # Nobody leaves while another still talks. And the process group's last references go before the interpreter does: a
    # Gloo thread that drops a tensor later aborts the process, with PyTorch alone (seen in one of ten runs).
    dist.barrier()
    dist.destroy_process_group()
    del model, optimizer, loss, total, x
    gc.collect()


if __name__ == "__main__":
    main()
