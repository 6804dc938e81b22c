"""Shares a device tensor with a spawned process, which changes it, and trains in two more."""

import sys

import torch
import torch.multiprocessing as mp


def change(queue, done):
    tensor = queue.get()
    tensor += 1
    if tensor.is_cuda:
        torch.cuda.synchronize()
    del tensor
    done.put("changed")


def train(index, device, results):
    torch.manual_seed(index)
    model = torch.nn.Linear(64, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.linspace(0, 1, 64 * 32).reshape(32, 64).to(device)
    for _ in range(5):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
    results.put((index, loss.item().hex()))


def main():
    device = sys.argv[1]
    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    tensor = torch.zeros(1 << 20, device=device)
    tensor.share_memory_()
    process = context.Process(target=change, args=(queue, done))
    process.start()
    queue.put(tensor)
    print(done.get(timeout=60), flush=True)
    process.join()
    print("status", process.exitcode, "sum", tensor.sum().item(), flush=True)

    results = context.SimpleQueue()
    mp.spawn(train, args=(device, results), nprocs=2)
    for index, loss in sorted(results.get() for _ in range(2)):
        print(index, loss)


if __name__ == "__main__":
    main()
