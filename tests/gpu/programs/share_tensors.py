"""share_tensors.py DEVICE CONSUMER: shares device tensors with a spawned process while it frees and reuses others.

CONSUMER is JSON: changes to the environment of the consumer alone, null removes a variable. Both sides look at every
byte. The producer shares tensors of many sizes; frees tensors that lay among them, gives their memory back, and fills
new ones of the same sizes with something else; the consumer looks at the shared ones again. Then it lets go of them, the
producer frees them too, and shares new ones, which may lie where the old ones were. Three times.
Prints what both saw, and at the end whether each had slipstream in its process. Exit status 1: wrong bytes.
"""

import json
import os
import sys

import torch
import torch.multiprocessing as mp

SIZES = (1 << 10, 300_000, 2 << 20, 20 << 20, 64 << 20)
ROUNDS = 3


def tensor_of(size, value, device):
    return torch.full((size,), value, dtype=torch.uint8, device=device)


def wrong_bytes(tensors, values):
    return sum(int((tensor != value).sum()) for tensor, value in zip(tensors, values))


def preloaded():
    with open("/proc/self/maps", encoding="utf-8") as file:
        return "libslipstream" in file.read()


def consume(device, requests, answers):
    """Looks at what it gets, each time it is asked; a request of None drops it, one of "end" ends."""
    torch.zeros(1, device=device)
    tensors, values = None, None
    while (request := requests.get()) != "end":
        if request is None:
            tensors = None
            if device != "cpu":
                torch.cuda.ipc_collect()
            answers.put("dropped")
            continue
        if request != "again":
            tensors, values = request
        answers.put(wrong_bytes(tensors, values))
        del request
    answers.put(preloaded())


def ask(requests, answers, request):
    requests.put(request)
    return answers.get(timeout=60)


def main():
    device, changes = sys.argv[1], json.loads(sys.argv[2])
    torch.zeros(1, device=device)
    context = mp.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    before = dict(os.environ)
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    consumer = context.Process(target=consume, args=(device, requests, answers))
    consumer.start()
    os.environ.clear()
    os.environ.update(before)
    wrong = 0
    for number in range(ROUNDS):
        values = [(40 * number + index + 1) % 251 for index in range(len(SIZES))]
        shared, others = [], []
        for size, value in zip(SIZES, values):
            shared.append(tensor_of(size, value, device))
            others.append(tensor_of(size, 255 - value, device))
        seen = ask(requests, answers, (shared, values))
        others.clear()
        torch.cuda.empty_cache()
        others = [tensor_of(size, 252, device) for size in SIZES]
        again = ask(requests, answers, "again")
        own = wrong_bytes(shared, values) + wrong_bytes(others, [252] * len(SIZES))
        dropped = ask(requests, answers, None)
        del shared, others
        if device != "cpu":
            torch.cuda.ipc_collect()
        torch.cuda.empty_cache()
        print("round", number, "wrong bytes", seen, again, own, dropped, flush=True)
        wrong += seen + again + own
    in_consumer = ask(requests, answers, "end")
    consumer.join()
    print("status", consumer.exitcode)
    print(json.dumps({"producer": preloaded(), "consumer": in_consumer}), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
