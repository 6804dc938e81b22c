"""soak_train.py EXAMPLES SCRATCH: trains the same examples again and again, a round of all of them on each request.

EXAMPLES is JSON: {"lm": {"program": "train_lm.py", "arguments": ["--steps", "60"]}, ...}. Each is built anew from its seed,
trained deterministically, saved with torch.save, read back, and dropped with all that it had: model, optimizer, loader and
its workers, cached memory, which also goes in the middle now and then. Prints {"ready": process id}; then each line on
standard input is answered by {"examples": {name: {"digest", "finite", "reloaded", "steps"}}, "memory": {...}}: losses and
state in one hash, which is the same in every round. Between rounds nothing of an example is left. End of input ends it.
"""

import gc
import hashlib
import json
import math
import os
import sys

import torch

import paced_blocks
import train_common

EMPTY_CACHE_EVERY = 20


def trained(module, arguments, path):
    """One example from its seed to its end."""
    args = module.parse(["--deterministic", *arguments])
    trainer = module.build(args)
    losses = []
    while len(losses) < args.steps:
        losses.append(float(trainer.step()))
        if len(losses) % EMPTY_CACHE_EVERY == 0:
            torch.cuda.empty_cache()  # Does nothing where there is no CUDA.
    trainer.synchronize()
    state = train_common.state_hash(trainer.model, trainer.optimizer, trainer.kept())
    torch.save({"model": trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict()}, path)
    saved = torch.load(path, map_location=trainer.device)
    trainer.model.load_state_dict(saved["model"])
    trainer.optimizer.load_state_dict(saved["optimizer"])
    again = train_common.state_hash(trainer.model, trainer.optimizer, trainer.kept())
    trainer.close()
    text = " ".join(loss.hex() for loss in losses) + state
    return {
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "finite": all(map(math.isfinite, losses)),
        "reloaded": again == state,
        "steps": len(losses),
    }


def memory():
    """What PyTorch says that it holds, in bytes."""
    if not torch.cuda.is_initialized():
        return {}
    pinned = getattr(torch.cuda, "host_memory_stats", dict)()
    return {
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "pinned": pinned.get("allocated_bytes.current", pinned.get("allocated_bytes.allocated", 0)),
    }


def main():
    examples, scratch = json.loads(sys.argv[1]), sys.argv[2]
    here = os.path.dirname(os.path.abspath(__file__))
    modules = {
        name: paced_blocks.load(os.path.join(here, example["program"]), index)
        for index, (name, example) in enumerate(examples.items())
    }
    paced_blocks.answer({"ready": os.getpid()})
    for _ in sys.stdin:
        answer = {}
        for name, example in examples.items():
            answer[name] = trained(modules[name], example["arguments"], os.path.join(scratch, f"{name}.pt"))
            gc.collect()
            torch.cuda.empty_cache()
        paced_blocks.answer({"examples": answer, "memory": memory()})


if __name__ == "__main__":
    main()
