#!/usr/bin/env python3
"""Packs what the group `samples` of the GPU suite needs of NVIDIA's cuda-samples, for a machine without a network.

    tests/gpu/pack_samples.py REPOSITORY OUT.tar.gz

REPOSITORY is a clone of it, bare or not; its HEAD counts. There: tar xf OUT.tar.gz, and --samples cuda-samples.
Exit status: 0 packed, 1 something is missing in the repository, 2 wrong usage.
"""

import argparse
import gzip
import io
import pathlib
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

from suite import samples  # noqa: E402

TOP = "cuda-samples"
TEXT = (".cu", ".cpp", ".cuh", ".h", ".hpp")


def git(repository, *arguments):
    return subprocess.run(["git", "-C", repository, *arguments], stdout=subprocess.PIPE, check=True).stdout


def wanted(path):
    """Sources of the samples that are run, the headers that they share, and the license of both."""
    parts = pathlib.PurePosixPath(path)
    if path == "LICENSE":
        return True
    if parts.suffix not in TEXT:
        return False
    return str(parts.parent) == "Common" or any(str(parts.parent) == f"Samples/{s.folder}" for s in samples.SAMPLES)


def pack(repository, out):
    names = [
        name for name in git(repository, "ls-tree", "-r", "--name-only", "-z", "HEAD").decode().split("\0") if name
    ]
    chosen = sorted(filter(wanted, names))
    folders = {str(pathlib.PurePosixPath(name).parent) for name in chosen}
    if missing := [f"Samples/{s.folder}" for s in samples.SAMPLES if f"Samples/{s.folder}" not in folders]:
        raise LookupError(f"{repository} has no {', no '.join(missing)}")
    # No times and no owners: the same commit makes the same archive.
    with gzip.GzipFile(out, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name in chosen:
            data = git(repository, "show", f"HEAD:{name}")
            entry = tarfile.TarInfo(f"{TOP}/{name}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return len(chosen)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", help="a clone of cuda-samples")
    parser.add_argument("out", help="the archive to write")
    options = parser.parse_args()
    try:
        number = pack(options.repository, options.out)
    except (subprocess.CalledProcessError, LookupError, OSError) as error:
        print(f"pack_samples: {error}", file=sys.stderr)
        return 1
    print(f"{number} files, {pathlib.Path(options.out).stat().st_size >> 10} KiB: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
