"""PyTorch's own distributed examples, from a checkout that the user names, bare and under slipstream.

Each trains with two ranks over NCCL, a GPU for each, started by torchrun through programs/train_example.py, which prints a
sha256 over each rank's parameters and optimizer state. Two bare runs must be equal and another seed must differ, where the
example does not seed itself; then so must be the runs at the runtime and at the driver level, in which both ranks must
have launched kernels that slipstream saw. Without --examples the group is one skipped check.
"""

import dataclasses
import pathlib
import re

from . import harness, levels, outcomes, peers
from .harness import Failed, Skipped
from .summary import LAUNCHES, PROMOTED, SKIPPED, decided

GROUP = "distributed"
RANKS = 2
LEVELS = (levels.RUNTIME, levels.DRIVER)
TIMEOUT = 150
TRAINED = re.compile(rb"trained: rank (\d+) steps (\d+) parameters (\d+) not finite (\d+) sha256 ([0-9a-f]{64})\n")
FOLDER = "distributed"
HOW = "give --examples a checkout of https://github.com/pytorch/examples"


@dataclasses.dataclass(frozen=True)
class Example:
    script: str  # below distributed/
    arguments: tuple = ()
    seeds_itself: bool = False  # so another seed changes nothing
    gpus: int = RANKS  # that it wants to see, however many ranks it has


DDP, FSDP2, PARALLEL = "ddp-tutorial-series/multigpu_torchrun.py", "FSDP2/example.py", "tensor_parallelism"
EXAMPLES = {
    "ddp": Example(DDP, ("3", "1")),
    "fsdp2": Example(FSDP2, seeds_itself=True),
    "fsdp2_mixed_precision": Example(FSDP2, ("--mixed-precision",), seeds_itself=True),
    "fsdp2_prefetching": Example(FSDP2, ("--explicit-prefetching",), seeds_itself=True),
    "tensor_parallel": Example(f"{PARALLEL}/tensor_parallel_example.py"),
    "sequence_parallel": Example(f"{PARALLEL}/sequence_parallel_example.py"),
    "fsdp_tensor_parallel": Example(f"{PARALLEL}/fsdp_tp_example.py", gpus=4),
}


@dataclasses.dataclass(frozen=True)
class Trained:
    """What a rank came to."""

    steps: int
    parameters: int
    strange: int
    digest: str

    def __str__(self):
        return f"{self.steps} steps, {self.parameters} parameters, {self.digest[:12]}…"


def read_trained(output):
    """rank -> Trained, in the order of the ranks, which print as they end."""
    found = TRAINED.findall(output)
    ranks = {int(rank): Trained(*map(int, numbers), digest.decode()) for rank, *numbers, digest in found}
    return dict(sorted(ranks.items()))


def expect_training(which, output):
    """What the ranks came to; Failed when that would show nothing."""
    ranks = read_trained(output)
    if sorted(ranks) != list(range(RANKS)):
        raise Failed(f"{which}: results of the ranks {sorted(ranks)}, not of {RANKS}")
    for rank, one in sorted(ranks.items()):
        if not one.steps:
            raise Failed(f"{which}: no optimizer stepped in rank {rank}, so the comparison shows nothing")
        if not one.parameters:
            raise Failed(f"{which}: the optimizer of rank {rank} has no parameters, so the comparison shows nothing")
        if one.strange:
            raise Failed(f"{which}: {one.strange} values of rank {rank} are not finite, so the comparison shows nothing")
    return ranks


def difference(bare, other):
    """None when each rank came to the same, else the first that did not."""
    for rank in sorted({*bare, *other}):
        if bare.get(rank) != other.get(rank):
            return f"rank {rank}: {bare.get(rank, 'no result')} and {other.get(rank, 'no result')}"
    return None


def why(result):
    """The line that says most of a run that torchrun has ended: behind the error stands torchrun's own account of it."""
    lines = result.stderr.decode(errors="replace").splitlines()
    errors = [line.strip() for line in lines if re.search(r"\w(Error|Exception|Interrupt): ", line)]
    return errors[0][:300] if errors else harness.last_line(result.stderr) or harness.last_line(result.stdout)


def refusal(output):
    """What an example says that leaves without training."""
    lines = TRAINED.sub(b"", output).decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it left without training"


def launches_by_rank(summary):
    """rank -> kernel launches that slipstream saw in its processes."""
    found = dict.fromkeys(range(RANKS), 0)
    for process in summary["processes"]:
        if process["rank"] in found:
            found[process["rank"]] += sum(f["calls"] for f in process["functions"] if f["name"] in LAUNCHES)
    return found


