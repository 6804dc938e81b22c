"""What the tests of the wheel share: the files that tools/wheel made, a built simulated device, and how to run things."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIST = pathlib.Path(os.environ.get("SLIPSTREAM_DIST", ROOT / "build" / "dist"))
# A prepared build folder: the simulated CUDA and the demo's program are taken from there, slipstream is not.
BUILD = pathlib.Path(os.environ.get("SLIPSTREAM_BUILD", ROOT / "build" / "release"))
SKIPPED = 77
# As whom programs run that must not be root's. Any number without a name will do.
NOBODY = 54321


def the(pattern):
    """The one file that tools/wheel made of this pattern. Without one nothing is tested."""
    found = sorted(DIST.glob(pattern))
    if len(found) != 1:
        print(f"{len(found)} files are {DIST}/{pattern}: tools/wheel makes one", file=sys.stderr)
        sys.exit(SKIPPED)
    return found[0]


def clean_environment(**more):
    """Without what would make another slipstream, Python or CUDA be used; at home in HOME, which is made once."""
    dropped = ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_USER")
    kept = {name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("SLIPSTREAM_")}
    of_pip = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    return {**kept, **of_pip, **more}


def run(*command, environment=None, as_user=None, **options):
    words = [str(word) for word in command]
    if as_user is not None:
        words = ["setpriv", f"--reuid={as_user}", f"--regid={as_user}", "--clear-groups", *words]
    return subprocess.run(words, env=environment or clean_environment(), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300, check=False, **options)


def tree(folder):
    """Every path below it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


class WheelTest(unittest.TestCase):
    """A test with a folder of its own, whose path has a space."""

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="slipstream wheel "))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.scratch.chmod(0o755)

    def succeeds(self, *command, **options):
        done = run(*command, **options)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done

    def runs(self, slipstream, **options):
        """That an installed slipstream finds its library and counts the calls of a program that makes some."""
        environment = clean_environment(LD_LIBRARY_PATH=str(BUILD / "sim"))
        done = self.succeeds(slipstream, "run", "--", BUILD / "examples" / "train_loop", environment=environment, **options)
        self.assertRegex(done.stderr, r"cudaLaunchKernel +[1-9]")
        return done
