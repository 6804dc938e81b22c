"""One release of PyTorch with one interpreter: brings the wheel, runs the programs of this folder, and says what came of them."""

import argparse
import contextlib
import io
import json
import re
import shutil

import stand_ins
import torch_test
from versions_cuda import ROOT, hook_table, hooks
from versions_package import CannotTry, bring, of_build, parsed_version_file, python_facts, soname_runtime
from versions_python import READ, recorded_fact

# What `import torch` needs, and torchrun, in one release or another. NumPy is in none of the programs.
NEEDED = ("typing-extensions>=4.8", "filelock", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec", "setuptools")
# (program, configurations behind the bare run). Those with lines are for a Python whose lines are read.
QUICK = (
    ("copies", ("record_any", "default", "off", "record", "driver")),
    ("ordering", ("default", "seed0")),
    ("memory", ("memory",)),
    ("workers", ("workers_python",)),
)
FULL = (
    ("copies", ("record_any", "default", "expandable", "off", "verify", "record", "record_full", "driver", "driver_record")),
    ("ordering", ("default", "seed0", "tight", "tight0", "driver", "expandable")),
    ("memory", ("memory", "allocator_off")),
    ("memory_uncaught", ("any",)),
    ("memory_expandable", ("own_allocator",)),
    ("memory_async", ("own_allocator",)),
    ("loader", ("any", "off")),
    ("workers", ("workers_python",)),
    ("programs", ("programs_all",)),
)
# The simulated CUPTI is that of CUDA 13; the stand-in for another one aborts a profiler.
WITH_CUPTI = (("profiled", ("any", "record_device")),)
NEEDS_LINES = {"record", "record_full"}


def plan(quick, runtime, has_lines):
    """[(program, configuration)], the bare run of each program first."""
    programs = QUICK if quick else FULL + (WITH_CUPTI if runtime == torch_test.RUNTIME else ())
    return [(program, configuration) for program, configurations in programs for configuration in ("bare", *configurations)
            if has_lines or configuration not in NEEDS_LINES]


def outcome(status, output, name):
    """("same" or "differs", the reason) of one run of torch_test.py, by its exit status and what it printed. Its own line
    about the run begins with the name: "copies default"."""
    if status == 0:
        return "same", ""
    lines = [line[len(name) + 2:] for line in output.splitlines() if line.startswith(f"{name}: ")]
    return "differs", (lines[-1] if lines else f"exit status {status}")[:400]


def run(options, folder, out, program, configuration):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = torch_test.main(["--build", str(options.build), "--torch", str(folder), "--out", str(out), program, configuration])
    (out / f"{program}.{configuration}.said").write_text(said.getvalue())
    word, why = outcome(status, said.getvalue(), f"{program} {configuration}")
    return {"program": program, "configuration": configuration, "outcome": word, "why": why}


def decided(out, program, configuration):
    """{decision: calls} of a run, from its summary."""
    path = out / f"{program}.{configuration}" / "summary.json"
    if not path.exists():
        return {}
    found = {}
    for process in json.loads(path.read_text())["processes"]:
        for name, decision in process["decisions"].items():
            found[name] = found.get(name, 0) + decision["count"]
    return found


def counts(decisions):
    """What the table shows of them."""
    def of(*names):
        return sum(count for name, count in decisions.items() if any(name == one or name.startswith(one + ".") for one in names))
    return {"promoted": of("transfer.h2d.promoted", "transfer.d2h.promoted"), "skipped": of("transfer.sync.skipped"),
            "reused": of("allocator.reused")}


def glibc_of(tag):
    """The oldest glibc that a wheel's tag promises to run with; None for a tag without one."""
    old = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
    match = re.search(r"-manylinux_(\d+)_(\d+)_|-(manylinux\d+)_", tag)
    return None if match is None else old.get(match[3]) if match[3] else f"{match[1]}.{match[2]}"


def looked_up(wanted, soname, table, unhooked, simulated):
    """What PyTorch looks up in CUDA's runtime: how much, how much of it is hooked, what slipstream knows nothing of, and
    what the simulated runtime does not have, so that it is in a stand-in. `wanted`: {function: version of its symbol}."""
    functions = {function for function, version in wanted.items() if version == soname}
    hooked = {hook.name for hook in table}
    return {"functions": len(functions), "hooked": len(functions & hooked), "unknown": sorted(functions - hooked - set(unhooked)),
            "in_stand_in": sorted(functions - simulated)}


def uses(torch_lib, soname, build):
    wanted = {}
    for library in torch_lib.glob("lib*.so*"):
        wanted.update(stand_ins.symbols(library)[0])
    unhooked, _ = hook_table.read_unhooked(ROOT / "shim/unhooked.def")
    return looked_up(wanted, soname, hooks.read_hooks(ROOT / "shim/hooks.def"), unhooked, stand_ins.symbols(build / "sim" / soname)[1])


def unpack(options, folder, python):
    """Brings the wheel and all that stands around it; returns (version of PyTorch, its CUDA, SONAME of its runtime, glibc)."""
    minor = ".".join(python["version"].split(".")[:2])
    packages = [f"torch=={options.version}", *NEEDED]
    bring(folder / "site-packages", packages, minor, folder / "tmp", python["free_threaded"])
    shutil.rmtree(folder / "tmp", ignore_errors=True)
    version, cuda = parsed_version_file((folder / "site-packages/torch/version.py").read_text())
    if cuda is None:
        raise CannotTry(f"PyTorch {version} is without CUDA")
    with contextlib.redirect_stdout(io.StringIO()):
        stand_ins.main([str(folder / "site-packages/torch/lib"), str(folder / "stand-ins"), "--simulated", str(options.build / "sim")])
    (folder / "python").write_text(python["path"] + "\n")
    (folder / "runtime").write_text(soname_runtime(cuda) + "\n")
    (wheel,) = (folder / "site-packages").glob("torch-*.dist-info/WHEEL")
    return version, cuda, soname_runtime(cuda), glibc_of(wheel.read_text())


def row(options: argparse.Namespace):
    """The row of the table. `wrong` has what differed, or what slipstream did not do."""
    python = python_facts(options.python)
    name = f"torch-{options.version}-python-{python['version']}{'t' if python['free_threaded'] else ''}"
    folder, out = options.work / name, options.work / f"{name}.out"
    for path in (folder, out):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    try:
        version, cuda, runtime, glibc = unpack(options, folder, python)
        used = uses(folder / "site-packages/torch/lib", runtime, options.build)
        runs, lines = [], None
        has_lines, broken = True, set()
        for program, configuration in plan(options.quick, runtime, True):
            if program in broken or not has_lines and configuration in NEEDS_LINES:
                continue
            done = run(options, folder, out, program, configuration)
            print(f"{name}: {program} {configuration}: {done['outcome']} {done['why']}", flush=True)
            runs.append(done)
            if configuration == "bare" and done["outcome"] != "same":
                # The program does not do what it should without slipstream: nothing to compare with.
                if program == "copies":
                    raise CannotTry(f"{name}: {program} {configuration}: {done['why']}: it does not run here without slipstream")
                done["outcome"] = "not comparable"
                broken.add(program)
            if configuration == "record_any":
                lines = recorded_fact(options.build, out / f"{program}.{configuration}", "python_lines")
                has_lines = bool(lines) and lines.startswith(READ)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return {
        "pytorch": version.partition("+")[0], "cuda": cuda, "runtime": runtime, "glibc": glibc, "looks_up": used,
        "python": python["version"], "free_threaded": python["free_threaded"],
        "lines": lines, **counts(decided(out, "copies", "default")), **of_build(options.build),
        "runs": runs,
        "wrong": wrong(version, python["version"], runs, lines, counts(decided(out, "copies", "default")), used["unknown"]),
    }


def wrong(version, python, runs, lines, counted, unknown=()):
    """Sentences about what should not be."""
    where = f"PyTorch {version} with Python {python}"
    found = [f"{where}: {one['program']} {one['configuration']}: {one['why']}" for one in runs if one["outcome"] == "differs"]
    found += [f"{where}: {name} is looked up, and slipstream knows nothing of it" for name in unknown]
    for what in ("promoted", "skipped", "reused"):
        if not counted[what]:
            found.append(f"{where}: nothing was {what}")
    if lines is None:
        found.append(f"{where}: the trace does not say whether it has lines")
    return found
