"""Markdown tables, and numbers as the tables show them."""


class Unusable(Exception):
    """The input cannot be made into tables; the text says why."""


def row(*cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def table(header, rows):
    return "\n".join([row(*header), row(*("---" for _ in header)), *(row(*cells) for cells in rows)])


def titled(title, header, rows):
    """The table behind what it shows; None where it has no rows."""
    return f"{title}:\n\n" + table(header, rows) if rows else None


def milliseconds(seconds):
    return f"{seconds * 1e3:.3f}" if seconds < 0.1 else f"{seconds * 1e3:.1f}"


def short(seconds):
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def nanoseconds(value):
    return f"{value:.0f} ns" if value < 10_000 else short(value * 1e-9)


def significant(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def interval(summary, digits=3):
    return f"{summary['ratio_low']:.{digits}f} to {summary['ratio_high']:.{digits}f}"


# What ratio_cells() fills, behind a column of milliseconds.
RATIO_COLUMNS = ("ratio", "95 % interval", "pairs")


def ratio_cells(summary, digits=3):
    """The time of what it is compared with, in ms, the ratio, its interval, and how many pairs."""
    ratio = f"{summary['ratio_median']:.{digits}f}"
    return milliseconds(summary["a_median"]), ratio, interval(summary, digits), summary["pairs"]


def of_variant(results, variant):
    return [benchmark for benchmark in results["benchmarks"] if benchmark["variant"] == variant]
