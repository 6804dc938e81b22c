"""The group distributed, on stand-ins for an example, for PyTorch and for slipstream; train_example.py is the real one."""

import contextlib
import dataclasses
import os
import pathlib
import unittest
from unittest import mock

import support
from suite import distributed, harness
from suite.harness import Failed, Skipped

# slipstream policy check FILE; slipstream run --quiet --summary FILE -- COMMAND...
SLIPSTREAM = """#!/bin/bash
if [ "$1" = policy ]; then
  [ -n "$OLD_BUILD" ] && grep -q "$OLD_BUILD" "$3" && { echo "$3:4:9: not in this version" >&2; exit 1; }
  exit 0
fi
calls_of() { echo "{\\"name\\": \\"$1\\", \\"calls\\": $2}"; }
launches() { echo "\\"functions\\": [$(calls_of cudaMalloc 3), $(calls_of cudaLaunchKernel $1)]"; }
process() { echo "{\\"rank\\": $1, $(launches $2)}"; }
second=${SECOND:-7}
[ "$SLIPSTREAM_INTERCEPT_LEVEL" = driver ] && second=${SECOND_AT_DRIVER:-$second}
processes="$(process null 0), $(process 0 ${FIRST:-5}), $(process 1 $second)"
[ -n "$NOT_LOADED" ] && processes=
decisions='"transfer.h2d.promoted.small": {"count": 2}, "allocator.grown": {"count": 4}'
echo "{\\"totals\\": {$(launches 12), \\"decisions\\": {$decisions}}, \\"processes\\": [$processes]}" > "$4"
shift 5
UNDER=1 exec "$@"
"""
TORCH = '''
import contextlib, math, os, random, struct
uint8 = "uint8"
no_grad = contextlib.nullcontext
deterministic = False

class Tensor:
    dtype = "float64"
    def __init__(self, values):
        self.values = list(values)
    shape = property(lambda self: (len(self.values),))
    detach = cpu = contiguous = numpy = lambda self: self
    reshape = view = lambda self, _: self
    def numel(self):
        return len(self.values)
    def sum(self):
        return sum(self.values)
    def tobytes(self):
        return struct.pack(f"{len(self.values)}d", *self.values)
    def normal_(self, mean, deviation):
        self.values = [random.gauss(mean, deviation) for _ in self.values]

class Shard(Tensor):
    """Of no use before it is made a local one."""
    detach = cpu = numel = None
    def to_local(self):
        local = Tensor(())
        local.values = self.values
        local.normal_ = lambda *how: self.values.__setitem__(slice(None), [random.gauss(*how) for _ in self.values])
        return local

def is_tensor(value):
    return isinstance(value, Tensor)

def isfinite(tensor):
    return Tensor(map(math.isfinite, tensor.values))

def manual_seed(seed):
    random.seed(seed)

def use_deterministic_algorithms(on):
    global deterministic
    deterministic = on

class nn:
    class Module:
        def to_empty(self, *, device):
            for parameter in self.parameters():
                parameter.values[:] = os.urandom(len(parameter.values))
            return self
'''
OPTIMIZER = """
hooks = []
def register_optimizer_step_post_hook(hook):
    hooks.append(hook)

class Optimizer:
    def __init__(self, parameters):
        self.param_groups, self.state = [{"params": parameters}], {}
    def step(self):
        for hook in hooks:
            hook(self, (), {})
"""
# --standalone --nproc-per-node N PROGRAM...
TORCHRUN = """
import multiprocessing, os, pathlib, runpy, sys

def run(rank):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
    sys.argv = sys.argv[4:]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")

fork = multiprocessing.get_context("fork")
ranks = [fork.Process(target=run, args=(rank,)) for rank in range(int(sys.argv[3]))]
for rank in ranks:
    rank.start()
for rank in ranks:
    rank.join()
if any(rank.exitcode for rank in ranks):
    sys.exit("torch.distributed.elastic.ChildFailedError: \\n=====")
"""
EXAMPLE = """
import os, pathlib, random, sys, time
import torch
from torch.optim.optimizer import Optimizer
from beside import SIZE

mode, rank, under = os.environ["MODE"], int(os.environ["RANK"]), "UNDER" in os.environ
assert __name__ == "__main__" and sys.argv[1:] == ["3"] and torch.deterministic
# A later run in the same folder would go on from it.
assert mode == "broken" or not pathlib.Path(f"checkpoint{rank}").exists()
pathlib.Path(f"checkpoint{rank}").touch()
if mode == "broken" or mode == "broken under" and under:
    raise RuntimeError("no such device")
if mode == "leaves":
    print("Unable to locate sufficient 2 gpus")
    sys.exit()
if mode == "seeds itself":
    torch.manual_seed(0)

class Model(torch.nn.Module):
    def __init__(self):
        self.weight, self.bias = torch.Shard([0.0] * SIZE), torch.Tensor([0.0] * SIZE)
    def parameters(self):
        return [self.weight, self.bias]

model = Model()
model.to_empty(device="cuda")
optimizer = Optimizer([] if mode == "no parameters" else model.parameters())
mean = torch.Tensor([0.0])
optimizer.state[model.bias] = {"mean": mean, "step": 0}
for step in range(int(sys.argv[1])):
    for parameter in model.parameters():
        parameter.values[:] = [value + random.random() for value in parameter.values]
    optimizer.state[model.bias]["step"] = step
    if mode != "no step" and (mode != "no step in one" or rank == 0):
        optimizer.step()
if mode == "random":
    model.weight.values[0] = time.perf_counter()
if mode == "not finite":
    model.weight.values[1] = float("nan")
if mode == "wrong under" and under and rank == 1:
    model.weight.values[2] += 1
if mode == "wrong state at driver" and os.environ.get("SLIPSTREAM_INTERCEPT_LEVEL") == "driver":
    mean.values[0] = 1.0
print("not at the end of a line", end="" if rank else "\\n")
"""
STAND_IN = distributed.Example("folder/example.py", ("3",))
SEEDED = distributed.Example("folder/example.py", ("3",), seeds_itself=True)
FOUR = distributed.Example("folder/example.py", ("3",), gpus=4)
MISSING = distributed.Example("folder/other.py")


