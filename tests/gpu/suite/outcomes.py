"""Programs end as they end without slipstream: output, exit status, signals, children, ranks."""

import concurrent.futures
import json
import os
import re
import select
import signal

from . import harness
from .harness import GPU_TESTS, Failed, Skipped, needs_gpu
from .summary import expect_acted

PROGRAMS = GPU_TESTS / "programs"


def compare(bare, under, compare_stderr):
    if bare.timed_out:
        raise Failed("bare, it did not end in time")
    if under.timed_out:
        raise Failed("under slipstream it did not end in time")
    pairs = [("exit status", bare.status, under.status), ("stdout", bare.stdout, under.stdout)]
    if compare_stderr:
        pairs.append(("stderr", bare.stderr, under.stderr))
    for what, a, b in pairs:
        if a != b:
            raise Failed(
                f"{what} differs: bare {a!r:.300}, slipstream {b!r:.300}; stderr {harness.last_line(under.stderr)!r}"
            )


def private_caches(scratch):
    """Variables with which compilers' caches are not shared, or the second run would do less than the first."""
    return {
        "TMPDIR": scratch,
        "TORCHINDUCTOR_CACHE_DIR": scratch / "inductor",
        "TRITON_CACHE_DIR": scratch / "triton",
        "CUPY_CACHE_DIR": scratch / "cupy",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "TORCHINDUCTOR_COMPILE_THREADS": "2",
    }


def same(suite, name, argv, status=0, *, stderr=False, timeout=120, says=None, may_not_work=False):
    """Bare and under slipstream side by side: the same exit status and output; bare must leave with `status`.

    may_not_work: the machine may lack what the program needs (peer access for NCCL, a C compiler for Triton); then a
    bare run that fails skips the check.
    """

    def check(data):
        def run(which, prefix):
            private = private_caches(suite.scratch(f"outcomes/{name}/{which}"))
            return suite.command(f"outcomes.{name}", [*prefix, *argv], env=private, timeout=timeout)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            summary = suite.scratch(f"outcomes/{name}") / "summary.json"
            bare = pool.submit(run, "bare", [])
            under = pool.submit(run, "slipstream", suite.run_prefix("--quiet", "--summary", summary))
            bare, under = bare.result(), under.result()
        data["status"] = bare.status
        if bare.status != status and may_not_work:
            raise Skipped(f"does not work here without slipstream either: {harness.last_line(bare.stderr)}")
        if bare.status != status:
            raise Failed(f"bare, it left with {bare.status}, not {status}: {harness.last_line(bare.stderr)}")
        if says and says not in bare.stdout:
            raise Failed(f"bare, it did not print {says!r}")
        compare(bare, under, stderr)
        return f"exit status {status}, same output ({len(bare.stdout)} bytes)"

    return check


def same_while_acting(suite, name, argv, **expectations):
    """The same, and the transfer engine must have been at work."""
    outcome = same(suite, name, argv, **expectations)

    def check(data):
        said = outcome(data)
        summary = json.loads((suite.scratch(f"outcomes/{name}") / "summary.json").read_text())
        return f"{said}; {expect_acted(summary)}"

    return check


def ask_from_threads(suite):
    """S63: another thread sees that a blocking copy has waited, though it did not."""
    program = [suite.python, PROGRAMS / "ask_from_threads.py"]
    return same_while_acting(suite, "ask_from_threads", program, says=b"event still pending: 0 of 20")


def save_beside_training(suite):
    """A thread that writes checkpoints while the model trains: every one is what it is bare."""
    program = [suite.python, PROGRAMS / "save_beside_training.py"]
    return same_while_acting(suite, "save_beside_training", program, says=b"12 checkpoints\n", timeout=240)


def infer_beside_update(suite):
    """S62: an inference sees one version of the weights, though another thread replaces them on the same stream."""
    program = [suite.python, PROGRAMS / "infer_beside_update.py"]
    says = b"0 of the inferences saw two versions\n"
    return same_while_acting(suite, "infer_beside_update", program, says=says, timeout=240)


def torn_copies(suite, mib):
    """S62: another thread's kernels on the same stream come before or after all of a copy."""
    program = [suite.python, PROGRAMS / "torn_copies.py", str(mib)]
    return same_while_acting(suite, f"torn_copies_{mib}MiB", program, says=b"to the host: 0 torn\n", timeout=240)


