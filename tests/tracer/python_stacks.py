#!/usr/bin/env python3
"""Runs python_stack_cases.py on every CPython there is: python3.8 to python3.16 and python3 on PATH, and what
SLIPSTREAM_TEST_PYTHONS names (commands, separated by colons).

    python_stacks.py PROBE [--host HOST] [--sanitizer LIBRARY]

A Python that is supported must have its stacks compared; one that is not must be seen to give none, and the right reason.
Fails when there was no supported one to run.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

NAMES = [f"python3.{minor}" for minor in range(8, 17)] + ["python3"]
SUPPORTED = range(9, 16)
CASES = pathlib.Path(__file__).resolve().parent / "python_stack_cases.py"
SECONDS = 150  # a run; it takes 5 to 10
LEAST = 5000  # stacks a Python; the cases compare more
ASK = """
import json, os, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]), "text": sys.version.split()[0], "kind": sys.implementation.name,
    "flags": getattr(sys, "abiflags", ""), "free": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "prefix": sys.base_prefix, "executable": sys.executable, "level": sys.version_info.releaselevel,
    "library": os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "-")}))
"""


def reason_for_none(facts):
    """Why this Python should give no stacks; None: it should give them."""
    if facts["kind"] != "cpython":
        return "no_python"
    if facts["version"][0] != 3 or facts["version"][1] not in SUPPORTED or facts["level"] in ("alpha", "beta"):
        return "unknown_version"
    if "d" in facts["flags"]:
        return "debug_build"
    return "free_threaded" if facts["free"] else None


def ask(command):
    """What a Python says of itself; None where it does not run."""
    try:
        ran = subprocess.run([command, "-c", ASK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
        return json.loads(ran.stdout) if ran.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def pythons():
    """[(command, facts)], each Python once, and the names of those that are not here."""
    found, absent, seen = [], [], set()
    for name in NAMES + [name for name in os.environ.get("SLIPSTREAM_TEST_PYTHONS", "").split(":") if name]:
        command = shutil.which(name)
        facts = ask(command) if command else None
        if facts is None:
            absent.append(name)
            continue
        key = (facts["text"], facts["flags"], facts["prefix"])
        if key not in seen:
            seen.add(key)
            found.append((command, facts))
    return found, absent


class Run:
    def __init__(self, options):
        self.options = options
        self.failures = 0

    def environment(self, **more):
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", PYTHONFAULTHANDLER="1", **more)
        if self.options.sanitizer:
            environment.update(LD_PRELOAD=self.options.sanitizer, ASAN_OPTIONS="detect_leaks=0")
        return environment

    def run(self, name, command, expected, **environment):
        """`expected` is a pattern for the whole output. Returns the match."""
        process = subprocess.Popen([str(word) for word in command], env=self.environment(**environment), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            output = process.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children have the same output
            output = process.communicate()[0] + f"\nnot done after {SECONDS} s"
        match = re.fullmatch(expected, output, re.DOTALL)
        if process.returncode != 0 or match is None:
            self.failures += 1
            print(f"FAILED {name}: exit status {process.returncode}\n{output[-4000:]}", flush=True)
            return None
        return match

    def all_of(self, command, facts):
        name = f"{command}: CPython {facts['text']}{facts['flags']}"
        reason = reason_for_none(facts)
        cases = [command, "-X", "utf8", CASES, self.options.probe]
        if reason is not None:
            if self.run(name, [*cases, "off", reason], f".*off {reason}\n"):
                print(f"{name}: none, as it should be: {reason}", flush=True)
            return False
        match = self.run(name, [*cases, "compare"], r".*\nstacks (\d+)\n")
        if match is None:
            return True
        if int(match.group(1)) < LEAST:
            self.failures += 1
            print(f"FAILED {name}: {match.group(1)} stacks are too few")
        self.run(f"{name}, ending", [*cases, "exit"],
                 "while_ending not_initialized\nafter_exit not_initialized\nthread_after_exit not_initialized\n")
        hosted = "no shared library of it to load"
        if self.options.host and pathlib.Path(facts["library"]).is_file() and ".so" in facts["library"]:
            self.run(f"{name}, loaded by a program", [self.options.host, facts["library"]],
                     r"before: no_python\nloaded: not_initialized\n"
                     r"<string>:3 \(inner\) <string>:5 \(outer\) <string>:6 \(<module>\)\nended: not_initialized\n",
                     PYTHONHOME=facts["prefix"])
            hosted = "also when a program loads it"
        print(f"{name}: {match.group(1)} stacks; {hosted}", flush=True)
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe", type=pathlib.Path)
    parser.add_argument("--host", type=pathlib.Path)
    parser.add_argument("--sanitizer")
    run = Run(parser.parse_args())
    found, absent = pythons()
    supported = sum([run.all_of(command, facts) for command, facts in found])
    print(f"absent: {' '.join(absent) or 'none'}")
    if supported == 0:
        run.failures += 1
        print("FAILED: there was no supported Python to run")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