@contextlib.contextmanager
def group(mode="", gpus=2, rehearsal=False, examples=True, **environment):
    """name -> check, of a checkout with one example."""
    temporary = support.TemporarySuite(only=distributed.GROUP)
    with temporary as suite, mock.patch.dict(os.environ):
        root = pathlib.Path(temporary.directory.name)
        checkout = root / "examples"
        for path, text in (
            ("slipstream", SLIPSTREAM),
            ("packages/torch/__init__.py", TORCH),
            ("packages/torch/optim/__init__.py", ""),
            ("packages/torch/optim/optimizer.py", OPTIMIZER),
            ("packages/torch/distributed/__init__.py", ""),
            ("packages/torch/distributed/run.py", TORCHRUN),
            ("examples/distributed/folder/example.py", EXAMPLE),
            ("examples/distributed/folder/beside.py", "SIZE = 4\n"),
        ):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        suite.slipstream = root / "slipstream"
        suite.slipstream.chmod(0o755)
        os.environ.update(PYTHONPATH=str(root / "packages"), MODE=mode, **environment)
        suite.examples = checkout if examples else None
        suite.rehearsal = rehearsal
        suite.results["machine"] = {"gpus": [{}] * gpus}
        stand_ins = {"one": STAND_IN, "seeded": SEEDED, "four": FOUR, "missing": MISSING}
        with mock.patch.object(distributed, "EXAMPLES", stand_ins):
            checks = dict(distributed.checks(suite))
        yield suite, {name.removeprefix("distributed."): check for name, check in checks.items()}


