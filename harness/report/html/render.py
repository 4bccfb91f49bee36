"""The page as text."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.figures import percent
from harness.report.html.figures import Interval, Line, Page, SideBySide
from harness.report.html.plots import forest_plot, history_plot, times_plot


def render(page: Page) -> str:
    """One HTML document with its styles and plots inside; it asks for nothing from a network."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("harness.report", "html"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"microseconds": microseconds, "percent": percent}

    def shown(plot: str) -> Markup:
        # Ours, and escaped where it holds names: see plots.py.
        return Markup(plot)

    def times(side: SideBySide) -> Markup:
        return shown(times_plot(side, page.shapes))

    def forest(intervals: Sequence[Interval]) -> Markup:
        return shown(forest_plot(intervals, page.shapes))

    def history(label: str, lines: Sequence[Line]) -> Markup:
        return shown(history_plot(f"{page.shapes[label]} {label}", lines))

    plots = {"times_plot": times, "forest_plot": forest, "history_plot": history}
    return environment.get_template("page.html.j2").render(page=page, **plots)


def microseconds(time_ns: float | None) -> str:
    """A time for a table cell: three digits, or a dash."""
    if time_ns is None:
        return "–"
    value = time_ns / 1e3
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f} µs"
