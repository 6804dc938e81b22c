"""Runs differential_runner and says how two runs differ."""

import os
import pathlib
import select
import signal
import subprocess
import tempfile

NOT_DETERMINED = 3  # the runner's exit status for a program that the model refuses


class RunnerError(Exception):
    """The test itself cannot run."""


def existing(library):
    """Its path. The loader passes over a library that is not there, and the test would have tested nothing."""
    path = pathlib.Path(library).absolute()
    if not path.is_file():
        raise RunnerError(f"{library}: no such library")
    return path


class Outcome:
    """What one process did."""

    def __init__(self, kind, status, lines, errors):
        self.kind = kind  # finished, crashed, hung, refused
        self.status = status
        self.lines = lines  # a line for each program
        self.errors = errors

    def describe(self, index=None):
        if self.kind == "finished":
            return "it observed something else"
        said = self.errors.strip().splitlines()
        after = f" ({said[-1]})" if said else ""
        if index is not None and index < len(self.lines):
            return "it observed something else"
        if self.kind == "hung":
            return "no sign of life"
        if self.status is not None and self.status < 0:
            return f"ended by {signal.Signals(-self.status).name}{after}"
        return f"exit status {self.status}{after}"

    def tail(self):
        return [f"#   {line}" for line in self.errors.strip().splitlines()[-40:]]


class Variant:
    """One way to run programs."""

    def __init__(self, name, runner, environment, watchdog, preload=None, sim_seed=0, beside=None):
        self.name = name
        self.runner = runner
        self.environment = environment
        self.watchdog = watchdog
        self.preload = preload
        self.sim_seed = sim_seed
        self.beside = beside  # another library that is preloaded, too, and whether in front

    def with_sim_seed(self, sim_seed):
        name = f"{self.name}, " if self.preload else ""
        return Variant(f"{name}another order of the device ({sim_seed})", self.runner, self.environment, self.watchdog,
                       self.preload, sim_seed, self.beside)

    def with_preload(self, library, environment):
        path = existing(library)
        return Variant(path.name, self.runner, {**self.environment, **environment}, self.watchdog, path, self.sim_seed,
                       self.beside)

    def with_watchdog(self, seconds):
        return Variant(self.name, self.runner, self.environment, seconds, self.preload, self.sim_seed,
                       self.beside)

    def run(self, source, variables=None):
        """Runs the programs of `source` (arguments for the runner) in one process."""
        environment = {**os.environ, **self.environment, **(variables or {})}
        preloaded = [self.preload] if self.preload else []
        if self.beside:
            library, in_front = self.beside
            preloaded.insert(0 if in_front else len(preloaded), library)
        if preloaded:
            environment["LD_PRELOAD"] = ":".join(map(str, preloaded))
        command = [str(self.runner), *map(str, source), "--sim-seed", str(self.sim_seed)]
        if not self.preload and "--trace" not in source:
            command.append("--strict")
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                           env=environment)
            except OSError as error:
                raise RunnerError(f"{self.runner}: {error.strerror}") from error
            data = bytearray()
            hung = False
            while True:
                ready, _, _ = select.select([process.stdout], [], [], self.watchdog)
                if not ready:
                    hung = True
                    process.kill()
                    break
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    break
                data += piece
            process.stdout.close()
            try:
                status = process.wait(timeout=self.watchdog)
            except subprocess.TimeoutExpired:
                hung = True
                process.kill()
                status = process.wait()
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        # The last line may be a part of one.
        lines = data.decode(errors="replace").split("\n")[:-1]
        if hung:
            kind = "hung"
        elif status == 0:
            kind = "finished"
        elif status == NOT_DETERMINED:
            kind = "refused"
        else:
            kind = "crashed"
        return Outcome(kind, status, lines, said)

    def print_programs(self, family, seed, count):
        command = [str(self.runner), "--family", family, "--seed", str(seed), "--count", str(count), "--print"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self.environment})
        if done.returncode != 0:
            raise RunnerError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout


def first_difference(expected, got):
    """The index of the first program that was not the same, or None."""
    for index, line in enumerate(expected.lines):
        if index >= len(got.lines) or got.lines[index] != line:
            return index
    # It can also end badly after the last program.
    return None if got.kind == "finished" else len(expected.lines) - 1


class Comparison:
    def __init__(self, kind, outcomes):
        self.kind = kind  # same, refused, differs, crashed, hung
        self.outcomes = outcomes

    def first_lines(self):
        """What the two say where they first differ."""
        ours, theirs = (outcome.lines for outcome in self.outcomes)
        for index in range(max(len(ours), len(theirs))):
            one = ours[index] if index < len(ours) else None
            other = theirs[index] if index < len(theirs) else None
            if one != other:
                result = [f"bare:  {one.strip() if one else 'nothing'}"]
                result.append(f"under: {other.strip() if other else self.outcomes[1].describe()}")
                return result
        return [self.outcomes[1].describe()]

    def commented(self, which):
        outcome = self.outcomes[which]
        lines = [f"#   {line}" for line in outcome.lines]
        if outcome.kind != "finished":
            lines += [f"#   {outcome.describe()}", *outcome.tail()]
        return "\n".join(lines)


def compare(bare, other, text, scratch, trace=False):
    """Runs the programs of a text both ways."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", dir=scratch, delete=False) as file:
        file.write(text)
    source = ["--program", file.name] + (["--trace"] if trace else [])
    try:
        expected = bare.run(source)
        if expected.kind != "finished":
            return Comparison("refused", [expected, expected])
        got = other.run(source)
    finally:
        os.unlink(file.name)
    if got.kind in ("crashed", "hung"):
        return Comparison(got.kind, [expected, got])
    return Comparison("same" if expected.lines == got.lines else "differs", [expected, got])
