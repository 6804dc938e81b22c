"""One test's outcome, and the JUnit files that outcomes are read from and written to."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree

PASSED = "passed"
FAILED = "failed"
SKIPPED = "skipped"

# What XML 1.0 cannot carry, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclasses.dataclass
class Case:
    """`text` is a failure's output, or a skip's reason."""

    leg: str
    name: str
    outcome: str
    seconds: float = 0.0
    text: str = ""


def skip_reason(output, message):
    """What a skipped test says of itself.

    GoogleTest prints "FILE:LINE: Skipped" and the text of GTEST_SKIP() below it; any other program that exits with the
    skip status gives the reason as the last line it prints.
    """
    match = re.search(r"^.*: Skipped\n(.*?)\n?^\[  SKIPPED \]", output, re.MULTILINE | re.DOTALL)
    if match:
        return " ".join(match.group(1).split()) or "GTEST_SKIP() without a reason"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else f"no reason given ({message})"


def read_ctest_junit(text, leg):
    """The cases in a file that ctest --output-junit wrote.

    ctest calls three different things "notrun": a test that skipped itself, one whose program is missing and one whose
    fixture failed. Only the first is a skip.
    """
    cases = []
    for element in ElementTree.fromstring(_NOT_XML.sub("?", text)).iter("testcase"):
        status = element.get("status")
        output = element.findtext("system-out") or ""
        case = Case(leg, element.get("name", "?"), FAILED, float(element.get("time") or 0), output)
        if status == "run":
            case.outcome, case.text = PASSED, ""
        elif status == "disabled":
            case.outcome, case.text = SKIPPED, "disabled in the source"
        elif status == "notrun":
            message = (element.find("skipped").get("message") if element.find("skipped") is not None else "") or ""
            if message.startswith("SKIP_"):
                case.outcome, case.text = SKIPPED, skip_reason(output, message)
        cases.append(case)
    return cases


def write_junit(path, cases, seconds_of_leg):
    """One <testsuite> a leg."""
    root = ElementTree.Element("testsuites", name="slipstream")
    for leg in dict.fromkeys(case.leg for case in cases):
        mine = [case for case in cases if case.leg == leg]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=leg,
            tests=str(len(mine)),
            failures=str(sum(case.outcome == FAILED for case in mine)),
            errors="0",
            skipped=str(sum(case.outcome == SKIPPED for case in mine)),
            time=f"{seconds_of_leg.get(leg, 0.0):.3f}",
        )
        for case in mine:
            element = ElementTree.SubElement(
                suite, "testcase", classname=f"slipstream.{leg}", name=case.name, time=f"{case.seconds:.3f}"
            )
            text = _NOT_XML.sub("?", case.text)
            if case.outcome == FAILED:
                ElementTree.SubElement(element, "failure", message="failed").text = text
            elif case.outcome == SKIPPED:
                ElementTree.SubElement(element, "skipped", message=text)
    ElementTree.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
