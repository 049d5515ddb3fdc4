# SPDX-License-Identifier: BSD-3-Clause
"""From samples to the numbers of a row, and from rows to Markdown."""
import statistics


def middle(values):
    """Median and the quartiles around it; None of nothing."""
    if not values:
        return None
    if len(values) == 1:
        return {"median": values[0], "low": values[0], "high": values[0], "n": 1}
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high, "n": len(values)}


def ratio(a, b):
    return a["median"] / b["median"] if a and b and b["median"] > 0 else None


def seconds(value):
    if value is None:
        return ""
    digits = 3 if value["median"] < 1 else 2
    return f"{value['median']:.{digits}f} ({value['low']:.{digits}f}–{value['high']:.{digits}f})"


def times(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def markdown(head, rows):
    """A table; the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    widths = [max(width, 3) for width in widths]

    def line(cells):
        return "| " + " | ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                                 for i, (cell, w) in enumerate(zip(cells, widths))) + " |"

    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])
