#!/usr/bin/env python3
"""The page of a report as a browser takes it, and as an XML parser does.

    page_in_browser.py SLIPSTREAM SAMPLE_RUN

Needs a Chromium, as `chromium` on PATH or in SLIPSTREAM_TEST_CHROMIUM; exit status 77 where there is none. Nothing is installed for
this.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

PLOTS = ("step times", "parts of each step", "timeline of one step", "memory over time", "copy bandwidth by size")
ENDS = "slipstream-page-was-read-to-its-end"


def problems_of(page, browser, folder):
    problems = []
    # What a browser repairs is wrong all the same.
    xml.etree.ElementTree.parse(page)
    # A mark behind the page's own end: what stands before it has been read when it is there.
    marked = folder / "marked.html"
    marked.write_text(page.read_text().replace("</body>", f"<p>{ENDS}</p></body>"))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
               "--enable-logging=stderr"]
    done = subprocess.run([*command, "--dump-dom", marked.as_uri()], capture_output=True, text=True, timeout=120)
    if ENDS not in done.stdout:
        return [f"the browser did not read the page (exit status {done.returncode}):\n{done.stderr[-2000:]}"]
    for plot in PLOTS:
        if f'aria-label="{plot}"' not in done.stdout:
            problems.append(f"the browser has no plot {plot!r}")
    # What it could not read, or was kept from loading by the page's own policy.
    problems += re.findall(r".*CONSOLE.*", done.stderr)
    picture = folder / "page.png"
    subprocess.run([*command, f"--screenshot={picture}", "--window-size=1040,2400", page.as_uri()],
                   capture_output=True, timeout=120, check=False)
    # A blank page of this size has a few KiB.
    if not picture.exists() or picture.stat().st_size < 30_000:
        problems.append("the browser drew nothing")
    return problems


def main():
    slipstream, sample_run = sys.argv[1:3]
    browser = os.environ.get("SLIPSTREAM_TEST_CHROMIUM") or shutil.which("chromium")
    if browser is None:
        print("skipped: no chromium here")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sample_run, folder / "run"], check=True)
        page = folder / "page.html"
        subprocess.run([slipstream, "report", folder / "run", "--html", page], check=True, stdout=subprocess.DEVNULL)
        problems = problems_of(page, browser, folder)
    for problem in problems:
        print(problem)
    print(f"{browser}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
