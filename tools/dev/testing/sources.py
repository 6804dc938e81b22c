"""Which files are ours, and which of them changed."""

import os
import pathlib
import subprocess

CPP_SUFFIXES = (".h", ".hpp", ".c", ".cc", ".cpp", ".cu")


def _git(root, *arguments):
    """What git prints, or None where it cannot answer (no git, no checkout, no such commit)."""
    try:
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, errors="replace")
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def tracked(root):
    """Every tracked file and every new one that git does not ignore, relative to `root`.

    Without git (a source archive): every file outside build/ and results/.
    """
    listing = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listing is not None:
        names = [name for name in listing.split("\0") if name]
    else:
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in ("build", "results", ".git", "__pycache__")]
            names += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return [pathlib.PurePosixPath(name) for name in sorted(set(names)) if (pathlib.Path(root) / name).is_file()]


def is_cpp(path):
    return path.suffix in CPP_SUFFIXES


def _differing(root, commit):
    """C++ files that differ between `commit` and the working tree, new files included."""
    names = (_git(root, "diff", "--name-only", "--diff-filter=d", commit) or "").splitlines()
    names += (_git(root, "ls-files", "--others", "--exclude-standard") or "").splitlines()
    return [path for path in map(pathlib.PurePosixPath, dict.fromkeys(names)) if is_cpp(path)]


def changed(root, at_least=12, furthest=200):
    """(C++ files that changed, since when, in words).

    Since CI_BASE where that is set; else since the branch left origin/main or main; on main itself since as many
    commits back as it takes to have `at_least` files, so that the answer is empty only if nothing is C++.
    """
    head = _git(root, "rev-parse", "HEAD")
    if head is None:
        return [path for path in tracked(root) if is_cpp(path)], "all of them: there is no git history here"
    named = os.environ.get("CI_BASE")
    if named:
        base = _git(root, "merge-base", "HEAD", named)
        if base is None:
            raise ValueError(f"CI_BASE is {named!r}, and git knows no commit of that name in common with HEAD")
        files = _differing(root, base)
        if files:
            return files, f"changed since {named}"
    for branch in ("origin/main", "main"):
        base = None if named else _git(root, "merge-base", "HEAD", branch)
        if base and base != head:
            files = _differing(root, base)
            if files:
                return files, f"changed since {branch}"
    commits = (_git(root, "rev-list", "--first-parent", f"--max-count={furthest}", "HEAD") or "").splitlines()
    files = []
    for back, commit in enumerate(commits[1:], 1):
        files = _differing(root, commit)
        if len(files) >= at_least:
            return files, f"changed in the last {back} commit{'s' if back > 1 else ''}"
    return [path for path in tracked(root) if is_cpp(path)], "all of them: the history is short"