def gone(pid, seconds):
    """Waits until the process has ended, at most so long."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def read_ready(process):
    """The process id that wait_for_signal.py prints once it uses the device."""
    buffered = b""
    while not buffered.endswith(b"\n"):
        if not select.select([process.stdout], [], [], 90)[0]:
            raise Failed("the program did not become ready")
        part = os.read(process.stdout.fileno(), 4096)
        if not part:
            raise Failed("the program ended before it was ready")
        buffered += part
    match = re.search(rb"ready (\d+)", buffered)
    if not match:
        raise Failed(f"unexpected output {buffered!r:.200}")
    return int(match[1])


def signaled(suite, name, number, how, to_group=False):
    """Sends a signal to the process that the user started, or to its group as a terminal does for Ctrl-C."""

    def run(prefix):
        env = harness.environment_with({"PYTHONWARNINGS": "ignore"})
        argv = [*prefix, suite.python, PROGRAMS / "wait_for_signal.py", suite.device, how]
        with suite.slots:
            process = suite.spawn(argv, env)
            try:
                pid = read_ready(process)
                (os.killpg if to_group else os.kill)(process.pid, number)
                ended = gone(process.pid, 30)
                # The training process itself, where that is another one.
                orphan = not gone(pid, 10)
                if not ended:
                    raise Failed(f"did not end within 30 s of {signal.Signals(number).name}")
                suite.kill_group(process)
                stdout, stderr = process.communicate()
            finally:
                suite.kill_group(process)
                if process.returncode is None:
                    process.communicate()
                suite.forget(process)
        result = harness.Result(harness.shell_status(process.returncode), stdout, stderr, 0)
        suite.log_command(f"outcomes.{name}", [str(part) for part in argv], None, result)
        return result, orphan

    def check(data):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            bare = pool.submit(run, [])
            under = pool.submit(run, suite.run_prefix("--quiet"))
            (bare, _), (under, orphan) = bare.result(), under.result()
        data.update(bare=bare.status, slipstream=under.status, training_left_running=orphan)
        compare(bare, under, False)
        if orphan:
            raise Failed("the training process was left running")
        return f"exit status {under.status} in both, nothing left running"

    return check


def disabled(suite):
    """SLIPSTREAM_DISABLE=1 under a bare preload: the same run again."""

    def check(_data):
        argv = [suite.python, PROGRAMS / "fork_child.py", suite.device]
        # Python's warning about fork names the process id.
        bare = suite.command("outcomes.disabled", argv, env={"PYTHONWARNINGS": "ignore"})
        env = {"LD_PRELOAD": suite.library, "SLIPSTREAM_DISABLE": "1", "PYTHONWARNINGS": "ignore"}
        compare(bare, suite.command("outcomes.disabled", argv, env=env), True)
        bare.expect_success("bare")
        return "same output"

    return check


def kept_preload(suite):
    """An LD_PRELOAD that is already there stays, behind ours (S52)."""

    def check(data):
        other = next(
            (
                p
                for p in (
                    "/lib/x86_64-linux-gnu/libSegFault.so",
                    "/lib/x86_64-linux-gnu/libdl.so.2",
                    "/lib64/libdl.so.2",
                    "/lib/aarch64-linux-gnu/libdl.so.2",
                )
                if os.path.exists(p)
            ),
            None,
        )
        if not other:
            raise Skipped("no library to preload")
        argv = [*suite.run_prefix("--quiet"), suite.python, "-c", "import os; print(os.environ['LD_PRELOAD'])"]
        result = suite.command("outcomes.kept_preload", argv, env={"LD_PRELOAD": other}).expect_success("run")
        data["ld_preload"] = value = result.stdout.decode().strip()
        parts = re.split("[ :]", value)
        if len(parts) != 2 or "libslipstream" not in parts[0] or parts[1] != other:
            raise Failed(f"LD_PRELOAD was {other} and became {value}")
        return "kept, behind ours"

    return check


def ranks(suite):
    gpus = len(suite.results.get("machine", {}).get("gpus", []))
    return min(2, gpus) or 1


def no_such_command(suite):
    """A command that is not there: 127, as a shell says, and not silently."""

    def check(_data):
        result = suite.command("outcomes.no_such_command", [*suite.run_prefix("--quiet"), "no-such-command-here"])
        if result.status != 127:
            raise Failed(f"exit status {result.status}, expected 127")
        if b"no-such-command-here" not in result.stderr:
            raise Failed(f"the message does not name the command: {harness.last_line(result.stderr)!r}")
        return "exit status 127, named in the message"

    return check


def doctor(suite):
    def check(data):
        result = suite.command("outcomes.doctor", [suite.slipstream, "doctor", "--json"]).expect_success(
            "doctor --json"
        )
        try:
            data["report"] = json.loads(result.stdout)
        except ValueError as error:
            raise Failed(f"doctor --json printed no JSON: {error}") from None
        return f"{len(data['report'])} fields"

    return check


def checks(suite):
    def program(name, *arguments):
        return [suite.python, PROGRAMS / name, *arguments]

    def torchrun(backend, processes):
        return [
            suite.python,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            processes,
            PROGRAMS / "distributed_step.py",
            backend,
        ]

    device = suite.device
    ddp_on_one_gpu = [*torchrun("gloo", 2)[:-2], PROGRAMS / "ddp_steps.py", "gloo", "one_gpu"]

    def cupy(data):
        if not suite.results.get("versions", {}).get("cupy"):
            raise Skipped("CuPy is not installed")
        return same(suite, "cupy", program("cupy_sum.py"), may_not_work=True)(data)

    number = ranks(suite)
    return [
        ("outcomes.exit_status", same(suite, "exit_status", program("exit_status.py", device, 3), 3, stderr=True)),
        (
            "outcomes.system_exit",
            same(suite, "system_exit", [suite.python, "-c", "raise SystemExit(3)"], 3, stderr=True),
        ),
        ("outcomes.exception", same(suite, "exception", program("exception.py", device), 1, stderr=True)),
        ("outcomes.killed", same(suite, "killed", program("kill_itself.py", device), 137)),
        ("outcomes.no_such_command", no_such_command(suite)),
        ("outcomes.sigterm_handled", signaled(suite, "sigterm_handled", signal.SIGTERM, "handler")),
        ("outcomes.sigterm", signaled(suite, "sigterm", signal.SIGTERM, "default")),
        ("outcomes.sigint_group", signaled(suite, "sigint_group", signal.SIGINT, "default", to_group=True)),
        ("outcomes.sigkill", signaled(suite, "sigkill", signal.SIGKILL, "default")),
        ("outcomes.loader_workers", same(suite, "loader_workers", program("loader_workers.py", device))),
        ("outcomes.fork_child", same(suite, "fork_child", program("fork_child.py", device), says=b"child left with 6")),
        (
            "outcomes.spawn_workers",
            same(suite, "spawn_workers", program("spawn_workers.py", device), says=b"1048576.0", may_not_work=True),
        ),
        ("outcomes.torchrun_gloo_2", same(suite, "torchrun_gloo_2", torchrun("gloo", 2), timeout=150)),
        (
            f"outcomes.torchrun_nccl_{number}",
            needs_gpu(suite, same(suite, "torchrun_nccl", torchrun("nccl", number), timeout=150, may_not_work=True)),
        ),
        (
            "outcomes.compile",
            same(suite, "compile", program("compile_function.py", device), timeout=180, may_not_work=True),
        ),
        ("outcomes.cuda_graph", needs_gpu(suite, same(suite, "cuda_graph", program("cuda_graph.py")))),
        (
            "outcomes.out_of_memory",
            needs_gpu(suite, same(suite, "out_of_memory", program("out_of_memory.py"), says=b"caught")),
        ),
        ("outcomes.ask_from_threads", needs_gpu(suite, ask_from_threads(suite))),
        *(
            (f"outcomes.torn_copies_{mib}MiB", needs_gpu(suite, torn_copies(suite, mib)))
            for mib in (16, 64, 256, 1024)
        ),
        ("outcomes.save_beside_training", needs_gpu(suite, save_beside_training(suite))),
        ("outcomes.infer_beside_update", needs_gpu(suite, infer_beside_update(suite))),
        ("outcomes.ddp_gloo_one_gpu", needs_gpu(suite, same(suite, "ddp_gloo_one_gpu", ddp_on_one_gpu, timeout=240))),
        ("outcomes.cupy", needs_gpu(suite, cupy)),
        ("outcomes.disabled", disabled(suite)),
        ("outcomes.kept_preload", kept_preload(suite)),
        ("outcomes.doctor", doctor(suite)),
    ]
