#!/usr/bin/env python3
"""The page of a report as a browser takes it, and as an XML parser does.

    page_in_browser.py SLIPSTREAM SAMPLE_RUN SAMPLE_PAGE

That of a recorded run, and pages of SAMPLE_PAGE with one step and many, one device and eight, light and dark, on a screen and a phone: no label lies on another one
or is cut off, texts stand out from what is behind them, no text of the trace is markup, nothing is asked for, and flame graphs can be zoomed,
searched and ordered.

Needs a Chromium, as `chromium` on PATH or in SLIPSTREAM_TEST_CHROMIUM; exit status 77 where there is none. Nothing is installed for
this.
"""

import html
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

PLOTS = ("whole time", "step times", "parts of each step", "timeline of one step", "host time by stack", "device time by stack",
         "memory over time", "copy bandwidth by size")

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
const contrast = (color, behind) => {
  const [a, b] = [luminance(color), luminance(behind)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
const isSeen = (element) => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.height > 0 && getComputedStyle(element).opacity !== "0" && element.textContent.trim() !== "";
};
let texts = 0;
for (const element of document.querySelectorAll("h1, h2, h3, p, li, code, summary, pre, label, svg text")) {
  if (!isSeen(element)) continue;
  const style = getComputedStyle(element);
  const color = element.closest("svg") ? style.fill : style.color;
  const frame = element.closest(".slice, .pathbar");
  const behind = frame ? getComputedStyle(frame.querySelector("path")).fill : back;
  if (contrast(color, behind) < 4.5) lines.push("faint: " + element.textContent.slice(0, 60) + " in " + color + " on " + behind);
}
for (const plot of document.querySelectorAll(".plot")) {
  const name = plot.getAttribute("aria-label");
  const around = plot.getBoundingClientRect();
  const boxes = [...plot.querySelectorAll("svg text")].filter(isSeen).map((text) => [text.textContent, text.getBoundingClientRect()]);
  texts += boxes.length;
  if (boxes.length === 0) lines.push(`nothing is drawn of ${name}`);
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
if (document.documentElement.scrollWidth > innerWidth) lines.push(`${document.documentElement.scrollWidth} px wide in ${innerWidth}`);
// Texts of the trace are no markup, and the page asks for nothing.
if (document.querySelector("img, a[href], .plot b")) lines.push("a text of the trace became markup");
for (const { name } of performance.getEntriesByType("resource")) lines.push("asked for: " + name.slice(0, 100));
const buttons = [...document.querySelectorAll(".modebar-btn")].map((button) => button.dataset.title);
if (buttons.length === 0 && innerWidth > 600 || buttons.some((title) => /cloud|upload|share/i.test(title))) lines.push("buttons: " + buttons);
"""
# With the frames of sample_page_main.cpp. Awaited by what stands around it.
USE = """
const settle = () => new Promise((done) => setTimeout(done, 300));
for (const name of ["host time by stack", "device time by stack"]) {
  const plot = document.querySelector(`.plot[aria-label="${name}"]`);
  const controls = plot.previousElementSibling;
  const [input, order, output] = ["input", "select", "output"].map((one) => controls.querySelector(one));
  const labels = () => [...plot.querySelectorAll(".slice")].filter((one) => one.querySelector("text") && isSeen(one))
    .sort((a, b) => a.getBoundingClientRect().left - b.getBoundingClientRect().left).map((one) => one.textContent);
  const expect = (what, is, wanted) => { if (is !== wanted) lines.push(`${name}: ${what} is ${is} and not ${wanted}`); };
  const search = async (text) => { input.value = text; input.oninput(); await settle(); return output.textContent; };
  const marked = () => plot._fullData[0].marker.colors.filter((color) => color === "#ff8fa3").length;
  expect("the search for gemm", await search("gemm"), "found: 600 ms, 60.0 % of all");
  expect("the number of marked frames", marked(), 2);
  // Its frames lie on each other.
  const depth = plot._fullData[0].ids.length - 7;
  expect("the search for .py", await search(".PY:"), "found: 600 ms, 60.0 % of all");
  expect("the number of marked frames", marked(), depth + 1);
  expect("the search for nothing", await search("nothing of it"), "found: 0 ns, 0.0 % of all");
  expect("an empty search", await search(""), "");
  expect("the number of marked frames", marked(), 0);
  const leaves = () => labels().filter((label) => /^gemm/.test(label)).join();
  const inRow = () => labels().filter((label) => /^(train|<b>|.smaller)/.test(label)).map((label) => label.slice(0, 3)).join();
  expect("by time", inRow(), "tra,<b>,(sm");
  order.value = ""; order.onchange(); await settle();
  expect("by name", inRow(), "(sm,<b>,tra");
  const click = async (label) => {
    const slice = [...plot.querySelectorAll(".slice, .pathbar")].find((one) => one.textContent.startsWith(label));
    slice.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    await settle();
  };
  await click("train");
  expect("the level", plot._fullData[0].level, "4");
  expect("what is shown", inRow(), "tra");
  expect("the bar to go back", plot.querySelectorAll(".pathbar").length, 1);
  await click("all");
  expect("the level", plot._fullData[0].level, "0");
}
"""
END = """
parent.postMessage(lines.join("\\n"), "*");
"""
# A page as wide as a phone's or a screen's: a browser's window has a least width.
FRAME = """<!DOCTYPE html><html><body style="margin: 0"><script>
addEventListener("message", ({ data }) => {
  const report = document.createElement("pre");
  report.id = "look";
  report.textContent = data;
  document.body.append(report);
});
</script><iframe src="%s" style="border: 0; width: %dpx; height: 2400px"></iframe></body></html>
"""
WIDTHS = (1280, 390)


def problems_of(page, browser, folder, use):
    """`use`: the page is a made-up one, with all plots, and its flame graphs do what one asks of them."""
    problems = []
    # What a browser repairs is wrong all the same. A script ends with the first </script>.
    markup = re.sub(r"<script.*?</script>", "", page.read_text(), flags=re.DOTALL)
    xml.etree.ElementTree.fromstring(markup)
    watched = folder / "watched.html"
    # Short frames have no name on a phone.
    script = f"setTimeout(async () => {{{LOOK}if (innerWidth > 600) {{{USE if use else ''}}}{END}}}, 500)"
    watched.write_text(page.read_text().replace("</body></html>", f"<script>{script}</script></body></html>"))
    for (scheme, number), width in itertools.product(SCHEMES.items(), WIDTHS):
        about = f"{page.name}, {scheme}, {width} px"
        frame = folder / "frame.html"
        frame.write_text(FRAME % (watched.name, width))
        done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                               f"--blink-settings=preferredColorScheme={number}", "--window-size=1280,2400",
                               "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom", frame.as_uri()],
                              capture_output=True, text=True, timeout=120)
        # What it could not read, or was kept from loading by the page's own policy.
        problems += [f"{about}: {line}" for line in re.findall(r".*CONSOLE.*", done.stderr)]
        look = re.search(r'<pre id="look">(.*?)</pre>', done.stdout, re.DOTALL)
        if look is None:
            problems.append(f"{about}: nothing was looked at (exit status {done.returncode}):\n{done.stderr[-2000:]}")
            continue
        lines = html.unescape(look.group(1)).split("\n")
        if lines.pop(0) != f"background {scheme}":
            problems.append(f"{about}: it is not {scheme}")
        problems += [f"{about}: {line}" for line in lines]
    for plot in PLOTS:
        # The sample run has no records of devices.
        if not use and plot == "device time by stack":
            continue
        if f'aria-label="{plot}"' not in markup:
            problems.append(f"{page.name} has no plot {plot!r}")
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
        if "<script>" not in page.read_text():
            print("skipped: slipstream was built without plotly.js")
            return 77
        problems = problems_of(page, browser, folder, use=False)
        for steps, devices in SHAPES:
            page = folder / f"{steps}-steps-{devices}-devices.html"
            subprocess.run([sample_page, page, str(steps), str(devices)], check=True)
            problems += problems_of(page, browser, folder, use=True)
    for problem in problems:
        print(problem)
    print(f"{browser}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
