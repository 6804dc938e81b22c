"""Runs one command, keeping what it prints."""

import dataclasses
import os
import shlex
import signal
import subprocess
import time


@dataclasses.dataclass
class Result:
    """`status` is the exit status; a negative one is the signal that ended it, and a time-out reads as -SIGKILL."""

    command: list
    status: int
    output: str
    seconds: float
    timed_out: bool = False

    def tail(self, lines=60):
        """The command and the end of what it printed, for a report of its failure."""
        kept = self.output.splitlines()
        cut = [] if len(kept) <= lines else [f"... {len(kept) - lines} lines before this"]
        command = shlex.join(map(str, self.command))
        if len(command) > 300:
            command = command[:300] + " ..."
        end = "ran out of time" if self.timed_out else f"exit status {self.status}"
        return "\n".join(["$ " + command, *cut, *kept[-lines:], end])


def run(command, cwd, environment=None, timeout=None, log=None):
    """Runs `command` in a process group of its own, so that a time-out or an interrupt ends all it started.

    `log`, a path, gets everything it printed. A program that is not there gives status 127, as in a shell.
    """
    start = time.monotonic()
    timed_out = False
    try:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Result(command, 127, f"{command[0]}: {error.strerror}\n", 0.0)
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    if log is not None:
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a") as file:
                file.write(f"$ {shlex.join(map(str, command))}\n{output}exit status {process.returncode}\n")
        except OSError:
            pass  # somebody else's build folder; the result stands without its log
    return Result(command, process.returncode, output, time.monotonic() - start, timed_out)
