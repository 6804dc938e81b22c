#!/usr/bin/env python3
"""The wheel on other distributions: in a root of its own, made of that distribution's packages, by a user who is not root.

    distributions.py bullseye|bookworm|trixie [--keep DIR]

In the root are Python, pip, man and no compiler. There the two wheels are installed into a virtual environment; `slipstream --version`,
`doctor`, the demo's program bare and under slipstream, a recorded run with its report, and `python -m slipstream` are run; then they are
uninstalled. Then the deb and the rpm are installed there, one after the other, tried, and removed; nothing of them may stay. --keep uses
the root in DIR, and makes it there where there is none. Needs root, debootstrap and Debian's mirror.

Exit status: 0 all went well; 1 something did not; 77 the root cannot be made here.
"""

import argparse
import os
import pathlib
import re
import shutil
import sys
import tempfile

from support import NOBODY, SKIPPED, run, the

PACKAGES = "python3,python3-venv,man-db"
# What a package manager keeps for itself, and what man makes anew.
KEPT = re.compile(r"(var/lib/(dpkg|rpm)|var/cache|var/log|proc|dev|srv|tmp|root|usr/lib/sysimage)(/|$)")


class Wrong(Exception):
    pass


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def must(done, what):
    if done.returncode != 0:
        raise Wrong(f"{what}: exit status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def make_root(suite, folder):
    if (folder / "usr" / "bin" / "python3").exists() and (folder / "usr" / "bin" / "man").exists():
        return
    done = run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, folder)
    if done.returncode != 0:
        skip(f"debootstrap could not make {suite}: {done.stdout.splitlines()[-1:]}{done.stderr.splitlines()[-1:]}")


class Inside:
    """Commands in the root, by a user without a name or by root, with nothing of this machine's environment."""

    def __init__(self, root, user=NOBODY):
        self._root = root
        self._user = user

    def __call__(self, script):
        return run("chroot", f"--userspec={self._user}:{self._user}", self._root, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin:/usr/sbin:/sbin",
                   "HOME=/srv/user", "LC_ALL=C.UTF-8", "sh", "-c", script)

    def must(self, script):
        return must(self(script), script)

    def glibc(self):
        return tuple(map(int, self.must("getconf GNU_LIBC_VERSION").stdout.split()[1].split(".")))


def expect(pattern, text, what):
    if not re.search(pattern, text, re.MULTILINE):
        raise Wrong(f"{what}: nothing like {pattern!r} in\n{text}")


def try_wheels(root, wheel, demo):
    home = root / "srv" / "user"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    shutil.copy(wheel, home)
    shutil.copy(demo, home)
    for path in [home, *home.rglob("*")]:
        shutil.chown(path, NOBODY, NOBODY)
    inside = Inside(root)
    print(inside.must("ldd --version | head -n 1; python3 --version").stdout, end="")
    if inside("command -v cc gcc g++ clang").returncode == 0:
        raise Wrong("there is a compiler")

    inside.must(f"cd && python3 -m venv env && find env | sort > before && env/bin/pip install --no-index {wheel.name} {demo.name}")
    expect(r"^slipstream [0-9.]+ \(commit ", inside.must("~/env/bin/slipstream --version").stdout, "--version")
    expect(r"^slipstream [0-9.]+ \(commit ", inside.must("~/env/bin/python -m slipstream --version").stdout, "python -m")
    inside.must('test "$(~/env/bin/slipstream --version | cut -d" " -f2)" = '
                '"$(~/env/bin/python -c "import slipstream; print(slipstream.__version__)")"')

    loop = "~/env/libexec/slipstream-demo/train_loop"
    doctor = inside(f"~/env/bin/slipstream doctor -- {loop}")
    expect(r"^  process +train_loop \(pid \d+\): \d+ hooked calls$", doctor.stdout, "doctor")
    print(doctor.stdout, end="")
    bare = inside.must(loop).stdout
    under = inside.must(f"~/env/bin/slipstream run -- {loop}")
    losses = re.findall(r"loss [\d.]+|weights [0-9a-f]+", bare)
    if len(losses) < 20 or losses != re.findall(r"loss [\d.]+|weights [0-9a-f]+", under.stdout):
        raise Wrong(f"other losses under slipstream:\n{bare}\n{under.stdout}")
    expect(r"^  cudaLaunchKernel +[1-9]", under.stderr, "the summary")
    expect(r"copies? promoted|promoted", under.stderr, "the summary")
    recorded = inside.must(f"cd && SLIPSTREAM_TRACER_STACKS=full ~/env/bin/slipstream run --record -- {loop} && "
                           "~/env/bin/slipstream report slipstream-trace-*")
    expect(r"A STEP of", recorded.stdout, "report")
    facts = inside.must("cd && env/bin/slipstream export slipstream-trace-* --sqlite facts.sqlite >/dev/null && python3 -c 'import sqlite3; "
                        "print(*sqlite3.connect(\"facts.sqlite\").execute(\"SELECT * FROM SLIPSTREAM_FACTS\"), sep=chr(10))'").stdout
    # Without what glibc 2.35 brought native stacks are off, and the trace says so.
    said = re.search(r"native_stacks', 'off: .*glibc 2\.35", facts)
    if bool(said) != (inside.glibc() < (2, 35)):
        raise Wrong(f"of native stacks, the trace says:\n{facts}")
    print(under.stderr, end="")

    inside.must("cd && env/bin/pip uninstall --yes slipstream slipstream-demo && find env | sort > after")
    # Python's own compiled files of pip may come; nothing of slipstream's stays.
    if left := inside("cd && grep -i slipstream after").stdout:
        raise Wrong(f"uninstalled, and still there:\n{left}")
    print("the wheels: all as expected")


