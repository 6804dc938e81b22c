"""Libraries beside PyTorch that use the device by ways of their own, at each level of interception.

CuPy, JAX, Triton and NCCL reach the driver through a runtime of their own or by looking its functions up. Each program
prints a sha256 over the bytes of its results: bare (twice, and with another seed, which must differ) and at each level.
calls: what is counted at the driver level, against CUPTI. ncu, memcheck: NVIDIA's tools, at each level.
"""

import concurrent.futures
import dataclasses
import re
import threading

from . import counts, harness, levels, nsight, outcomes, sanitizer
from .harness import Failed, Skipped, needs_gpu

GROUP = "peers"
PROGRAMS = outcomes.PROGRAMS
LEVELS = (levels.RUNTIME, levels.DRIVER)
DIGEST = re.compile(rb"\b[0-9a-f]{64}\b")
TIMEOUT = 150


@dataclasses.dataclass(frozen=True)
class Peer:
    arguments: tuple  # of Python; SEED stands for the seed
    package: str = ""  # that must be installed, as machine.py names its version; "": asked by running it
    digests: bool = True  # prints digests; else whatever it prints must be the same
    two_gpus: bool = False
    # Calls are seen at the runtime level too: it has the shared runtime, as PyTorch has.
    shared_runtime: bool = True


SEED = object()


def program(name, *arguments):
    return (PROGRAMS / name, *arguments)


def torchrun(name, *arguments):
    return ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, PROGRAMS / name, *arguments)


PEERS = {
    "cupy": Peer(program("cupy_kernels.py", SEED), package="cupy", shared_runtime=False),
    "cupy_ipc": Peer(program("cupy_ipc.py", SEED), package="cupy", shared_runtime=False),
    "jax": Peer(program("jax_steps.py", "gpu", SEED), shared_runtime=False),
    "triton": Peer(program("triton_kernels.py", SEED)),
    "compile": Peer(program("compile_function.py", "cuda"), digests=False),
    "share_tensors": Peer(program("share_tensors.py", "cuda", "{}"), digests=False),
    "collectives": Peer(torchrun("collectives.py", "nccl", SEED), two_gpus=True),
    "ddp": Peer(torchrun("ddp_steps.py", "nccl"), two_gpus=True),
}


def digest_lines(output):
    return [line for line in output.splitlines() if DIGEST.search(line)]


def same_digests(bare, other_seed):
    """The first line with digests that another seed leaves as it is; None: there is none."""
    return next((a for a, b in zip(digest_lines(bare), digest_lines(other_seed)) if a == b), None)


def check_of(suite, name, peer, refusals):
    log = f"{GROUP}.{name}"
    seeded = SEED in peer.arguments

    def run(which, seed=1, level=None):
        scratch = suite.scratch(f"{GROUP}/{name}/{which}")
        summary = scratch / "summary.json"
        prefix = suite.run_prefix("--quiet", "--summary", summary) if level else []
        arguments = [seed if part is SEED else part for part in peer.arguments]
        env = outcomes.private_caches(scratch) | (level.environment() if level else {})
        result = suite.command(log, [*prefix, suite.python, *arguments], env=env, timeout=TIMEOUT)
        return result, levels.read_seen(summary) if level and not result.timed_out else 0

    def check(data):
        if peer.package and not suite.results.get("versions", {}).get(peer.package):
            raise Skipped(f"no {peer.package} here")
        if peer.two_gpus and harness.gpus(suite) < 2:
            raise Skipped("needs two GPUs")
        bare, _ = run("bare")
        if bare.timed_out or bare.status != 0:
            why = harness.last_line(bare.stderr) or harness.last_line(bare.stdout)
            raise Skipped(f"does not work here without slipstream either, exit status {bare.status}: {why}")
        lines = digest_lines(bare.stdout)
        if not (lines if peer.digests else bare.stdout.strip()):
            raise Failed(f"bare, it printed no {'digest' if peer.digests else 'line'}: the comparison shows nothing")
        usable = [level for level in LEVELS if not refusals.reason(level)]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            again = pool.submit(run, "bare_again")
            other = pool.submit(run, "other_seed", 2) if seeded else None
            under = {level: pool.submit(run, level.name, 1, level) for level in usable}
            try:
                outcomes.compare(bare, again.result()[0], False)
            except Failed as problem:
                raise Failed(f"two bare runs are not equal: {problem}") from None
            if other and (line := same_digests(bare.stdout, other.result()[0].stdout)):
                raise Failed(f"another seed gave the same: {line.decode(errors='replace')[:100]}")
            if other and other.result()[0].status != 0:
                raise Failed(f"with another seed, exit status {other.result()[0].status}")
            data["levels"] = outcome = {level.name: refusals.reason(level) for level in LEVELS if level not in usable}
            wrong = []
            for level, future in under.items():
                result, seen = future.result()
                outcome[level.name] = {"calls_seen": seen}
                try:
                    outcomes.compare(bare, result, False)
                except Failed as problem:
                    outcome[level.name]["failed"] = str(problem)
                    wrong.append(f"{level.name}: {problem}")
                    continue
                if not seen and (level.sees_driver or peer.shared_runtime):
                    wrong.append(f"{level.name}: slipstream saw no call, so the comparison shows nothing")
        if wrong:
            raise Failed("; ".join(wrong))
        what = f"{sum(len(DIGEST.findall(line)) for line in lines)} digests" if peer.digests else "the output"
        same = ", ".join(f"{level.name} ({outcome[level.name]['calls_seen']} seen)" for level in usable)
        missing = [level.name for level in LEVELS if level not in usable]
        return f"{what} as bare: {same}" + (f"; not in this build: {', '.join(missing)}" if missing else "")

    return check


