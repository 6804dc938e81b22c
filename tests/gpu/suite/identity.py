"""Deterministic training gives the same bits bare and under slipstream, and the comparison can tell if it does not."""

import concurrent.futures

from . import harness
from .harness import GPU_TESTS, Failed

LAUNCHES = ("__cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernelExC")


def programs(suite):
    """name -> (program, arguments), small where there is no GPU."""
    if suite.rehearsal:
        tiny = ["--device", "cpu", "--steps", "4", "--batch", "4"]
        return {
            "resnet18": (GPU_TESTS / "train_resnet.py", [*tiny, "--size", "32", "--workers", "2"]),
            "lm": (
                GPU_TESTS / "train_lm.py",
                [*tiny, "--layers", "2", "--width", "64", "--heads", "2", "--length", "32"],
            ),
        }
    steps = ["--steps", "10" if suite.quick else "30"]
    return {
        "resnet18": (GPU_TESTS / "train_resnet.py", [*steps, "--batch", "32"]),
        "resnet50_bf16": (
            GPU_TESTS / "train_resnet.py",
            [*steps, "--model", "resnet50", "--batch", "32", "--autocast"],
        ),
        "lm": (GPU_TESTS / "train_lm.py", steps),
        "lm_bf16": (GPU_TESTS / "train_lm.py", [*steps, "--autocast"]),
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


def calls(summary, names):
    """How often the functions were called, over all processes of a summary."""
    return sum(f["calls"] for f in summary["totals"]["functions"] if f["name"] in names)


def identical(suite, name, program, arguments):
    def check(data):
        directory = suite.scratch(f"identity/{name}")
        summary = directory / "summary.json"

        def run(which, seed, prefix=()):
            out = directory / f"{which}.json"
            argv = [*prefix, suite.python, program, *arguments, "--deterministic", "--seed", seed, "--out", out]
            suite.command(f"identity.{name}", argv, timeout=180).expect_success(which)
            return harness.read_json(out, which)

        slipstream = suite.run_prefix("--quiet", "--summary", summary)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = [
                pool.submit(run, *what)
                for what in (("bare", 1), ("bare_again", 1), ("slipstream", 1, slipstream), ("other_seed", 2))
            ]
            bare, again, under, other = [future.result() for future in runs]
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
        launches = calls(harness.read_json(summary, "summary"), LAUNCHES)
        data["launches_seen"] = launches
        if not launches and not suite.rehearsal:
            raise Failed("slipstream saw no kernel launch: it was not in the process")
        if found := differences(bare, under):
            raise Failed("bare and slipstream differ: " + "; ".join(found))
        return (
            f"{len(bare['losses'])} losses and {bare['state_sha256'][:12]}… equal; another seed differs; "
            f"{launches} launches seen"
        )

    return check


def checks(suite):
    return [(f"identity.{name}", identical(suite, name, *what)) for name, what in programs(suite).items()]