class Checks(unittest.TestCase):
    def failure(self, text, mode="", **more):
        data = {}
        with self.subTest(text), group(mode, **more) as (_, checks), self.assertRaisesRegex(Failed, text):
            checks["one"](data)
        return data

    def test_ranks_stand_in_their_order_whichever_ended_first(self):
        printed = [f"trained: rank {rank} steps 3 parameters 8 not finite 0 sha256 {'0' * 64}\n" for rank in (1, 0)]
        self.assertEqual([0, 1], list(distributed.read_trained("".join(printed).encode())))

    def test_as_bare(self):
        with group() as (suite, checks):
            data = {}
            self.assertEqual(
                "2 ranks, 3 steps, weights and state as bare: runtime (5 + 7 launches seen), driver (5 + 7 launches seen)",
                checks["one"](data),
            )
            self.assertEqual({0: 5, 1: 7}, data["levels"]["driver"]["launches"])
            self.assertEqual(2, data["levels"]["runtime"]["promoted"])
            self.assertEqual(4, data["levels"]["runtime"]["pool_grown"])
            self.assertEqual(8, data["ranks"][1]["parameters"])
            self.assertFalse(list(pathlib.Path(suite.examples).rglob("__pycache__")))

    def test_an_example_that_seeds_itself(self):
        with group("seeds itself") as (_, checks):
            checks["seeded"]({})
        self.failure("another seed gave the same in rank 0 and 1", "seeds itself")

    def test_weights_that_differ(self):
        data = self.failure(r"^runtime: bare and .* differ: rank 1: 3 steps, .* and 3 steps, .*; driver: bare", "wrong under")
        self.assertRegex(data["levels"]["driver"], "^failed: driver: bare and under slipstream differ")
        data = self.failure(r"^driver: bare and under slipstream differ: rank 0", "wrong state at driver")
        self.assertEqual({0: 5, 1: 7}, data["levels"]["runtime"]["launches"])

    def test_bare_runs_that_differ(self):
        self.failure("^two bare runs differ, so the example is not deterministic here: rank 0", "random")

    def test_slipstream_was_not_there(self):
        self.failure("^runtime: slipstream saw no kernel launch in rank 0 and 1: it was not", NOT_LOADED="1")
        self.failure("^runtime: slipstream saw no kernel launch in rank 0: ", FIRST="0")
        self.failure("^driver: slipstream saw no kernel launch in rank 1: ", SECOND_AT_DRIVER="0")

    def test_what_shows_nothing(self):
        self.failure("^bare: no optimizer stepped in rank 0", "no step")
        self.failure("^bare: no optimizer stepped in rank 0", "leaves")
        self.failure("^bare: no optimizer stepped in rank 1", "no step in one")
        self.failure("^bare: the optimizer of rank 0 has no parameters", "no parameters")
        self.failure("^bare: 1 values of rank 0 are not finite", "not finite")
        with self.assertRaisesRegex(Failed, r"^bare: results of the ranks \[\], not of 2"):
            distributed.expect_training("bare", b"trained\n")

    def test_a_run_that_fails_or_does_not_end(self):
        self.failure("^runtime: exit status 1: RuntimeError: no such device; driver: exit status 1", "broken under")
        with group() as (suite, checks):
            command = suite.command

            def late(log, argv, **how):
                return dataclasses.replace(command(log, argv, **how), timed_out=argv[:2] == suite.run_prefix()[:2])

            with mock.patch.object(suite, "command", late):
                with self.assertRaisesRegex(Failed, "^runtime: did not end in time; driver: did not end"):
                    checks["one"]({})

    def test_a_level_that_this_build_does_not_know(self):
        with group(OLD_BUILD="driver") as (_, checks):
            data = {}
            self.assertIn("runtime (5 + 7 launches seen); not in this build: driver", checks["one"](data))
            self.assertEqual("skipped: not in this version", data["levels"]["driver"])
        self.failure("none of the levels runtime, driver", OLD_BUILD="version")

    def test_skipped(self):
        for text, mode, name, more in (
            ("needs 2 GPUs", "", "one", {"gpus": 1}),
            ("needs 4 GPUs", "", "four", {}),
            ("not in the checkout: distributed/folder/other.py", "", "missing", {}),
            ("without slipstream either, exit status 1: RuntimeError: no such device", "broken", "one", {}),
            ("does not train on a CPU: Unable to locate sufficient 2 gpus", "leaves", "one", {"gpus": 0, "rehearsal": True}),
        ):
            with self.subTest(text), group(mode, **more) as (_, checks), self.assertRaisesRegex(Skipped, text):
                checks[name]({})

    def test_a_rehearsal(self):
        with group(gpus=0, rehearsal=True, NOT_LOADED="1") as (_, checks):
            self.assertIn("as bare: runtime, driver", checks["one"]({}))
        self.failure("runtime: bare and under slipstream differ", "wrong under", gpus=0, rehearsal=True)

    def test_no_checkout(self):
        with group(examples=False) as (_, checks), self.assertRaisesRegex(Skipped, "--examples"):
            self.assertEqual(["distributed"], list(checks))
            checks["distributed"]({})
        with support.TemporarySuite() as suite:
            suite.examples = "/nowhere"
            ((_, check),) = distributed.checks(suite)
            with self.assertRaisesRegex(Failed, "/nowhere has no folder distributed"):
                check({})

    def test_it_runs_only_where_it_is_named(self):
        self.assertIn(distributed.GROUP, harness.ON_REQUEST)


if __name__ == "__main__":
    unittest.main()
