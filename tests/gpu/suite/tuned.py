"""`slipstream tune` on the trainings that move data (train_transfer.py) or fill memory (train_lengths.py), judged anew.

For each workload a search within SECONDS, and then what it wrote beside the default policy, in new pairs of
`slipstream compare`. A tuned policy that is slower than the default one fails; by how much it is faster is reported. Where
the search begins with a policy that is slower than the default one, it also has to find something.
"""

import dataclasses
import json

from .harness import GPU_TESTS, Failed, needs_gpu

GROUP = "tuned"
DEFAULT_POLICY = "version = 1\n"
NO_TRANSFER = DEFAULT_POLICY + '[transfer]\nh2d = "off"\nd2h = "off"\n'
# Of a search; each run of PyTorch takes eight seconds and more before its first step.
SECONDS = 360
PAIRS = 3
# Of the comparison behind it. Fewer where what was found is the default policy: nothing is compared then.
COMPARED_PAIRS = 5


@dataclasses.dataclass(frozen=True)
class Workload:
    training: str
    only: tuple = ()  # keys that are tried; empty: all
    policy: str = DEFAULT_POLICY  # that the search begins with


# A second of steps and more: what is pinned in the first of them hardly counts in a long training.
OFFLOAD = "train_transfer.py --workload offload --layers 8 --width 2048 --length 1024 --batch 16 --steps 60"
WORKLOADS = {
    "nested": Workload("train_transfer.py --workload nested --size 224 --width 64 --autocast --batch 32 --steps 400"),
    "vision_float32": Workload(
        "train_transfer.py --workload vision --pixels float32 --model resnet18 --classes 100 --autocast --channels-last "
        "--batch 128 --steps 150"
    ),
    "offload": Workload(OFFLOAD),
    "offload_without_transfer": Workload(OFFLOAD, only=("transfer.h2d",), policy=NO_TRANSFER),
    "small_tensors": Workload("train_transfer.py --workload small_tensors --layers 8 --width 256 --autocast --batch 64 --steps 200"),
    "checkpoint": Workload(
        "train_transfer.py --workload checkpoint --layers 6 --width 512 --length 256 --every 10 --autocast --batch 16 --steps 200"
    ),
    "lengths": Workload("train_lengths.py --steps 96", only=("allocator",)),
    "lm": Workload(
        "train_lm.py --layers 8 --width 768 --heads 12 --length 512 --batch 8 --vocabulary 16384 --autocast --steps 200",
        only=("allocator",),
    ),
}
REHEARSED = {
    "nested": Workload("train_transfer.py --workload nested --device cpu --size 32 --width 8 --batch 2 --steps 2"),
}


def settings_of(answer):
    return ", ".join(f"{key} = {value}" for key, value in sorted(answer["settings"].items())) or "the default policy"


def judged(made):
    """(what is wrong, or None; the ratio in words) of a comparison of the default policy with the tuned one."""
    if made["outcome"] != "compared":
        return f"the comparison came to {made['outcome']}", ""
    ratio = made["speed_ratio"]
    text = f"{ratio['value']:.3f} times as fast ({ratio['low']:.3f} to {ratio['high']:.3f}, {len(made['pairs'])} pairs, by {made['measured']})"
    if ratio["different"] and ratio["high"] < 1:
        return "the tuned policy is slower than the default one", text
    return None, text


def check_of(suite, name):
    def check(data):
        folder = suite.scratch(f"{GROUP}/{name}")
        workload = (REHEARSED if suite.rehearsal else WORKLOADS)[name]
        program, *arguments = workload.training.split()
        training = [suite.python, GPU_TESTS / program, *arguments]
        default = suite.policy(f"{GROUP}-default", DEFAULT_POLICY)
        first = suite.policy(f"{GROUP}-first", workload.policy)
        tuned = folder / "tuned.toml"
        seconds = 20 if suite.rehearsal else SECONDS
        ruler = "wall" if suite.rehearsal else "steps"
        search = [suite.slipstream, "tune", "--json", "--policy", first, "--by", ruler, "-n", PAIRS, "--budget", seconds, "-o", tuned]
        search += [word for key in workload.only for word in ("--only", key)]
        log = f"{GROUP}.{name}"
        found = suite.command(log, [*search, "--", *training], timeout=seconds + 240, cwd=folder).expect_success("slipstream tune")
        data["tuned"] = answer = json.loads(found.stdout)
        data["policy"] = tuned.read_text(encoding="utf-8")
        tried = f"{len(answer['tried'])} values tried{', not all' if answer['stopped_early'] else ''}"
        if not answer["settings"] and not suite.rehearsal:
            if workload.policy != DEFAULT_POLICY:
                raise Failed(f"nothing is found that is faster than the policy without copies of ours; {tried}")
            return f"the default policy is kept; {tried}"
        again = [suite.slipstream, "compare", "--json", "--by", ruler, "-n", 3 if suite.rehearsal else COMPARED_PAIRS]
        again += ["--policy", default, "--policy", tuned, "--", *training]
        answered = suite.command(log, again, timeout=600, cwd=folder).expect_success("slipstream compare")
        data["compared"] = made = json.loads(answered.stdout)
        problem, text = judged(made)
        text = f"{settings_of(answer)}: {text}; {tried}"
        if problem and not suite.rehearsal:
            raise Failed(f"{problem}: {text}")
        return text

    return check


def checks(suite):
    names = [name for name in WORKLOADS if not suite.rehearsal or REHEARSED.get(name)]
    return [(f"{GROUP}.{name}", check_of(suite, name) if suite.rehearsal else needs_gpu(suite, check_of(suite, name))) for name in names]