def check_of(suite, root, name, example, refusals):
    script = root / FOLDER / example.script

    def run(which, seed=1, prefix=(), changes=None):
        # A working directory of its own: an example goes on from the checkpoint that it finds there.
        place = suite.scratch(f"{GROUP}/{name}/{which}")
        env = outcomes.private_caches(place) | {"PYTHONDONTWRITEBYTECODE": "1"} | (changes or {})
        program = peers.torchrun("train_example.py", seed, script, *example.arguments)
        argv = [*prefix, suite.python, *program]
        return suite.command(f"{GROUP}.{name}", argv, env=env, timeout=TIMEOUT, cwd=place)

    def trained(which, **how):
        result = run(which, **how)
        if result.timed_out:
            raise Failed(f"{which}: did not end in time")
        if result.status != 0:
            raise Failed(f"{which}: exit status {result.status}: {why(result)}")
        return expect_training(which, result.stdout)

    def bare_run():
        result = run("bare")
        if result.timed_out or result.status != 0:
            raise Skipped(f"does not work here without slipstream either, exit status {result.status}: {why(result)}")
        if suite.rehearsal and not any(one.steps for one in read_trained(result.stdout).values()):
            raise Skipped(f"does not train on a CPU: {refusal(result.stdout)}")
        return expect_training("bare", result.stdout)

    def under(level, bare):
        """What slipstream saw in the run that is the bare one again."""
        summary = suite.scratch(f"{GROUP}/{name}") / f"{level.name}.json"
        prefix = suite.run_prefix("--quiet", "--summary", summary)
        ranks = trained(level.name, prefix=prefix, changes=level.environment())
        if wrong := difference(bare, ranks):
            raise Failed(f"{level.name}: bare and under slipstream differ: {wrong}")
        if suite.rehearsal:
            return {}
        seen = harness.read_json(summary, "summary")
        launches = launches_by_rank(seen)
        if missing := [str(rank) for rank, calls in launches.items() if not calls]:
            where = " and ".join(missing)
            raise Failed(f"{level.name}: slipstream saw no kernel launch in rank {where}: it was not in the process")
        return {
            "launches": launches,
            "promoted": decided(seen, PROMOTED),
            "synchronizations_skipped": decided(seen, SKIPPED),
            "pool_grown": decided(seen, "allocator.grown"),
        }

    def check(data):
        if not script.is_file():
            raise Skipped(f"not in the checkout: {FOLDER}/{example.script}")
        if not suite.rehearsal and harness.gpus(suite) < example.gpus:
            raise Skipped(f"needs {example.gpus} GPUs")
        bare = bare_run()
        data["ranks"] = {rank: dataclasses.asdict(one) for rank, one in bare.items()}
        if wrong := difference(bare, trained("bare_again")):
            raise Failed(f"two bare runs differ, so the example is not deterministic here: {wrong}")
        if not example.seeds_itself:
            other = trained("other_seed", seed=2)
            if same := [str(rank) for rank in bare if bare[rank].digest == other[rank].digest]:
                raise Failed(f"another seed gave the same in rank {' and '.join(same)}: the comparison cannot fail")
        data["levels"] = outcome = {}
        same, left_out, wrong = [], [], []
        for level in LEVELS:
            if reason := refusals.reason(level):
                outcome[level.name] = f"skipped: {reason}"
                left_out.append(level.name)
                continue
            try:
                outcome[level.name] = seen = under(level, bare)
            except Failed as problem:
                outcome[level.name] = f"failed: {problem}"
                wrong.append(str(problem))
                continue
            launches = " + ".join(str(calls) for calls in seen.get("launches", {}).values())
            same.append(f"{level.name} ({launches} launches seen)" if seen else level.name)
        if wrong:
            raise Failed("; ".join(wrong))
        if not same:
            raise Failed(f"this build has none of the levels {', '.join(left_out)}: nothing was compared")
        missing = f"; not in this build: {', '.join(left_out)}" if left_out else ""
        return f"{RANKS} ranks, {bare[0].steps} steps, weights and state as bare: {', '.join(same)}{missing}"

    return check


def checks(suite):
    if not suite.examples:

        def nothing(_data):
            raise Skipped(HOW)

        return [(GROUP, nothing)]
    root = pathlib.Path(suite.examples).resolve()
    if not (root / FOLDER).is_dir():

        def not_there(_data):
            raise Failed(f"{root} has no folder {FOLDER}; {HOW}")

        return [(GROUP, not_there)]
    refusals = levels.Refusals(suite, GROUP)
    return [(f"{GROUP}.{name}", check_of(suite, root, name, example, refusals)) for name, example in EXAMPLES.items()]
