"""Brings packages with pip for an interpreter that need not have pip itself."""

import datetime
import os
import re
import subprocess
import sys


class CannotTry(Exception):
    """There is nothing to say about a version, because it could not be brought or started."""


def bring(target, packages, python_version, scratch, free_threaded=False):
    """Installs them, and nothing that they need, into the folder. `python_version`: as in "3.9"."""
    scratch.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--no-cache-dir", "--only-binary=:all:",
               "--python-version", python_version, "--implementation", "cp", "--target", target, *packages]
    if free_threaded:
        command += ["--abi", f"cp{python_version.replace('.', '')}t", "--abi", "none"]
    # pip unpacks there first, and then only renames.
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(scratch)}, capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise CannotTry(f"pip could not bring {' '.join(packages)} for Python {python_version}: {lines[-1] if lines else ''}")


def of_build(build):
    """What of slipstream was run, and when."""
    commit = build / "COMMIT"
    return {"commit": commit.read_text().strip()[:12] if commit.exists() else None,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")}


def soname_runtime(cuda):
    """The SONAME of CUDA's runtime, of a version such as "12.1"."""
    return f"libcudart.so.{cuda.partition('.')[0]}"


def parsed_version_file(text):
    """(version, CUDA) of torch/version.py; CUDA is None for a wheel without."""
    version = re.search(r"^__version__ = '(.+?)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda[^=]*= '(.+?)'", text, re.MULTILINE)
    if version is None:
        raise CannotTry("torch/version.py has no version")
    return version[1], cuda[1] if cuda else None


def python_facts(python):
    """What an interpreter says of itself: version, implementation, whether it is free-threaded or a debug build, its path."""
    script = ("import platform, sys, sysconfig; print(platform.python_version()); print(platform.python_implementation());"
              "print(int(bool(sysconfig.get_config_var('Py_GIL_DISABLED')))); print(int(hasattr(sys, 'gettotalrefcount')));"
              "print(sys.executable)")
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotTry(f"{python} does not run: {error}") from error
    version, implementation, free_threaded, debug, path = done.stdout.split("\n")[:5]
    return {"version": version, "implementation": implementation, "free_threaded": free_threaded == "1", "debug": debug == "1",
            "path": path}
