"""Deterministic training gives the same bits bare and under slipstream, and the comparison can tell if it does not."""

import concurrent.futures
import dataclasses

from . import harness
from .harness import GPU_TESTS, Failed
from .summary import LAUNCHES, calls, expect_acted

# The one that compiles takes longest and so comes first.
PATTERNS = (
    "compiled",
    "item",
    "prefetch_thread",
    "prefetch_stream",
    "grad_scaler",
    "accumulation",
    "validation",
    "two_streams",
    "cuda_graph",
)
ON_CPU = ("compiled", "item", "prefetch_thread", "grad_scaler", "accumulation", "validation")


@dataclasses.dataclass
class Example:
    program: str
    arguments: list
    env: dict = dataclasses.field(default_factory=dict)
    # Whether it has copies that wait, so that a synchronization can be skipped.
    waits: bool = True
    # Batches of loader processes that are large enough to be given back in the background, at least.
    shared_batches: int = 0
    # The four runs share compilers' caches, so the first one goes alone; the others then run the same kernels.
    compiles: bool = False
    # Arguments with which the program does the same training in another way: a fifth run, which must have the same bits.
    tuning: tuple = ()


def pattern(name, arguments):
    return Example(
        "train_patterns.py",
        ["--pattern", name, *arguments],
        waits=name != "prefetch_stream",
        compiles=name == "compiled",
    )


def examples(suite):
    """name -> Example; small where there is no GPU."""
    if suite.rehearsal:
        tiny = ["--device", "cpu", "--steps", "6", "--batch", "4"]
        net = [*tiny, "--size", "32", "--width", "8"]
        return {
            **{name: pattern(name, net) for name in ON_CPU},
            "resnet18": Example("train_resnet.py", [*tiny, "--size", "32", "--workers", "2"]),
            "lm": Example("train_lm.py", [*tiny, *"--layers 2 --width 64 --heads 2 --length 32".split()]),
        }
    steps = ["--steps", "10" if suite.quick else "30"]
    images = [*steps, "--batch", "32"]

    def loader(*arguments):
        # Those mapped before the first CUDA call are the program's own to unmap, and so are the last ones at its end.
        # How many batches pass while staging memory is being made ready is for a busy machine to say: none here.
        ready = {"SLIPSTREAM_TRANSFER_START": "now"}
        return Example("train_resnet.py", [*images, *arguments], env=ready, shared_batches=int(steps[1]) // 2)

    return {
        **{name: pattern(name, steps) for name in PATTERNS},
        "resnet18": loader(),
        "resnet50_bf16": loader("--model", "resnet50", "--autocast"),
        "mobilenet_v2_bf16": loader("--model", "mobilenet_v2", "--autocast"),
        "lm": Example("train_lm.py", steps),
        "lm_bf16": Example("train_lm.py", [*steps, "--autocast"]),
        # Memory that PyTorch maps by hand could be unmapped without a call that is seen: no synchronization is skipped.
        "lm_expandable_segments": Example(
            "train_lm.py", steps, env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, waits=False
        ),
    }


def differences(a, b):
    """What differs between two records of train_common.train; empty when they are the same bits."""
    found = []
    if len(a["losses"]) != len(b["losses"]):
        found.append(f"{len(a['losses'])} and {len(b['losses'])} losses")
    for step, (x, y) in enumerate(zip(a["losses"], b["losses"])):
        if x != y:
            found.append(f"loss of step {step}: {float.fromhex(x)!r} and {float.fromhex(y)!r}")
            break
    if a["state_sha256"] != b["state_sha256"]:
        found.append("sha256 of weights and optimizer state")
    return found


def four_runs(suite, name, example, summary, group, policy):
    """The records of the example bare, bare again, under slipstream and with another seed, side by side.

    And, bare, with its tuning, where it has one. policy: variables for the run under slipstream.
    """
    directory = suite.scratch(f"{group}/{name}")
    env = {"PYTHONWARNINGS": "ignore", **example.env}
    if example.compiles:
        env |= {
            "TORCHINDUCTOR_CACHE_DIR": directory / "inductor",
            "TRITON_CACHE_DIR": directory / "triton",
            "TORCHINDUCTOR_COMPILE_THREADS": "2",
        }

    def run(which, seed, prefix=(), changes=None, more=()):
        out = directory / f"{which}.json"
        program = [suite.python, GPU_TESTS / example.program, *example.arguments, *more]
        argv = [*prefix, *program, "--deterministic", "--seed", seed, "--out", out]
        suite.command(f"{group}.{name}", argv, env=env | (changes or {}), timeout=240).expect_success(which)
        return harness.read_json(out, which)

    first = run("bare", 1) if example.compiles else None
    slipstream = suite.run_prefix("--quiet", "--summary", summary)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        bare = None if first else pool.submit(run, "bare", 1)
        runs = [("bare_again", 1), ("slipstream", 1, slipstream, policy), ("other_seed", 2)]
        if example.tuning:
            runs.append(("tuned", 1, (), None, example.tuning))
        others = [pool.submit(run, *what) for what in runs]
        return first or bare.result(), *(other.result() for other in others)


def identical(suite, name, example, group="identity", policy=None, acted=None):
    """The check of one example. acted(summary) says what slipstream did, or raises Failed; by default the copies."""

    def check(data):
        summary = suite.scratch(f"{group}/{name}") / "summary.json"
        bare, again, under, other, *tuned = four_runs(suite, name, example, summary, group, policy)
        data.update(
            losses=bare["losses"],
            bare=bare["state_sha256"],
            slipstream=under["state_sha256"],
            other_seed=other["state_sha256"],
        )
        if control := differences(bare, again):
            raise Failed(f"two bare runs differ ({'; '.join(control)}): the program is not deterministic here")
        if len(differences(bare, other)) != 2:
            raise Failed("another seed gave the same losses or the same hash: the comparison cannot fail")
        if found := differences(bare, under):
            raise Failed("bare and slipstream differ: " + "; ".join(found))
        if tuned and (found := differences(bare, tuned[0])):
            raise Failed("plain and tuned by hand differ: " + "; ".join(found))
        equal = f"{len(bare['losses'])} losses and {bare['state_sha256'][:12]}… equal; another seed differs"
        if tuned:
            equal += "; tuned by hand the same"
        if suite.rehearsal:
            return equal
        seen = harness.read_json(summary, "summary")
        data["launches_seen"] = launches = calls(seen, LAUNCHES)
        data["decisions"] = seen["totals"].get("decisions", {})
        if not launches:
            raise Failed("slipstream saw no kernel launch: it was not in the process")
        did = acted(seen) if acted else expect_acted(seen, example.waits, example.shared_batches)
        return f"{equal}; {launches} launches seen, {did}"

    return check


def checks(suite):
    return [(f"identity.{name}", identical(suite, name, example)) for name, example in examples(suite).items()]
