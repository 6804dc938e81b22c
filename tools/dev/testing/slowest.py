"""What took longest: of the tests, and of the sources that were compiled."""

from cases import FAILED

SHOWN = 10
# More than one source may take of a build: on 2 cores the others soon wait for it.
SOURCE_SECONDS = 20
# The same of several that are compiled together.
UNITY_SECONDS = 60


def sources(folder, since):
    """[(seconds, object file)] of what ninja compiled in the build folder after `since` (time.time()), from its own log."""
    try:
        lines = (folder / ".ninja_log").read_text(errors="replace").splitlines()
    except OSError:
        return []
    last = {}
    for line in lines:
        fields = line.split("\t")
        if len(fields) == 5 and fields[3].endswith(".o"):
            last[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    found = []
    for output, seconds in last.items():
        try:
            if (folder / output).stat().st_mtime >= since:
                found.append((seconds, f"{folder.name}: {output.replace('CMakeFiles/', '').replace('.dir/', '/')}"))
        except OSError:
            pass  # not built any more
    return found


def warning(compiled):
    """What to say of sources that took too long, or None. Of `compiled` as sources() gives them."""
    slow = sorted((each for each in compiled if each[0] > (UNITY_SECONDS if "/Unity/" in each[1] else SOURCE_SECONDS)), reverse=True)
    if not slow:
        return None
    named = ", ".join(f"{name.split(': ', 1)[1]} {seconds:.0f} s" for seconds, name in slow[:SHOWN])
    more = f" and {len(slow) - SHOWN} more" if len(slow) > SHOWN else ""
    return f"WARNING: {len(slow)} of {len(compiled)} sources took more than {SOURCE_SECONDS} s to compile (several together {UNITY_SECONDS} s): {named}{more}"


def lines(cases, compiled):
    """For the end of a run; nothing where there is nothing that took time."""
    tests = [(case.seconds, f"{case.leg}: {case.name}") for case in cases if case.seconds > 0 and case.outcome != FAILED]
    text = []
    for title, found in (("slowest tests", tests), ("slowest sources", compiled)):
        if found:
            text.append(f"{title} (seconds):")
            text += [f"  {seconds:7.1f}  {name}" for seconds, name in sorted(found, reverse=True)[:SHOWN]]
    return text
