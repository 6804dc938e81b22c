"""The chart docs/results/speedup.svg: speed under slipstream, bare = 1, with 95 % intervals.

Plain SVG. It has no background, so each color is one that can be seen on a white page and on a dark one
(tests/gpu/self_tests/test_results_page.py computes the contrast).
"""

from xml.sax.saxutils import escape

from .markdown import Unusable, of_variant

# Places leave room for the widest of the usual fonts (DejaVu Sans).
WIDTH = 840
MARGIN = 8
LABELS = 210  # where bars and axes begin
AXIS = 380  # how long they are
VALUES = LABELS + AXIS + 16  # where the numbers begin
BAR, BAR_STEP = 18, 23
ROW_STEP = 19
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
TEXT, BARE, SLIPSTREAM, TUNED = "#747e8a", "#8b949e", "#2f81f7", "#bf7a1f"
WHISKER, WHISKER_ON_BAR = TEXT, "#ffffff"
SERIES = {"bare": BARE, "slipstream": SLIPSTREAM, "tuned by hand": TUNED}
MODELS = {"resnet50": "ResNet-50", "mobilenet_v2": "MobileNetV2"}
LOOPS = {
    "plain": "plain loop",
    "item": "loss read at every step",
    "prefetch_thread": "prefetch in a thread",
    "prefetch_stream": "prefetch on a stream",
    "grad_scaler": "GradScaler",
    "accumulation": "gradient accumulation",
    "validation": "validation every few steps",
    "two_streams": "two streams by hand",
    "cuda_graph": "captured CUDA graph",
    "compiled": "torch.compile",
    "lm": "small GPT",
    "lm_pinned": "small GPT, pinned tokens",
}


class Speed:
    """How many times as fast as bare, and the 95 % interval."""

    def __init__(self, ratio, low, high):
        self.ratio, self.low, self.high = ratio, low, high

    @classmethod
    def of_throughput(cls, summary):
        return cls(summary["ratio_median"], summary["ratio_low"], summary["ratio_high"])

    @classmethod
    def of_time(cls, summary):
        return cls(1 / summary["ratio_median"], 1 / summary["ratio_high"], 1 / summary["ratio_low"])

    def words(self, digits):
        return f"{self.ratio:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def models(results):
    """[(model, [(series, Speed or None for bare itself, samples/s)])]"""
    found = []
    for gain in of_variant(results, "throughput.slipstream"):
        tuned = next(b for b in of_variant(results, "throughput.hand_tuned") if b["name"] == gain["name"])
        bars = [
            ("bare", None, gain["summary"]["a_median"]),
            ("slipstream", Speed.of_throughput(gain["summary"]), gain["summary"]["b_median"]),
            ("tuned by hand", Speed.of_throughput(tuned["summary"]), tuned["summary"]["b_median"]),
        ]
        found.append((MODELS.get(gain["name"], gain["name"]), bars))
    return found


def loops(results):
    """[(loop, Speed)], the one that gains most first"""
    found = [(LOOPS.get(b["name"], b["name"]), Speed.of_time(b["summary"])) for b in of_variant(results, "step.slipstream")]
    return sorted(found, key=lambda loop: -loop[1].ratio)


class Drawing:
    def __init__(self):
        self.lines = []

    def text(self, x, y, text, size=13, color=TEXT, anchor="start", bold=False):
        weight = ' font-weight="600"' if bold else ""
        self.lines.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'
        )

    def bar(self, x, y, width, color):
        self.lines.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" rx="2" fill="{color}"/>')

    def line(self, x1, y1, x2, y2, color=TEXT, width=1.0, dashed=False):
        dashes = ' stroke-dasharray="3 3"' if dashed else ""
        self.lines.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"{dashes}/>'
        )

    def dot(self, x, y, color):
        self.lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>')

    def whisker(self, low, middle, high, y, cap, color_of_low=WHISKER):
        for end, color in ((low, color_of_low), (high, WHISKER)):
            self.line(end, y, middle, y, color, 1.5)
            self.line(end, y - cap, end, y + cap, color, 1.5)


