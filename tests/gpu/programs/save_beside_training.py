"""save_beside_training.py: a model trains, and a thread of its own writes checkpoints meanwhile.

Every few steps the training thread clones the weights and records an event; the saving thread, on a stream of its own,
waits for the event and fetches the clones into pageable memory while the next steps run. Prints a digest of each
checkpoint and of the weights at the end.
"""

import hashlib
import os
import queue
import threading

import torch

STEPS = 60
BETWEEN = 5
WIDTH = 4096  # 64 MiB a layer


def digest(tensors):
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


def save(work, saved):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        while (given := work.get()) is not None:
            step, tensors, ready = given
            stream.wait_event(ready)
            saved.append((step, digest({name: tensor.cpu() for name, tensor in tensors.items()})))
            for tensor in tensors.values():
                tensor.record_stream(stream)


def main():
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    work, saved = queue.Queue(), []
    thread = threading.Thread(target=save, args=(work, saved))
    thread.start()
    for step in range(STEPS):
        inputs = torch.randn(64, WIDTH).cuda()  # a blocking copy from pageable memory
        optimizer.zero_grad(set_to_none=True)
        (model(inputs) - 1).square().mean().backward()
        optimizer.step()
        if step % BETWEEN == 0:
            clones = {name: value.detach().clone() for name, value in model.state_dict().items()}
            ready = torch.cuda.Event()
            ready.record()
            work.put((step, clones, ready))
    work.put(None)
    thread.join()
    for step, found in saved:
        print(step, found)
    print("end", digest({name: value.cpu() for name, value in model.state_dict().items()}))
    print(f"{len(saved)} checkpoints")


if __name__ == "__main__":
    main()
