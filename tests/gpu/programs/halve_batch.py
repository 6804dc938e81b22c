"""halve_batch.py DEVICE: begins with a batch that does not fit, and halves it at every torch.OutOfMemoryError.

Three times: as a script that looks for its batch would, with and without empty_cache() between. Prints every batch that
did not fit and the losses of those that did. Training needs two tensors of a batch's size. The first batch is larger than
the device's memory, the second has seven tenths of it, the third half of that: each is far from the border. Before each
search a fifth of the memory is taken in smaller tensors and given back.
"""

import sys

import torch

WIDTH = 1 << 16
STEPS = 6


def first_batch(device):
    if device.type == "cpu":
        return 64
    total = torch.cuda.get_device_properties(device).total_memory
    return int(total * 1.4) // (4 * WIDTH)


class Limit:
    """On the CPU, where memory does not run out like that: a batch that is refused."""

    def __init__(self, device):
        self.most = 20 if device.type == "cpu" else None

    def check(self, batch):
        if self.most is not None and batch > self.most:
            raise torch.OutOfMemoryError("a rehearsal")


def use_and_empty(device):
    if device.type == "cpu":
        return
    total = torch.cuda.get_device_properties(device).total_memory
    tensors = [torch.empty(total // 80, dtype=torch.uint8, device=device) for _ in range(16)]
    tensors.clear()
    torch.cuda.empty_cache()


def train(batch, weight, optimizer, device, limit):
    """Losses of a few steps on such a batch."""
    limit.check(batch)
    losses = []
    for step in range(STEPS):
        rows = torch.linspace(-1, 1 + step, WIDTH, device=device).repeat(batch, 1)
        optimizer.zero_grad(set_to_none=True)
        # Not mean(): its gradient would be one more tensor of this size.
        loss = (rows * weight).sum() * (1 / rows.numel())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        del rows, loss
    return [float(loss).hex() for loss in losses]


def main():
    device = torch.device(sys.argv[1])
    limit = Limit(device)
    weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, WIDTH, device=device))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    found = set()
    for time in range(3):
        use_and_empty(device)
        batch = first_batch(device)
        losses = None
        while losses is None:
            try:
                losses = train(batch, weight, optimizer, device, limit)
            except torch.OutOfMemoryError:
                print(time, "out of memory with", batch, flush=True)
            if losses is None:  # The error held the tensors of the step.
                batch //= 2
                if time == 1:
                    torch.cuda.empty_cache()
        print(time, "batch", batch, losses, flush=True)
        found.add(batch)
        if time == 0:
            torch.cuda.empty_cache()
    print("found", sorted(found))


if __name__ == "__main__":
    main()
