#!/usr/bin/env python3
"""The page of a report as a browser takes it, and as an XML parser does.

    page_in_browser.py SLIPSTREAM SAMPLE_RUN SAMPLE_PAGE

That of a recorded run, and pages of SAMPLE_PAGE with one step and many, one device and eight, light and dark: no label lies on another one
or is cut off, and texts stand out from what is behind them.

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

PLOTS = ("whole time", "step times", "parts of each step", "timeline of one step", "memory over time", "copy bandwidth by size")
ENDS = "slipstream-page-was-read-to-its-end"


# Steps and devices of made-up pages.
SHAPES = ((1, 1), (1000, 1), (2, 8), (1000, 8))
# Chromium's numbers of prefers-color-scheme.
SCHEMES = {"dark": 0, "light": 1}
# What a browser makes of a page, as lines. A box is a little higher than the letters in it.
LOOK = """
const lines = [];
const channels = (color) => color.match(/[0-9.]+/g).slice(0, 3).map((c) => {
  c /= 255;
  return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
});
const luminance = (color) => { const [r, g, b] = channels(color); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const back = getComputedStyle(document.body).backgroundColor;
lines.push("background " + (luminance(back) < 0.2 ? "dark" : "light"));
const contrast = (color) => {
  const [a, b] = [luminance(color), luminance(back)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
for (const element of document.querySelectorAll("h1, h2, p, pre, .key, svg text")) {
  const style = getComputedStyle(element);
  const color = element.closest("svg") ? style.fill : style.color;
  if (contrast(color) < 4.5) lines.push("faint: " + element.textContent.slice(0, 60) + " in " + color + " on " + back);
}
let texts = 0;
for (const svg of document.querySelectorAll("svg")) {
  const name = svg.getAttribute("aria-label");
  const around = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  texts += boxes.length;
  boxes.forEach(([text, box], i) => {
    if (box.left < around.left - 1 || box.right > around.right + 1 || box.top < around.top - 1 || box.bottom > around.bottom + 1) {
      lines.push(`cut off in ${name}: ${text}`);
    }
    for (const [other, its] of boxes.slice(i + 1)) {
      const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
      const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
      if (across > 0 && down > 3) lines.push(`overlap in ${name}: ${text} / ${other}`);
    }
  });
}
lines.push("texts " + texts);
const report = document.createElement("pre");
report.id = "look";
report.textContent = lines.join("\\n");
document.body.append(report);
"""


def problems_of_look(page, browser, folder, devices):
    problems = []
    watched = folder / "watched.html"
    text = page.read_text()
    # The page's own policy lets no script run.
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*/>', "", text)
    watched.write_text(text.replace("</body>", f"<script>{LOOK}</script></body>"))
    for scheme, number in SCHEMES.items():
        done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                               f"--blink-settings=preferredColorScheme={number}", "--window-size=1040,2400", "--dump-dom",
                               watched.as_uri()], capture_output=True, text=True, timeout=120)
        look = re.search(r'<pre id="look">(.*?)</pre>', done.stdout, re.DOTALL)
        if look is None:
            problems.append(f"{page.name}, {scheme}: nothing was looked at (exit status {done.returncode}):\n{done.stderr[-2000:]}")
            continue
        lines = look.group(1).split("\n")
        if lines.pop(0) != f"background {scheme}":
            problems.append(f"{page.name} is not {scheme}")
        if int(lines.pop().split()[1]) < 20:
            problems.append(f"{page.name} has next to no labels")
        problems += [f"{page.name}, {scheme}: {line}" for line in lines]
    if done.stdout.count('aria-label="memory over time"') != devices or done.stdout.count(">peak: ") != devices:
        problems.append(f"{page.name} does not show the memory of {devices} devices with its peak")
    return problems


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
    slipstream, sample_run, sample_page = sys.argv[1:4]
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
        for steps, devices in SHAPES:
            page = folder / f"{steps}-steps-{devices}-devices.html"
            subprocess.run([sample_page, page, str(steps), str(devices)], check=True)
            problems += problems_of_look(page, browser, folder, devices)
    for problem in problems:
        print(problem)
    print(f"{browser}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
