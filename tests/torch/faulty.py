"""A loop of steps with one thing wrong with it, at the lines that name it and the rule of `slipstream advise` for it:

    faulty.py numbers|fields|timed|data|storage|augmented|remade|anomalies

Behind the rule stands what the finding must say, where a rule has several things to say.

What is computed is nobody's business on the simulated device, so nothing of it is printed.
"""

import hashlib
import sys
import time

import torch

STEPS = 30


class Model:
    """Elementwise work on tensors of the device, which is what there are kernels for."""

    def __init__(self):
        self.tensors = [torch.empty(64, 64, device="cuda") for _ in range(20)]

    def forward(self, x):
        for tensor in self.tensors:
            x = x * tensor
        return x


def numbers():
    """Reads three numbers in every step."""
    model = Model()
    batch = torch.empty(64, 64).cuda()
    for _ in range(STEPS):
        loss = model.forward(batch)
        loss[0, 0].item()  # numbers: item-synchronize
        loss = model.forward(loss)
        loss[1, 1].item()  # numbers: item-synchronize
        if loss[2, 2].item() > 1e9:  # numbers: item-synchronize
            print("never")


def fields():
    """Brings a batch to the device a few bytes at a time."""
    model = Model()
    for step in range(STEPS):
        rows = []
        for number in range(80):
            rows.append(torch.full((8,), step * 80 + number).cuda())  # fields: many-small-copies
        model.forward(model.tensors[0])


def timed():
    """Takes the time of each part."""
    model = Model()
    seconds = 0.0
    for _ in range(STEPS):
        for _ in range(4):
            batch = torch.empty(64, 64, pin_memory=True).to("cuda", non_blocking=True)
            start = time.perf_counter()
            model.forward(batch)
            torch.cuda.synchronize()  # timed: explicit-synchronize
            seconds += time.perf_counter() - start


def data():
    """Makes each batch where the device waits for it."""
    model = Model()
    text = b"x" * 100_000
    # Long enough for several looks at who runs, on a machine with other work too: rules about workers need one.
    for step in range(8 * STEPS):
        for _ in range(30):
            text = hashlib.sha256(text).digest() * 3000
        batch = torch.full((256, 1024), step).cuda()  # data: loader-in-process
        model.forward(batch[:64, :64])


class Samples(torch.utils.data.Dataset):
    """Each comes after so many seconds, as from a disk far away."""

    def __init__(self, count, seconds=0.0):
        self.count = count
        self.seconds = seconds

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((64, 64), float(index))


def loader_of(samples):
    return torch.utils.data.DataLoader(samples, batch_size=4, num_workers=2)


def storage():
    """Its loader's workers wait for each sample."""
    model = Model()
    for batch in loader_of(Samples(4 * 3 * STEPS, 0.02)):
        x = batch.cuda()  # storage: loader-wait (the loader's workers wait too: for storage)
        model.forward(x[0])


def augmented():
    """Does in the loop what the workers could."""
    model = Model()
    text = b"x" * 100_000
    for batch in loader_of(Samples(4 * 4 * STEPS)):
        for _ in range(60):
            text = hashlib.sha256(text).digest() * 3000
        x = (batch + text[0]).cuda()  # augmented: batch-on-step-thread
        model.forward(x[0])


def remade():
    """Has other workers for each epoch."""
    model = Model()
    for _ in range(STEPS):
        for batch in loader_of(Samples(4 * 12)):
            x = batch.cuda()  # remade: loader-remade
            model.forward(x[0])


def anomalies():
    """Looks for NaN in every gradient."""
    weights = [torch.randn(64, 64, device="cuda", requires_grad=True) for _ in range(10)]
    torch.autograd.set_detect_anomaly(True)
    for step in range(STEPS):
        x = torch.full((64, 64), float(step)).cuda()
        for weight in weights:
            x = x * weight
        x.sum().backward()  # anomalies: anomaly-detection
        for weight in weights:
            weight.grad = None


def main():
    faults = (numbers, fields, timed, data, storage, augmented, remade, anomalies)
    {fault.__name__: fault for fault in faults}[sys.argv[1]]()
    torch.cuda.synchronize()
    print("done")


if __name__ == "__main__":
    main()
