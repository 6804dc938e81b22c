"""Batches of a DataLoader's worker processes, on the device."""

import sys

import torch
from torch.utils.data import DataLoader, Dataset

from checks import expect, expect_same, finish, section, values

LENGTH, BATCH = 48, 8


class Images(Dataset):
    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return {"image": values(3 * 64 * 64, seed=index).view(3, 64, 64), "label": index, "box": (index, float(index))}


def batches(how, pin_memory, epochs):
    loader = DataLoader(Images(), batch_size=BATCH, num_workers=2, multiprocessing_context=how, pin_memory=pin_memory,
                        persistent_workers=epochs > 1)
    counted = 0
    for _ in range(epochs):
        for number, batch in enumerate(loader):
            image = batch["image"].cuda(non_blocking=pin_memory)
            label = batch["label"].cuda(non_blocking=pin_memory)
            box = batch["box"][1].cuda()
            image.mul_(2)  # does nothing, behind the copy
            del batch  # and its shared memory is the next one's
            indices = range(number * BATCH, (number + 1) * BATCH)
            expected = torch.stack([values(3 * 64 * 64, seed=index).view(3, 64, 64) for index in indices])
            expect_same(f"{how} image {number}", image.cpu(), expected)
            expect_same(f"{how} label {number}", label.cpu(), torch.tensor(list(indices)))
            expect_same(f"{how} box {number}", box.cpu(), torch.tensor([float(i) for i in indices], dtype=torch.float64))
            counted += 3
    return counted


def forked():
    return batches("fork", False, 1)


def forked_pinned():
    return batches("fork", True, 2)


def spawned():
    return batches("spawn", True, 1)


class OnDevice(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.ones(1).cuda()


def cuda_in_a_forked_worker():
    """Does not work, and is said to, with and without slipstream."""
    try:
        next(iter(DataLoader(OnDevice(), num_workers=1, multiprocessing_context="fork")))
        expect("no error", False)
    except RuntimeError as error:
        print(str(error).strip().splitlines()[-1])
    return 1


def send(queue, done):
    """In a process of its own: a tensor on the device goes to the other one by handle."""
    queue.put(values(30_000, seed=4).cuda())
    done.wait()


def from_another_process():
    context = torch.multiprocessing.get_context("spawn")
    queue, done = context.Queue(), context.Event()
    process = context.Process(target=send, args=(queue, done))
    process.start()
    tensor = queue.get(timeout=120)  # for ever, if the process could not even begin
    expect("is_cuda", tensor.is_cuda)
    expect_same("tensor", tensor.cpu(), values(30_000, seed=4))
    del tensor
    done.set()
    process.join()
    expect("exit code", process.exitcode == 0)
    return 3


def send_pieces(queue, received, changed, done):
    """In a process of its own: pieces of blocks that were somebody else's before, with others of the same blocks in between."""
    before = [values(400_000, seed=seed).cuda() for seed in range(4)]
    del before
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    tensors = [values(400_000, seed=10 + number).cuda() for number in range(4)]
    queue.put((tensors[1], tensors[2][1000:2000]))
    received.wait()
    tensors[0] = tensors[3] = None
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    tensors += [values(400_000, seed=20 + number).cuda() for number in range(6)]
    torch.cuda.synchronize()
    changed.set()
    done.wait()


def c10_pieces_from_another_process():
    """They have their bytes when they arrive, and still when the other process has given back and taken memory since."""
    context = torch.multiprocessing.get_context("spawn")
    queue, received, changed, done = context.Queue(), context.Event(), context.Event(), context.Event()
    process = context.Process(target=send_pieces, args=(queue, received, changed, done))
    process.start()
    whole, piece = queue.get(timeout=120)
    for when in ("at first", "later"):
        expect_same(f"whole, {when}", whole.cpu(), values(400_000, seed=11))
        expect_same(f"piece, {when}", piece.cpu(), values(400_000, seed=12)[1000:2000])
        received.set()
        expect(f"changed, {when}", changed.wait(120))
    del whole, piece
    done.set()
    process.join()
    expect("exit code", process.exitcode == 0)
    return 7


def main():
    torch.ones(1).cuda()
    parts = (forked, forked_pinned, cuda_in_a_forked_worker, spawned, from_another_process, c10_pieces_from_another_process)
    chosen = sys.argv[1:]
    for part in parts:
        if not chosen or part.__name__ in chosen:
            section(part)
    finish()


if __name__ == "__main__":
    main()
