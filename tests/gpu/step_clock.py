"""Runs a Python program and notes when each pass of its training loop begins: how long steps are where nobody records them.

    step_clock.py OUT PROGRAM [ARGUMENT...]

The training loop is the `for` over `args.steps`, else the innermost one around a call of `backward()`. A call is put in front of
what it does, and one behind it; lines keep their numbers. OUT is a JSON list of nanoseconds: when each pass began behind the
first WARM_UP, and when all of them were done. The device has caught up with the host at the first and at the last of these times.
"""

import ast
import json
import pathlib
import sys
import time
import types

WARM_UP = 10
_CLOCK = "__step_clock__"


class Clock:
    def __init__(self):
        self.times = []
        self._passes = 0

    def begin(self):
        self._passes += 1
        if self._passes == WARM_UP + 1:
            self._synchronize()
        if self._passes > WARM_UP:
            self.times.append(time.perf_counter_ns())

    def end(self):
        self._synchronize()
        self.times.append(time.perf_counter_ns())

    @staticmethod
    def _synchronize():
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()


def _goes_over_steps(loop):
    return any(isinstance(node, ast.Attribute) and node.attr == "steps" for node in ast.walk(loop.iter))


def _goes_back(loop):
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward" for node in ast.walk(loop)
    )


def training_loop(tree):
    """The loop; None: there is none."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]  # outer ones first
    over_steps = next((loop for loop in loops if _goes_over_steps(loop)), None)
    return over_steps or next((loop for loop in reversed(loops) if _goes_back(loop)), None)


def _calls(method, loop):
    call = ast.Expr(ast.Call(ast.Attribute(ast.Name(_CLOCK, ast.Load()), method, ast.Load()), [], []))
    return ast.fix_missing_locations(ast.copy_location(call, loop))


def clocked(source, program):
    """The program's code, with the calls; None: it has no such loop."""
    tree = ast.parse(source, program)
    loop = training_loop(tree)
    if loop is None:
        return None
    block = next(block for node in ast.walk(tree) for block in (getattr(node, "body", []), getattr(node, "orelse", [])) if loop in block)
    block.insert(block.index(loop) + 1, _calls("end", loop))
    loop.body.insert(0, _calls("begin", loop))
    return compile(tree, program, "exec")


def main():
    out, program, *arguments = sys.argv[1:]
    code = clocked(pathlib.Path(program).read_text(encoding="utf-8"), program)
    if code is None:
        print(f"step_clock: {program} has no loop over args.steps and none around backward()", file=sys.stderr)
        return 2
    clock = Clock()
    module = types.ModuleType("__main__")
    module.__dict__.update({"__file__": program, _CLOCK: clock})
    sys.modules["__main__"] = module
    sys.argv = [program, *arguments]
    sys.path[0] = str(pathlib.Path(program).parent)
    exec(code, module.__dict__)  # pylint: disable=exec-used
    pathlib.Path(out).write_text(json.dumps(clock.times), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
