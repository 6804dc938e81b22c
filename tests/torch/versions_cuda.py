"""One release of CUDA's runtime: its functions beside slipstream's table, and its answers where there is no driver."""

import collections
import glob
import json
import pathlib
import re
import shutil
import subprocess
import sys

import runtime_calls
from versions_package import CannotTry, bring, of_build

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools/dev/checks"))

import hook_table  # noqa: E402  (the folder is known only now)
import hooks  # noqa: E402

# The last of each minor release that is published as a package.
LAST_OF_EACH = ("12.0.146", "12.1.105", "12.2.140", "12.3.101", "12.4.127", "12.5.82", "12.6.77", "12.8.90", "12.9.79",
                "13.0.96", "13.1.80", "13.2.86", "13.3.29", "13.4.92", "13.5.37")
TIMEOUT_S = 120


def package(release):
    """NVIDIA's package with the runtime of a release."""
    return f"nvidia-cuda-runtime-cu12=={release}" if release.startswith("12.") else f"nvidia-cuda-runtime=={release}"


def judged(exported, table, unhooked, major):
    """({hooked and there}, {hooked in other releases of this major version}, {exported and in neither list})."""
    of_major = {hook.name for hook in table if major in hook.runtimes}
    return of_major & exported, of_major - exported, exported - {hook.name for hook in table} - set(unhooked)


def expected_calls(names, hooked):
    """{function: how often} of the calls that slipstream must have counted."""
    return dict(collections.Counter(name for name in names if name in hooked))


def answers(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT_S)
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def row(options, release):
    folder = options.work / f"cudart-{release}"
    shutil.rmtree(folder, ignore_errors=True)
    # The package is the same for every Python.
    bring(folder, [package(release)], "3.11", options.work / "tmp")
    found = glob.glob(str(folder / "**/libcudart.so.1[0-9]"), recursive=True)
    if len(found) != 1:
        raise CannotTry(f"{package(release)} has {found or 'no libcudart'}")
    library = pathlib.Path(found[0])
    table = hooks.read_hooks(ROOT / "shim/hooks.def")
    unhooked, _ = hook_table.read_unhooked(ROOT / "shim/unhooked.def")
    exported = hook_table.exported(library)
    present, absent, unknown = judged(exported, table, unhooked, int(release.partition(".")[0]))

    program = [sys.executable, "-B", HERE / "runtime_calls.py", library]
    summary_file = folder / "summary.json"
    bare = answers(program)
    under = answers([options.build / "slipstream", "run", "--quiet", "--summary", summary_file, "--", *program])
    summary = json.loads(summary_file.read_text())
    processes = summary["processes"]
    seen = {function["name"]: function["calls"] for process in processes for function in process["functions"] if function["calls"]}
    engines = [process["facts"].get(engine, "") for process in processes for engine in ("transfer", "allocator")]
    version = [runtime["version"] for process in processes for runtime in process["runtimes"]]
    made = re.findall(r"^(\w+) ", bare["stdout"], re.MULTILINE)
    result = {
        "release": release, "runtime": library.name, "says": version[0] if version else None, "exported": len(exported),
        "hooked": len(present), "absent": sorted(absent), "unknown": sorted(unknown), "calls": len(made),
        "first_error": first_error(bare["stdout"]), "same": bare == under,
        "served": bool(engines) and all(engine.startswith("serves") for engine in engines), **of_build(options.build),
    }
    result["wrong"] = wrong(result, bare, under, seen, expected_calls(made, present), len(runtime_calls.NAMES))
    print(f"CUDA {release}: {len(exported)} exported, {len(present)} hooked, absent {sorted(absent)}, unknown {sorted(unknown)}, "
          f"{'same' if bare == under else 'DIFFERS'}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return result


def first_error(stdout):
    """What the first call that fails answers."""
    match = re.search(r"^\w+ (cudaError\w+)", stdout, re.MULTILINE)
    return match[1] if match else None


def wrong(result, bare, under, seen, expected, calls):
    where = f"CUDA {result['release']}"
    found = [f"{where}: {name} is exported, and in neither list" for name in result["unknown"]]
    if bare["status"] != 0 or result["calls"] != calls:
        found.append(f"{where}: bare, the program ends with {bare['status']} after {result['calls']} calls: {bare['stderr']}")
    if not result["same"]:
        found.append(f"{where}: under slipstream {under}, bare {bare}")
    if not result["served"]:
        found.append(f"{where}: the engines do not serve it")
    missed = {name: (count, seen.get(name, 0)) for name, count in expected.items() if seen.get(name, 0) != count}
    if missed or not expected:
        found.append(f"{where}: calls made and seen differ: {missed}")
    return found