def files_of(root):
    found = set()
    for folder, folders, files in os.walk(root):
        place = pathlib.Path(folder).relative_to(root)
        folders[:] = [name for name in folders if not KEPT.match(str(place / name))]  # processes come and go in proc
        found |= {str(place / name) for name in (*folders, *files) if not KEPT.match(str(place / name))}
    return found


def try_package(root, name, install, remove):
    """A package below /usr: it runs, man finds its pages, and removed it leaves nothing."""
    before = files_of(root)
    install()
    inside = Inside(root)
    expect(r"^slipstream [0-9.]+ \(commit ", inside.must("slipstream --version").stdout, "--version")
    expect(r"^  library +/usr/libexec/libslipstream.so", inside("slipstream doctor").stdout, "doctor")
    done = inside.must("slipstream run -- true")
    expect("it made no CUDA call", done.stderr, "run -- true")
    expect("^What slipstream changes", inside.must("slipstream help effects").stdout, "help")
    expect("^/usr/share/man/man1/slipstream.1$", inside.must("man -w slipstream").stdout, "man -w")
    inside.must("test -s /usr/share/bash-completion/completions/slipstream")
    remove()
    if left := files_of(root) - before:
        raise Wrong(f"{name}: removed, and still there: {sorted(left)}")
    print(f"{name}: all as expected")


def try_packages(root):
    as_root = Inside(root, user=0)
    deb = the("slipstream_*.deb")
    shutil.copy(deb, root / "tmp" / "slipstream.deb")
    try_package(root, deb.name, lambda: as_root.must("dpkg --install /tmp/slipstream.deb"), lambda: as_root.must("dpkg --purge slipstream"))
    if shutil.which("rpm") is None:
        print("no rpm here: not tried")
        return
    rpm = the("slipstream-*.rpm")
    database = ["rpm", "--root", root, "--dbpath", "/var/lib/rpm"]
    # What it needs is there, as packages of another kind: test_packages.py looks at their names.
    try_package(root, rpm.name, lambda: must(run(*database, "--install", "--nodeps", rpm), "rpm --install"),
                lambda: must(run(*database, "--erase", "slipstream"), "rpm --erase"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR")
    options = parser.parse_args()
    wheel, demo = the("slipstream-*.whl"), the("slipstream_demo-*.whl")
    if run("id", "-u").stdout.strip() != "0":
        skip("only root can make a root")
    if shutil.which("debootstrap") is None:
        skip("debootstrap is not here")
    folder = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="slipstream-root-"))
    try:
        make_root(options.suite, folder)
        folder.chmod(0o755)
        for name, target in (("proc", "/proc"), ("dev", "/dev")):
            must(run("mount", "--rbind", target, folder / name), "mount")
        try:
            must(run("chmod", "1777", folder / "tmp"), "chmod")
            try_wheels(folder, wheel, demo)
            try_packages(folder)
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
