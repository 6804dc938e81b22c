"""Where each target of docs/targets.md stands: what its checks came to, in the newest results that have any of them."""

import fnmatch
import re

from .checks import OUTCOMES, outcomes
from .markdown import Unusable, table

ROW = re.compile(r"^\| (T\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
CHECK = re.compile(r"`([a-z_]+\.[\w.*]+)`")  # a pattern of names; not a file of tools/
LONGEST = 150
MOST_BY_NAME = 4  # more checks of one pattern are counted


def newest_with(measured, pattern):
    """(section, its checks of that name), or None."""
    for name, results in sorted(measured.items(), key=lambda item: item[1]["date"], reverse=True):
        checks = [check for check in results["checks"] if fnmatch.fnmatchcase(check["name"], pattern)]
        if checks:
            return name, checks
    return None


def said_by(check):
    """One that asserts nothing has not passed: it reports."""
    line = check["detail"].splitlines()[0] if check["detail"] else ""
    only_reported = check["outcome"] == "PASS" and line.endswith("reported, not asserted")
    word = "reported" if only_reported else OUTCOMES[check["outcome"]]
    if len(line) > LONGEST:
        line = line[: LONGEST - 1].rsplit(" ", 1)[0] + " …"
    return f"{word}: {line}"


def rows_of(pattern, found, where):
    if not found:
        return [(f"`{pattern}`", "not among the results kept here", "-")]
    checks = found[1]
    if len(checks) > MOST_BY_NAME:
        words = (f"{number} {word}" for number, word in zip(outcomes({"checks": checks}), OUTCOMES.values()) if number)
        return [(f"`{pattern}`", ", ".join(words), where)]
    return [(f"`{check['name']}`", said_by(check), where) for check in checks]


def render(document, measured, titles, link):
    """The block of the page. Checks that no kept file has are named as not measured."""
    targets = ROW.findall(document)
    if not targets:
        raise Unusable("docs/targets.md has no row that this can read")
    rows = []
    for number, _, target, checks in targets:
        for pattern in CHECK.findall(checks):
            found = newest_with(measured, pattern)
            rows += [(number, target, *row) for row in rows_of(pattern, found, link(titles[found[0]]) if found else "-")]
    return (
        "## Targets\n\n[What each is about](../targets.md), and what its checks came to in the newest section that has them:\n\n"
        + table(("number", "target", "check", "outcome", "section"), rows)
    )
