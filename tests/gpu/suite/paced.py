"""Processes that work on request, so that several can take turns on one machine."""

import json
import select
import subprocess
import time

from . import harness
from .harness import GPU_TESTS, Failed


class Conversation:
    """A process that answers each line of JSON on its standard input with one on its standard output.

    `log` names the file for its standard error; environment is added to the clean one. cwd: where a recorded process
    leaves its trace.
    """

    def __init__(self, suite, log, argv, environment, cwd=None):
        self.suite = suite
        self.name = log
        self.ended = False
        self.log = open(suite.logs / f"{log}.stderr.txt", "ab")  # pylint: disable=consider-using-with
        self.process = suite.spawn(
            argv,
            harness.environment_with(environment),
            cwd=cwd or suite.scratch("paced"),
            stdin=subprocess.PIPE,
            stderr=self.log,
        )

    def read(self, timeout):
        if not select.select([self.process.stdout], [], [], max(0.0, timeout))[0]:
            raise Failed(f"{self.name} did not answer within {timeout:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.name} ended: see {self.name}.stderr.txt in the logs")
        try:
            return json.loads(line)
        except ValueError:
            raise Failed(f"{self.name} printed {line!r:.200}") from None

    def ask(self, request, timeout=60):
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Failed(f"{self.name} ended: see {self.name}.stderr.txt in the logs") from None
        return self.read(timeout)

    def ask_to_end(self):
        """Closes the process's standard input, at which it ends by itself."""
        try:
            self.process.stdin.close()
        except OSError:
            pass

    def end(self, timeout=20):
        self.ended = True
        self.ask_to_end()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        self.suite.kill_group(self.process)
        self.process.stdout.close()
        self.process.wait()
        self.suite.forget(self.process)
        self.log.close()


class Paced(Conversation):
    """A paced_blocks.py process."""

    def __init__(self, suite, log, prefix, specification, environment=None):
        argv = [*prefix, suite.python, GPU_TESTS / "paced_blocks.py", json.dumps(specification)]
        # Hash randomization alone moves a host-bound step by tenths of a percent; all sides get the same.
        common = {
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1" if suite.rehearsal else "4",
            "PYTHONWARNINGS": "ignore",
        }
        super().__init__(suite, log, argv, common | (environment or {}))

    def block(self, workload, lead, steps, fetch=False, timeout=60):
        """Seconds that `steps` steps took after `lead` untimed ones."""
        return self.ask({"workload": workload, "lead": lead, "steps": steps, "fetch": fetch}, timeout)["seconds"]

    def trace(self, workload, lead, steps, path, timeout=60):
        """As block, under torch.profiler: what it saw is in the file, and the answer has seconds and moving_seconds."""
        return self.ask({"workload": workload, "lead": lead, "steps": steps, "trace": str(path)}, timeout)

    def profiled(self, workload, lead, steps, what, timeout=120):
        """As block, inside a torch.profiler that watches `what` (paced_blocks.py); the answer has device_events too."""
        return self.ask({"workload": workload, "lead": lead, "steps": steps, "profile": what}, timeout)

    def counted(self, workload, lead, steps, timeout=60):
        """As block, of a process that CUPTI alone is attached to; the answer has the bytes of records that it has given so far."""
        return self.ask({"workload": workload, "lead": lead, "steps": steps, "count": True}, timeout)

    def peak_resident(self, workload):
        """The most bytes of host memory that the process has had so far."""
        return self.ask({"workload": workload, "resident": True})["peak_resident"]

    def report(self, workload, timeout=60):
        """What the workload has to tell besides times."""
        return self.ask({"workload": workload, "report": True}, timeout)


def end_all(processes, timeout=20):
    """Ends many at once, within the time of one."""
    processes = list(processes)
    for process in processes:
        process.ask_to_end()
    deadline = time.monotonic() + timeout
    for process in processes:
        process.end(max(0.1, deadline - time.monotonic()))