# -- what is counted at the driver level

DRIVER_NAME = re.compile(r"cu[A-Z]")
# What must have been called by a static runtime for the comparison to mean anything.
DRIVER_MUST_OCCUR = re.compile(r"cuLaunchKernel(Ex)?(_ptsz)?$")


def driver_name(name):
    """cuMemcpyHtoDAsync_ptsz of cuMemcpyHtoDAsync_v2_ptsz: one function has one number, whatever its version."""
    return re.sub(r"_v\d+(?=$|_ptsz$|_ptds$)", "", name)


def split(our_counts):
    """(counts of runtime functions, counts of driver functions) of slipstream's."""
    runtime = {name: calls for name, calls in our_counts.items() if not DRIVER_NAME.match(name)}
    driver = {}
    for name, calls in our_counts.items():
        if DRIVER_NAME.match(name):
            driver[driver_name(name)] = driver.get(driver_name(name), 0) + calls
    return runtime, driver


def counted_outside(row, hooked):
    """Whether this row's calls were counted as a call of the runtime: the driver is called inside a hooked one."""
    return row["behind_hook"] or (
        row["shared_runtime"] and counts.common_name(counts.strip_version(row["inside"])) in hooked
    )


def driver_calls(rows, hooked, own=False):
    """{function: calls} of CUPTI's that no hook of the runtime's has counted. own: only what slipstream called itself."""
    found = {}
    for row in rows:
        if own and not (row["first"] or "").startswith("libslipstream"):
            continue
        if not counted_outside(row, hooked):
            name = driver_name(row["function"])
            found[name] = found.get(name, 0) + row["at_exit"]
    return found


def more(many, few):
    return {name: many.get(name, 0) - few.get(name, 0) for name in {*many, *few}}


def compare_driver(ours, theirs, own, hooked):
    """(rows, problems): slipstream's calls of driver functions between two runs, CUPTI's, and slipstream's own.

    own: what slipstream called itself at the runtime level, where it hooks no driver function; at the driver level
    CUPTI cannot tell such calls from those that a hook passes on. hooked: the driver functions that are hooked.
    """
    rows, problems = {}, []
    for name in sorted({driver_name(name) for name in hooked} | {name for name, calls in ours.items() if calls}):
        mine, cupti, of_slipstream = ours.get(name, 0), theirs.get(name, 0), own.get(name, 0)
        if not (mine or cupti):
            continue
        rows[name] = {"slipstream": mine, "cupti": cupti, "slipstreams_own": of_slipstream}
        if mine not in (cupti, cupti - of_slipstream):
            problems.append(
                f"{name}: slipstream {mine:+d}, CUPTI {cupti:+d}, of these slipstream's own {of_slipstream:+d}"
            )
    if not any(DRIVER_MUST_OCCUR.match(name) and row["cupti"] > 0 for name, row in rows.items()):
        problems.append("no launch by a static runtime in these steps: the comparison shows nothing")
    return rows, problems