def upper_panel(drawing, measured, y):
    """Bars that begin at 0."""
    most = max(speed.high for _, bars in measured for _, speed, _ in bars if speed)
    scale = AXIS / most
    drawing.text(VALUES, y + 4, "speed (95 % interval)", size=12)
    drawing.text(WIDTH - MARGIN, y + 4, "samples/s", size=12, anchor="end")
    y += 14
    for model, bars in measured:
        drawing.text(MARGIN, y + BAR_STEP + BAR / 2 + 4.5, model, bold=True)
        for series, speed, rate in bars:
            median = LABELS + scale * (speed.ratio if speed else 1.0)
            middle, bold = y + BAR / 2, series == "slipstream"
            drawing.text(LABELS - 8, middle + 4.5, series, anchor="end", bold=bold)
            drawing.bar(LABELS, y, median - LABELS, SERIES[series])
            if speed:
                ends = LABELS + scale * speed.low, median, LABELS + scale * speed.high
                drawing.whisker(*ends, middle, 5, WHISKER_ON_BAR)
            drawing.text(VALUES, middle + 4.5, speed.words(2) if speed else "1", bold=bold)
            drawing.text(WIDTH - MARGIN, middle + 4.5, f"{rate:.0f}", anchor="end", bold=bold)
            y += BAR_STEP
        y += 12
    return y


def lower_panel(drawing, measured, y):
    """Dots with whiskers, on an axis that begins near the slowest."""
    low = min(1.0, *(speed.low for _, speed in measured))
    high = max(1.0, *(speed.high for _, speed in measured))
    first, last = int(low * 10), -int(-high * 10 // 1)
    scale = AXIS * 10 / (last - first)

    def place(ratio):
        return LABELS + scale * (ratio - first / 10)

    bottom = y + ROW_STEP * len(measured)
    for tick in range(first, last + 1):
        drawing.line(place(tick / 10), y - 6, place(tick / 10), bottom, dashed=tick != 10, width=1.5 if tick == 10 else 0.5)
        drawing.text(place(tick / 10), bottom + 15, f"{tick / 10:.1f}", size=12, anchor="middle")
    for loop, speed in measured:
        middle = y + 5
        drawing.text(LABELS - 8, middle + 4.5, loop, anchor="end")
        drawing.whisker(place(speed.low), place(speed.ratio), place(speed.high), middle, 4)
        drawing.dot(place(speed.ratio), middle, SLIPSTREAM)
        drawing.text(VALUES, middle + 4.5, speed.words(3))
        y += ROW_STEP
    return bottom + 20


def description(upper, lower):
    parts = [
        f"{model}: " + ", ".join(f"{series} {speed.words(2) if speed else '1'} ({rate:.0f} samples/s)" for series, speed, rate in bars)
        for model, bars in upper
    ]
    parts += [f"{loop}: slipstream {speed.words(3)}" for loop, speed in lower]
    return "; ".join(parts) + "."


def draw(results):
    upper, lower = models(results), loops(results)
    if not upper or not lower:
        raise Unusable("the chart needs the results of the group speed")
    drawing = Drawing()
    machine, versions = results["machine"], results["versions"]
    title = "Training speed under slipstream (bare = 1)"
    shown = of_variant(results, "throughput.slipstream") + of_variant(results, "step.slipstream")
    pairs = sorted({benchmark["summary"]["pairs"] for benchmark in shown})
    about = (
        f"{machine['gpus'][0]['name']}, PyTorch {versions['torch']}, {results['date'][:10]}, commit {results['commit']}; "
        f"medians and 95 % intervals of {' or '.join(map(str, pairs))} pairs of blocks"
    )
    drawing.text(MARGIN, 22, title, size=17, bold=True)
    drawing.text(MARGIN, 42, about, size=12)
    drawing.text(MARGIN, 72, "A plain script with a DataLoader of 8 workers, batch 128, autocast")
    y = upper_panel(drawing, upper, 72)
    drawing.text(MARGIN, y + 14, "Steps of small models in other training loops, under slipstream (the axis does not begin at 0)")
    y = lower_panel(drawing, lower, y + 34)
    height = round(y + 4)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
            f'role="img" aria-labelledby="title description" font-family="{FONT}">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description(upper, lower))}</desc>',
            *drawing.lines,
            "</svg>",
            "",
        ]
    )
