"""Reserved memory next to live memory (T8): a Llama of 1.2 billion parameters on batches of changing shape, by allocator.

Each run is a process of its own that does the same steps: PyTorch's own allocator, the same with expandable segments, its
backend cudaMallocAsync, and slipstream with `allocator.mode = "expandable"`; all in turn, and again. Of every run the peak
of what was allocated and reserved, and what the driver says; and the time of each step beside the same step under PyTorch's
own allocator. What the mode reserves is judged beside expandable segments without slipstream.
"""

import dataclasses

import pairs

from . import harness, speed
from .harness import GPU_TESTS, Failed, needs_gpu

GROUP = "fragmentation"
NATIVE, EXPANDABLE, OURS = "native", "expandable", "slipstream"
TURNS, STEPS, WARM_UP = 2, 25, 5
# T8.
MOST_RESERVED, MOST_STEP_TIME = 1.01, 1.01
TRAININGS = {"plain": (), "recompute": ("--recompute",)}


@dataclasses.dataclass(frozen=True)
class Variant:
    env: dict
    under: bool = False


VARIANTS = {
    NATIVE: Variant({}),
    EXPANDABLE: Variant({"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
    "async": Variant({"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}),
    OURS: Variant({"SLIPSTREAM_ALLOCATOR_MODE": "expandable"}, under=True),
}
TINY = "--device cpu --layers 1 --width 16 --heads 2 --groups 1 --inner 32 --length 12 --shortest 4 --vocabulary 50".split()


def one_run(suite, training, name, turn):
    variant = VARIANTS[name]
    directory = suite.scratch(f"{GROUP}/{training}")
    out, summary = directory / f"{name}.{turn}.json", directory / f"{name}.{turn}.summary.json"
    prefix = suite.run_prefix("--quiet", "--summary", summary) if variant.under else []
    sizes = [*TINY, "--steps", 2, "--warm-up", 1] if suite.rehearsal else ["--steps", STEPS, "--warm-up", WARM_UP]
    argv = [*prefix, suite.python, GPU_TESTS / "train_llama.py", *TRAININGS[training], *sizes, "--out", out]
    env = {"PYTHONWARNINGS": "ignore", **variant.env}
    suite.command(f"{GROUP}.{training}", argv, env=env, timeout=90).expect_success(f"{name}, turn {turn}")
    if variant.under and not suite.rehearsal and not harness.read_json(summary, "summary")["processes"]:
        raise Failed("slipstream saw no process, so this shows nothing about it")
    return harness.read_json(out, f"{name}, turn {turn}")


def shown(record):
    gib = 2**30
    return (
        f"{record['peak_allocated'] / gib:.2f} of {record['peak_reserved'] / gib:.2f} GiB "
        f"({record['peak_allocated'] / record['peak_reserved']:.3f}), driver {record['driver_used'] / gib:.2f}"
    )


def steps_beside(turns):
    """How the steps of the second of each two records stand to the same steps of the first."""
    return pairs.summarize([list(zip(a["step_seconds"], b["step_seconds"])) for a, b in turns])


def judged(runs):
    """(text, problems) of {variant: [record of each turn]}."""
    problems, parts = [], []
    native = runs[NATIVE]
    for name, records in runs.items():
        if any(a["losses"][0] != b["losses"][0] for a, b in zip(native, records)):
            problems.append(f"{name} begins with another loss than {NATIVE}: not the same steps")
        text = f"{name} {shown(records[-1])}"
        if name != NATIVE:
            text += f", step time {speed.spread(steps_beside(list(zip(native, records))))} of {NATIVE}"
        parts.append(text)
    both = list(zip(runs[EXPANDABLE], runs[OURS]))
    most = max(ours["peak_reserved"] / theirs["peak_reserved"] for theirs, ours in both)
    if most > MOST_RESERVED:
        problems.append(f"{OURS} reserved {most:.3f} of what {EXPANDABLE} did, target {MOST_RESERVED}")
    steps = steps_beside(both)
    text = f"{OURS}'s step {speed.spread(steps)} of {EXPANDABLE}'s"
    if len(both) > 1:  # two processes of one kind are the control
        text += f", whose second turn is {speed.spread(steps_beside([runs[EXPANDABLE][:2]]))} of its first"
    parts.append(text)
    if steps["ratio_low"] > MOST_STEP_TIME:
        problems.append(f"a step took {speed.spread(steps)} of {EXPANDABLE}'s, target {MOST_STEP_TIME}")
    return "; ".join(parts), problems


def training_check(suite, training):
    def check(data):
        data["runs"] = runs = {name: [] for name in VARIANTS}  # kept where it ends early, too
        for turn in range(1 if suite.rehearsal else TURNS):
            for name in VARIANTS:
                runs[name].append(one_run(suite, training, name, turn))
        if suite.rehearsal:
            return f"{len(runs)} runs; a rehearsal: not asserted"
        text, problems = judged(runs)
        if problems:
            raise Failed(f"{'; '.join(problems)}; {text}")
        return text

    return check if suite.rehearsal else needs_gpu(suite, check)


def checks(suite):
    return [(f"{GROUP}.{training}", training_check(suite, training)) for training in TRAININGS]
