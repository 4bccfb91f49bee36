"""The page's plots, each as SVG text with a title and a description for those who do not see it."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from harness.report.html.figures import Interval, Line, SideBySide

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with any colour vision tell apart; a marker each as well.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_VERDICTS = {"FASTER": "#009E73", "SLOWER": "#D55E00", "SAME": "#0072B2", "UNDECIDED": "#777777"}
# As narrow as a phone: 9 points then stay readable there, and the page keeps them from growing on a wide screen.
_WIDTH_INCHES = 4.4


def times_plot(side: SideBySide, names: dict[str, str]) -> str:
    """For each shape, every kernel's time on a logarithmic axis, and the byte floor of what it reads."""
    kernels = list(dict.fromkeys(each.variant for found in side.shapes.values() for each in found))
    labels = list(side.shapes)
    height = 0.38 * len(labels) + 0.8

    def draw(axes: Axes) -> None:
        for row, label in enumerate(labels):
            floors = {each.floor_ns for each in side.shapes[label] if each.floor_ns}
            for floor_ns in floors:
                axes.plot([floor_ns / 1e3] * 2, [row - 0.32, row + 0.32], color="#444444", linewidth=2, zorder=1)
            for each in side.shapes[label]:
                style = kernels.index(each.variant)
                axes.plot(
                    each.mean_ns / 1e3, row, linestyle="", color=_COLOURS[style % 8], marker=_MARKERS[style % 8],
                    markersize=7, alpha=0.85, markerfacecolor="white" if each.is_peer else _COLOURS[style % 8],
                )  # fmt: skip
        for style, kernel in enumerate(kernels):
            axes.plot([], [], linestyle="", color=_COLOURS[style % 8], marker=_MARKERS[style % 8], label=kernel)
        axes.plot([], [], color="#444444", linewidth=2, label="byte floor")
        axes.set_xscale("log")
        axes.set_xlabel("µs a call, queued clock (logarithmic)")
        axes.set_yticks(range(len(labels)), [f"{names[label]}  {label}" for label in labels])
        axes.invert_yaxis()
        axes.grid(axis="x", which="both", color="#dddddd", linewidth=0.6)
        _legend_below(axes, 0.55 / height)

    fastest = "; ".join(
        f"{names[label]} {found[0].variant} {found[0].mean_ns / 1e3:.3g} µs" for label, found in side.shapes.items()
    )
    return _svg(draw, height, f"Time of each kernel on each shape, {side.where}", f"Fastest: {fastest}.")


def history_plot(label: str, lines: Sequence[Line]) -> str:
    """The records of one shape on one device, in the order of time, a line for each variant."""

    def draw(axes: Axes) -> None:
        runs = sorted({(point.started_at, point.run_id) for line in lines for point in line.points})
        places = {run: place for place, run in enumerate(runs)}
        commits = {
            places[point.started_at, point.run_id]: point.commit or point.started_at[5:10]
            for line in lines
            for point in line.points
        }
        for style, line in enumerate(lines):
            x = [places[point.started_at, point.run_id] for point in line.points]
            y = [point.mean_ns / 1e3 for point in line.points]
            axes.plot(x, y, color=_COLOURS[style % 8], marker=_MARKERS[style % 8], markersize=5, label=line.variant)
        step = max(1, len(runs) // 8)
        shown = list(range(0, len(runs), step))
        axes.set_xticks(shown, [commits[place] for place in shown], rotation=30, ha="right", fontsize=8)
        axes.set_ylabel("µs")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        _legend_below(axes, 0.75 / 2.0)

    last = "; ".join(f"{line.variant} {line.points[-1].mean_ns / 1e3:.3g} µs" for line in lines)
    return _svg(draw, 2.0, f"Times of {label} over the records, on {lines[0].device}", f"Newest: {last}.")


def forest_plot(intervals: Sequence[Interval], names: dict[str, str]) -> str:
    """Each comparison's ratio with its 95 % interval, beside the line of no difference."""

    def draw(axes: Axes) -> None:
        for row, each in enumerate(intervals):
            colour = _VERDICTS.get(each.verdict, "#777777")
            axes.plot([each.low, each.high], [row, row], color=colour, linewidth=2, solid_capstyle="butt")
            axes.plot(each.ratio, row, marker="o", color=colour, markersize=6)
        axes.axvline(1.0, color="#444444", linewidth=1)
        delta = max(each.delta for each in intervals)
        axes.axvspan(1 / (1 + delta), 1 + delta, color="#eeeeee", zorder=0)
        rows = [f"{each.a} / {each.b}\n{names.get(each.shape, '')} {each.shape}, {each.verdict}" for each in intervals]
        axes.set_yticks(range(len(intervals)), rows, fontsize=8)
        axes.set_xscale("log")
        axes.set_xlabel("time of the first over time of the second\n(logarithmic; left of 1 the first is faster)")
        axes.invert_yaxis()
        axes.margins(y=0.5 / max(len(intervals), 1))
        from matplotlib.ticker import LogLocator, ScalarFormatter

        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(lambda value, place: "")
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)

    said = "; ".join(
        f"{each.a} is {each.verdict} against {each.b} on {each.shape}, "
        f"{each.ratio:.3f} [{each.low:.3f} {each.high:.3f}]"
        for each in intervals
    )
    return _svg(draw, 0.5 * len(intervals) + 1.0, "Comparisons with their 95 % intervals", f"{said}.")


def _legend_below(axes: Axes, gap: float) -> None:
    """The legend under the axis; gap: in heights of the plot."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -gap), ncols=2, frameon=False, fontsize=8)


def _svg(draw: Callable[[Axes], None], height_inches: float, title: str, description: str) -> str:
    figure, axes = _figure(height_inches)
    draw(axes)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    file = io.StringIO()
    figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Several SVGs in one page must not share the ids of their clip paths and markers, nor keep a fixed size.
    prefix = f"p{hashlib.sha256((title + description).encode()).hexdigest()[:8]}-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'(url\(#|href="#)', rf"\1{prefix}", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    named = f'<title id="{prefix}title">{escape(title)}</title><desc id="{prefix}desc">{escape(description)}</desc>'
    opening = f'<svg role="img" aria-labelledby="{prefix}title {prefix}desc"'
    text = text.replace("<svg", opening, 1)
    return re.sub(r"(<svg[^>]*>)", lambda found: found[1] + named, text, count=1)


def _figure(height_inches: float) -> tuple[Figure, Axes]:
    import matplotlib
    from matplotlib.figure import Figure

    # Text stays text, so that it can be searched, selected and read aloud.
    style = {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "svg.hashsalt": "harness"}
    matplotlib.rcParams.update(style)
    figure = Figure(figsize=(_WIDTH_INCHES, height_inches))
    return figure, figure.add_subplot()