def callers_of(rows, hooked):
    """{library: calls} of the driver that no hook of the runtime's has counted."""
    found = {}
    for row in rows:
        if not counted_outside(row, hooked):
            found[row["caller"] or "?"] = found.get(row["caller"] or "?", 0) + row["at_exit"]
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def calls_of(suite, name, target, arguments, refusals):
    """Steps of a training, at both levels and under libcupti_count.so."""

    def check(data):
        if reason := refusals.reason(levels.DRIVER):
            raise Skipped(reason)
        libcupti = suite.results.get("libcupti")

        def run(level, steps):
            changes = level.environment() | {"CUPTI_COUNT_DRIVER": "1"}
            where = f"{GROUP}/calls.{name}.{level.name}"
            return counts.counted_run(suite, name, target, arguments, steps, libcupti, where, changes)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            wanted = [(level, steps) for level in LEVELS for steps in (counts.FEW_STEPS, counts.MANY_STEPS)]
            futures = {key: pool.submit(run, *key) for key in wanted}
            found = {key: future.result() for key, future in futures.items()}
        hooked, hooked_driver = counts.hook_table(), counts.driver_hook_table()
        common = {counts.common_name(function) for function in hooked}
        of_runtime, of_driver, cupti = {}, {}, {}
        for key, (ours, theirs) in found.items():
            of_runtime[key], of_driver[key] = split(ours)
            cupti[key] = theirs
            if theirs.driver is None:
                raise Failed("libcupti_count.so did not count the driver: it is of another build")
        few, many = (levels.DRIVER, counts.FEW_STEPS), (levels.DRIVER, counts.MANY_STEPS)
        bare_few, bare_many = (levels.RUNTIME, counts.FEW_STEPS), (levels.RUNTIME, counts.MANY_STEPS)
        totals = {
            level.name: sum(
                calls
                for function, calls in found[level, counts.MANY_STEPS][0].items()
                if not function.startswith(levels.LOOK_UPS)
            )
            for level in LEVELS
        }
        data.update(totals=totals, callers=callers_of(cupti[many].driver, common))
        # Each call of the runtime is counted as at the runtime level, and once.
        rows, problems = counts.compare_difference(of_runtime[few], of_runtime[many], cupti[few], cupti[many], hooked)
        data["runtime_functions"] = rows
        if extra := [function for function, calls in of_driver[bare_many].items() if calls]:
            problems.append(f"counted at the runtime level: {', '.join(sorted(extra))}")
        own = more(*(driver_calls(cupti[key].driver, common, own=True) for key in (bare_many, bare_few)))
        theirs = more(*(driver_calls(cupti[key].driver, common) for key in (many, few)))
        ours = more(of_driver[many], of_driver[few])
        rows, wrong = compare_driver(ours, theirs, own, hooked_driver)
        data["driver_functions"] = rows
        problems += wrong
        if totals["driver"] <= totals["runtime"]:
            problems.append(f"{totals['driver']} calls at the driver level, {totals['runtime']} at the runtime level")
        counts.fail_on(problems)
        return (
            f"{totals['driver']} calls at the driver level, {totals['runtime']} at the runtime level; in "
            f"{counts.MANY_STEPS - counts.FEW_STEPS} steps {len(rows)} functions of the driver, {sum(ours.values())} calls, "
            f"as CUPTI counts them"
        )

    return check


def side_by_side(suite):
    refusals = levels.Refusals(suite, GROUP)
    found = [
        (f"{GROUP}.{name}", needs_gpu(suite, check_of(suite, name, peer, refusals))) for name, peer in PEERS.items()
    ]
    return found + [
        (f"{GROUP}.calls.{name}", needs_gpu(suite, calls_of(suite, name, *target, refusals)))
        for name, target in counts.programs().items()
    ]


def tools(suite):
    """NVIDIA's own tools at each level: they want the device to themselves."""
    refusals = levels.Refusals(suite, f"{GROUP}.tools")
    profiled = sanitizer.Program(suite, log=f"{GROUP}.ncu", trial=nsight.ARGUMENTS)
    checked = sanitizer.Program(suite, log=f"{GROUP}.memcheck")

    def at(level, check):
        def guarded(data):
            if reason := refusals.reason(level):
                raise Skipped(reason)
            return check(data)

        return needs_gpu(suite, guarded)

    found = []
    for level in LEVELS:
        found.append((f"{GROUP}.ncu.{level.name}", at(level, nsight.compute(suite, profiled, level))))

        def memcheck(data, level=level):
            return sanitizer.watched(suite, checked, data, policy=level.environment())

        found.append((f"{GROUP}.memcheck.{level.name}", at(level, memcheck)))
    return found
