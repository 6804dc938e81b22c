"""PyTorch's tensors in host memory that come and go (tests/torch/blocks.py): blocks that are kept for the next one, and mirrors
of those that stay, at both levels of interception. Each tensor is its owner's alone, and each copy has what its source held."""

from . import harness, levels, mirrors
from .harness import REPOSITORY, Failed, Skipped
from .summary import decided

GROUP = "blocks"
PROGRAM = REPOSITORY / "tests" / "torch" / "blocks.py"
# A hundred thousand in all.
COPIES, COPIES_OF_A_REHEARSAL = 25_000, 40
SECONDS = 240
REUSED, MIRRORED = "transfer.host.reused", "transfer.h2d.mirrored"


def expect_right(copies, result):
    result.expect_success("blocks.py")
    if result.stdout != f"{copies} copies, 0 wrong\n".encode():
        raise Failed(f"it printed {result.stdout!r:.300}")


def check(suite, level, mirrored, seed):
    copies = COPIES_OF_A_REHEARSAL if suite.rehearsal else COPIES

    def run(data):
        if mirrored and (said := mirrors.said_by_doctor(suite)) != mirrors.THERE:
            raise Skipped(f"mirrors are {said}")
        summary = suite.scratch(GROUP) / f"{level.name}.{seed}.json"
        program = [suite.python, PROGRAM]
        env = {"PYTHONWARNINGS": "ignore", "SLIPSTREAM_TRANSFER_START": "now"} | level.environment()
        if mirrored:
            env[mirrors.MOST] = "1GiB"
        few = COPIES_OF_A_REHEARSAL
        expect_right(few, suite.command(f"{GROUP}.bare", [*program, few, seed, suite.device], env=env, timeout=60))
        argv = [*suite.run_prefix("--quiet", "--summary", summary), *program, copies, seed, suite.device]
        expect_right(copies, suite.command(f"{GROUP}.{level.name}.{seed}", argv, env=env, timeout=SECONDS))
        if suite.rehearsal:
            return f"{copies} copies; a rehearsal: no engine had a part"
        found = harness.read_json(summary, "summary")
        for name in (REUSED, *((MIRRORED,) if mirrored else ())):
            data[name] = decided(found, name)
            if not data[name]:
                raise Failed(f"no {name}, so this shows nothing")
        return f"{copies} copies and as many back, all bytes as expected; {', '.join(f'{name} {n}' for name, n in data.items())}"

    return run


def checks(suite):
    return [
        (f"{GROUP}.{level.name}{'.mirrors' if mirrored else ''}", check(suite, level, mirrored, 10 * seed + mirrored))
        for seed, level in enumerate((levels.RUNTIME, levels.DRIVER), 1)
        for mirrored in (False, True)
    ]
