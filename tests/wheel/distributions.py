#!/usr/bin/env python3
"""The wheel on other distributions: in a root of its own, made of that distribution's packages, by a user who is not root.

    distributions.py bullseye|bookworm|trixie [--keep DIR]

In the root are Python, pip and no compiler. There the wheel is installed into a virtual environment; `slipstream --version`,
`doctor`, the demo's program bare and under slipstream, a recorded run with its report, and `python -m slipstream` are run; then it is
uninstalled. The simulated device and the program are compiled for the old C library too (build/wheel-demo). --keep uses the root in
DIR, and makes it there where there is none. Needs root, debootstrap and Debian's mirror.

Exit status: 0 all went well; 1 something did not; 77 the root cannot be made here.
"""

import argparse
import pathlib
import re
import shutil
import sys
import tempfile

from support import NOBODY, ROOT, SKIPPED, run, the

DEMO = ROOT / "build" / "wheel-demo"
PACKAGES = "python3,python3-venv"


class Wrong(Exception):
    pass


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def must(done, what):
    if done.returncode != 0:
        raise Wrong(f"{what}: exit status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def build_demo():
    """The simulated device and the demo's program, for as old a C library as the wheel is for."""
    toolchain = ROOT / "tools" / "dev" / "cmake" / "Manylinux.cmake"
    must(run("cmake", "-S", ROOT, "-B", DEMO, "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_BUILD_TYPE=Release",
             "-DSLIPSTREAM_BUILD_BENCHMARKS=OFF", "-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu"), "cmake")
    must(run("ninja", "-C", DEMO, "sim_libcudart13", "sim_libcupti", "train_loop"), "ninja")


def make_root(suite, folder):
    if (folder / "usr" / "bin" / "python3").exists():
        return
    done = run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, folder)
    if done.returncode != 0:
        skip(f"debootstrap could not make {suite}: {done.stdout.splitlines()[-1:]}{done.stderr.splitlines()[-1:]}")


class Inside:
    """Commands in the root, by a user without a name, with nothing of this machine's environment."""

    def __init__(self, root):
        self._root = root

    def __call__(self, script):
        return run("chroot", f"--userspec={NOBODY}:{NOBODY}", self._root, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin",
                   "HOME=/srv/user", "LC_ALL=C.UTF-8", "sh", "-c", script)

    def must(self, script):
        return must(self(script), script)

    def glibc(self):
        return tuple(map(int, self.must("getconf GNU_LIBC_VERSION").stdout.split()[1].split(".")))


def expect(pattern, text, what):
    if not re.search(pattern, text, re.MULTILINE):
        raise Wrong(f"{what}: nothing like {pattern!r} in\n{text}")


def try_it(root, wheel):
    home = root / "srv" / "user"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(DEMO / "sim", home / "demo" / "sim")
    shutil.copytree(DEMO / "examples", home / "demo" / "examples", ignore=shutil.ignore_patterns("CMakeFiles"))
    shutil.copy(wheel, home)
    for path in [home, *home.rglob("*")]:
        shutil.chown(path, NOBODY, NOBODY)
    inside = Inside(root)
    print(inside.must("ldd --version | head -n 1; python3 --version").stdout, end="")
    if inside("command -v cc gcc g++ clang").returncode == 0:
        raise Wrong("there is a compiler")

    inside.must(f"cd && python3 -m venv env && find env | sort > before && env/bin/pip install --no-index {wheel.name}")
    expect(r"^slipstream [0-9.]+ \(commit ", inside.must("~/env/bin/slipstream --version").stdout, "--version")
    expect(r"^slipstream [0-9.]+ \(commit ", inside.must("~/env/bin/python -m slipstream --version").stdout, "python -m")
    inside.must('test "$(~/env/bin/slipstream --version | cut -d" " -f2)" = '
                '"$(~/env/bin/python -c "import slipstream; print(slipstream.__version__)")"')

    simulated = "export LD_LIBRARY_PATH=$HOME/demo/sim; "
    doctor = inside(simulated + "~/env/bin/slipstream doctor -- ~/demo/examples/train_loop")
    expect(r"^  process +train_loop \(pid \d+\): \d+ hooked calls$", doctor.stdout, "doctor")
    print(doctor.stdout, end="")
    bare = inside.must(simulated + "~/demo/examples/train_loop").stdout
    under = inside.must(simulated + "~/env/bin/slipstream run -- ~/demo/examples/train_loop")
    losses = re.findall(r"loss [\d.]+|weights [0-9a-f]+", bare)
    if len(losses) < 20 or losses != re.findall(r"loss [\d.]+|weights [0-9a-f]+", under.stdout):
        raise Wrong(f"other losses under slipstream:\n{bare}\n{under.stdout}")
    expect(r"^  cudaLaunchKernel +[1-9]", under.stderr, "the summary")
    expect(r"copies? promoted|promoted", under.stderr, "the summary")
    recorded = inside.must(simulated + "cd && SLIPSTREAM_TRACER_STACKS=full ~/env/bin/slipstream run --record -- "
                                       "~/demo/examples/train_loop && ~/env/bin/slipstream report slipstream-trace-*")
    expect(r"A STEP of", recorded.stdout, "report")
    facts = inside.must("cd && env/bin/slipstream export slipstream-trace-* --sqlite facts.sqlite >/dev/null && python3 -c 'import sqlite3; "
                        "print(*sqlite3.connect(\"facts.sqlite\").execute(\"SELECT * FROM SLIPSTREAM_FACTS\"), sep=chr(10))'").stdout
    # Without what glibc 2.35 brought native stacks are off, and the trace says so.
    said = re.search(r"native_stacks', 'off: .*glibc 2\.35", facts)
    if bool(said) != (inside.glibc() < (2, 35)):
        raise Wrong(f"of native stacks, the trace says:\n{facts}")
    print(under.stderr, end="")

    inside.must("cd && env/bin/pip uninstall --yes slipstream && find env | sort > after")
    # Python's own compiled files of pip may come; nothing of slipstream's stays.
    if left := inside("cd && grep -i slipstream after").stdout:
        raise Wrong(f"uninstalled, and still there:\n{left}")
    print("all as expected")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR")
    options = parser.parse_args()
    wheel = the("slipstream-*.whl")
    if run("id", "-u").stdout.strip() != "0":
        skip("only root can make a root")
    if shutil.which("debootstrap") is None:
        skip("debootstrap is not here")
    build_demo()
    folder = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="slipstream-root-"))
    try:
        make_root(options.suite, folder)
        folder.chmod(0o755)
        for name, target in (("proc", "/proc"), ("dev", "/dev")):
            must(run("mount", "--rbind", target, folder / name), "mount")
        try:
            must(run("chmod", "1777", folder / "tmp"), "chmod")
            try_it(folder, wheel)
        finally:
            for name in ("dev", "proc"):
                run("umount", "--recursive", "--lazy", folder / name)
    except Wrong as wrong:
        sys.exit(f"{options.suite}: {wrong}")
    finally:
        if options.keep is None and not (folder / "proc" / "self").exists() and not (folder / "dev" / "null").is_char_device():
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
