"""clang-tidy on the files that changed, within a time limit, saying what it looked at."""

import concurrent.futures
import json
import pathlib
import re
import shlex
import tempfile
import time

from cases import FAILED, PASSED, SKIPPED, Case
from command import run
from sources import changed

CLANG_TIDY = "clang-tidy-14"
_ONE_FILE_SECONDS = 300
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
_OURS = "policy|cuda|allocator|transfer|tracer|shim|tools|tests"
# GoogleTest's macros multiply the paths through a test: followed to the end, one file of tests took eight minutes, and
# so it takes half of one. What users run is followed to the end.
_SHALLOW = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "mode=shallow")]


def translation_units(build, root):
    """{source: [headers]}, all relative to root: what the build compiles, and what of ours each source includes, at any depth."""
    included = {}

    def includes(path):
        if path not in included:
            included[path] = set()
            found = [pathlib.PurePosixPath(name) for name in _INCLUDE.findall((root / path).read_text(errors="replace"))]
            # Beside the file that names it, or from the root.
            places = [place for name in found for place in (path.parent / name, name)]
            included[path] = {place for place in places if (root / place).is_file() and ".." not in place.parts}
        return included[path]

    units = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if not source.is_relative_to(root) or source.is_relative_to(root / "build"):
            continue
        source = pathlib.PurePosixPath(source.relative_to(root))
        seen, todo = set(), [source]
        while todo:
            for header in includes(todo.pop()) - seen:
                seen.add(header)
                todo.append(header)
        units[source] = sorted(seen)
    return units


def commands_for_clang(build, folder):
    """Writes the build's compile_commands.json into `folder` without GCC's precompiled headers, which clang cannot read."""
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in entries:
        words, kept = shlex.split(entry["command"]), []
        while words:
            word = words.pop(0)
            if word == "-include" and words and words[0].endswith("/cmake_pch.hxx"):
                words.pop(0)
            elif word not in ("-Winvalid-pch", "-fpch-preprocess"):
                kept.append(word)
        entry["command"] = shlex.join(kept)
    (folder / "compile_commands.json").write_text(json.dumps(entries))


def choose(files, units):
    """(sources to check, headers that no source includes).

    A changed header is checked through one source: the one of its own name, else the one that includes least.
    """
    chosen, orphans = [], []
    for file in files:
        if file in units:
            chosen.append(file)
    for file in files:
        if file in units:
            continue
        users = [(source.stem != file.stem, len(headers), str(source), source) for source, headers in units.items()
                 if file in headers]
        if not users:
            orphans.append(file)
        elif not any(user[3] in chosen for user in users):
            chosen.append(min(users)[3])
    return list(dict.fromkeys(chosen)), orphans


def check(build, root, jobs, minutes, note):
    """The leg's cases. `note` is called with lines for the reader."""
    start = time.monotonic()
    try:
        files, since = changed(root)
    except ValueError as error:
        return [Case("tidy", "clang-tidy", FAILED, 0.0, str(error))]
    sources, orphans = choose(files, translation_units(build, root))
    if not sources:
        text = f"nothing to check: {len(files)} C++ files {since}, none in a target of {build}"
        return [Case("tidy", "clang-tidy", FAILED, 0.0, text)]

    deadline = start + 60 * minutes

    def one(source):
        if time.monotonic() > deadline:
            return source, None
        command = [CLANG_TIDY, "--quiet", "-p", commands, f"--header-filter=^{re.escape(str(root))}/({_OURS})/",
                   "--extra-arg=-Wno-unknown-warning-option", *(_SHALLOW if source.parts[0] == "tests" else []),
                   root / source]
        return source, run(command, root, timeout=_ONE_FILE_SECONDS)

    with tempfile.TemporaryDirectory(prefix="slipstream-tidy-") as commands, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        commands_for_clang(build, pathlib.Path(commands))
        results = list(pool.map(one, sources))
    checked = [source for source, result in results if result is not None]
    missed = [source for source, result in results if result is None]
    findings = {}
    for source, result in results:
        if result is not None and result.status != 0:
            # One header's finding comes from every source that includes it.
            for finding in re.split(r"^(?=/\S+:\d+:\d+: )", result.output, flags=re.MULTILINE):
                if re.match(r"/\S+:\d+:\d+: (warning|error)", finding):
                    findings.setdefault(finding.strip(), None)
            if result.timed_out or not findings:
                findings[f"{source}:\n{result.tail()}"] = None

    note(f"{len(checked)} sources for {len(files)} files {since}: {' '.join(map(str, checked))}")
    if orphans:
        note(f"in no target, so not checked: {' '.join(map(str, orphans))}")
    seconds = time.monotonic() - start
    if not checked:
        return [Case("tidy", "clang-tidy", FAILED, seconds, f"{minutes:g} minutes were not enough for one source")]
    text = "\n\n".join(finding.replace(f"{root}/", "") for finding in findings)
    cases = [Case("tidy", "clang-tidy", FAILED if findings else PASSED, seconds, text)]
    if missed:
        reason = f"{len(missed)} sources not reached in {minutes:g} minutes: {' '.join(map(str, missed))}"
        cases.append(Case("tidy", "clang-tidy.rest", SKIPPED, 0.0, reason))
    return cases
