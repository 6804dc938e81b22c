"""train_example.py SEED EXAMPLE [ARGUMENTS]: runs an example that knows nothing of this; started by torchrun.

Behind it each rank prints a line: the optimizer steps, the parameters that it has of its own, how many values of them are
not finite, and a sha256 over the bytes of parameters and optimizer state. While the example trains, optimizers are
remembered and nothing else. Module.to_empty fills what it makes: an example may leave some of it as it was in memory.
"""

import faulthandler
import gc
import hashlib
import os
import runpy
import sys

# A rank that waits for another one that is gone says where, and ends: torchrun has it in a session of its own.
MOST_SECONDS = 120
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402


def local(tensor):
    """What this rank has of it."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def fill_what_is_empty():
    to_empty = torch.nn.Module.to_empty

    def to_filled(module, *arguments, **options):
        result = to_empty(module, *arguments, **options)
        with torch.no_grad():
            for parameter in module.parameters():
                local(parameter).normal_(0, 0.02)
        return result

    torch.nn.Module.to_empty = to_filled


def run(example, arguments):
    """The example as Python would run it; what it leaves behind, which keeps its objects."""
    sys.argv = [example, *arguments]
    sys.path[0] = os.path.dirname(example)
    try:
        return runpy.run_path(example, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
        return {}


def digest_of(optimizers):
    """(parameters, values that are not finite, sha256 over parameters and optimizer state) of this rank."""
    digest = hashlib.sha256()
    parameters = strange = 0

    def add(name, value):
        if not torch.is_tensor(value):
            digest.update(f"{name} {value!r}\n".encode())
            return
        value = local(value).detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())

    with torch.no_grad():
        for number, optimizer in enumerate(optimizers):
            found = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            for index, parameter in enumerate(found):
                mine = local(parameter).detach()
                parameters += mine.numel()
                strange += mine.numel() - int(torch.isfinite(mine).sum())
                add(f"{number}.{index}", parameter)
                for name, value in sorted(optimizer.state.get(parameter, {}).items()):
                    add(f"{number}.{index}.{name}", value)
    return parameters, strange, digest.hexdigest()


def main():
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
    torch.manual_seed(int(sys.argv[1]))
    torch.use_deterministic_algorithms(True)
    fill_what_is_empty()
    optimizers, steps = [], 0

    def stepped(optimizer, _arguments, _options):
        nonlocal steps
        steps += 1
        if not any(optimizer is known for known in optimizers):
            optimizers.append(optimizer)

    register_optimizer_step_post_hook(stepped)
    left = run(os.path.abspath(sys.argv[2]), sys.argv[3:])
    parameters, strange, digest = digest_of(optimizers)
    sys.stdout.flush()
    line = f"trained: rank {os.environ['RANK']} steps {steps} parameters {parameters} not finite {strange} sha256 {digest}\n"
    # In one piece: both ranks have the same pipe.
    os.write(1, line.encode())
    # The process group's last references go before the interpreter does, as in distributed_step.py.
    optimizers.clear()
    left.clear()
    gc.collect()


if __name__ == "__main__":
    main()
