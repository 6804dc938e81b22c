"""Reads shim/hooks.def as the build does: with the preprocessor."""

import dataclasses
import pathlib
import re
import subprocess

CUDA12, CUDA13 = 12, 13
_RUNTIMES = {"kBoth": {CUDA12, CUDA13}, "kCuda12": {CUDA12}, "kCuda13": {CUDA13}, "kLater13": {CUDA13}, "kDriver": set(), "kNone": set()}

# Each row becomes "@ group runtimes name @"; the macros that stand for several rows expand through their own defaults.
_ROWS = (
    "HOOK(group,function,parameters,arguments,detail)=@ group kBoth function @",
    "HOOK_SINCE13(group,function,parameters,arguments,detail)=@ group kCuda13 function @",
    "HOOK_WORDS(group,function,words,runtimes,detail)=@ group runtimes function @",
    "HOOK_LATER13(group,function,words,detail)=@ group kLater13 function @",
    "HOOK_CUSTOM(group,function,runtimes)=@ group runtimes function @",
    "HOOK_DRIVER(group,function,parameters,arguments,detail)=@ group kDriver function @",
    "HOOK_DRIVER_V1(group,function,parameters,arguments,detail)=@ group kDriver function @",
    "HOOK_LIBC(function)=@ kLibc kNone function @",
    "HOOK_CUPTI(function)=@ kCupti kNone function @",
    "HOOK_CUFILE(function)=@ kCufile kNone function @",
    "HOOK_PYTORCH(function)=@ kPyTorch kNone function @",
    "HOOK_TOOL(function)=@ kTool kNone function @",
)


@dataclasses.dataclass(frozen=True)
class Hook:
    """`runtimes` holds the major versions of libcudart that have the function, as the row says; none for those of the driver, and
    those that are not CUDA's. `later`: not the first release of CUDA 13."""

    name: str
    group: str
    runtimes: frozenset
    of_driver: bool = False
    later: bool = False


def read_hooks(path, compiler="g++"):
    folder = pathlib.Path(path).resolve().parent.parent  # driver_hooks.def is included as shim/driver_hooks.def
    command = [compiler, "-E", "-P", "-x", "c++", "-I", str(folder), *(f"-D{row}" for row in _ROWS), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{path} does not preprocess:\n{done.stderr}")
    rows = re.findall(r"@\s*(\w+)\s+(\w+)\s+(\w+)\s*@", done.stdout)
    left = re.sub(r"@\s*\w+\s+\w+\s+\w+\s*@", "", done.stdout).strip()
    if left:
        raise SystemExit(f"{path} holds something that is no row: {left[:200]}")
    return [Hook(name, group, frozenset(_RUNTIMES[runtimes]), runtimes == "kDriver", runtimes == "kLater13")
            for group, runtimes, name in rows]
