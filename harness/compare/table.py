"""A comparison for people: a row `[low mid high]` and one sentence of verdict for each shape."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.compare.record import Comparison, Outcome
from harness.compare.verdict import REASONS
from harness.targets.device_clocks import DeviceClocks
from harness.targets.provenance import Provenance

_COLOURS = {"FASTER": "green", "SLOWER": "red", "SAME": "cyan", "UNDECIDED": "yellow"}


def print_comparison(comparison: Comparison, console: Console) -> None:
    """The table, the sentences, and what may be tried where the run leaves something open."""
    console.print(comparison_table(comparison))
    for sentence in verdict_sentences(comparison):
        console.print(sentence, soft_wrap=True, highlight=False, markup=False)
    for line in advice(comparison):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def print_provenance(origin: Provenance, seed: int, console: Console) -> None:
    """What the times depend on besides the kernels, in two lines. seed: of the inputs and the orders."""
    driver = f", driver {origin.driver}" if origin.driver else ""
    lines = [
        f"{origin.device}, torch {origin.torch}, Triton {origin.triton}, Python {origin.python}{driver}",
        f"seed {seed}, commit {origin.commit or 'unknown'}; clocks before {_clocks(origin.clocks_before)}, "
        f"after {_clocks(origin.clocks_after)}",
    ]
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _clocks(clocks: DeviceClocks | None) -> str:
    if clocks is None:
        return "unknown"
    figures = ((clocks.compute_mhz, "MHz"), (clocks.memory_mhz, "MHz memory"), (clocks.temperature_c, "°C"))
    return " ".join(f"{figure:g} {unit}" for figure, unit in figures if figure is not None) or "unknown"


def comparison_table(comparison: Comparison) -> Table:
    """One row for each shape, and the geomean where there are several shapes."""
    table = Table(box=box.SIMPLE_HEAD, title=escape(f"A = {comparison.a}   B = {comparison.b}"), title_justify="left")
    table.add_column("shape", no_wrap=True)
    for name in ("A µs", "B µs", "time A / time B", "sees from", "verdict of A"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in comparison.shapes:
        table.add_row(escape(each.shape), _microseconds(each.a_ns), _microseconds(each.b_ns), *_cells(each))
    if len(comparison.shapes) > 1:
        table.add_section()
        table.add_row("geomean", "", "", *_cells(comparison.geomean))
    return table


def verdict_sentences(comparison: Comparison) -> list[str]:
    """One sentence for each shape, and one for the geomean where there are several shapes."""
    sentences = [f"{each.shape}: {_sentence(comparison, each)}" for each in comparison.shapes]
    if len(comparison.shapes) > 1:
        sentences.append(f"geomean: {_sentence(comparison, comparison.geomean)}")
    return sentences


def advice(comparison: Comparison) -> list[str]:
    """What may help, of that which this run did not do."""
    lines = []
    reasons = {each.reason for each in comparison.shapes}
    if reasons & {"interval-crosses-delta", "not-significant"}:
        more = f"--blocks {2 * comparison.blocks}"
        if comparison.processes > 1:
            more += f", or --processes {comparison.processes + 2} where the processes differ"
        lines.append(f"To narrow the intervals: {more}.")
    if "below-noise-floor" in reasons:
        lines.append("To lower the noise floor: fix the clocks and stop what else runs here; more blocks do not.")
    if comparison.processes == 1:
        lines.append("One process cannot tell the kernels' difference from the process's own: --processes 3 can.")
    return lines


def _cells(outcome: Outcome) -> tuple[str, str, str]:
    colour = _COLOURS[outcome.verdict]
    interval = f"\\[{outcome.low:.4f} {outcome.ratio:.4f} {outcome.high:.4f}]"
    return interval, _percent(outcome.detectable), f"[{colour}]{outcome.verdict}[/{colour}]"


def _sentence(comparison: Comparison, outcome: Outcome) -> str:
    a, b = f"A ({comparison.a})", f"B ({comparison.b})"
    if outcome.verdict == "FASTER":
        return f"{a} is FASTER than {b}: it takes {_percent(1 - outcome.ratio)} less time."
    if outcome.verdict == "SLOWER":
        return f"{a} is SLOWER than {b}: it takes {_percent(outcome.ratio - 1)} more time."
    if outcome.verdict == "SAME":
        return f"{a} and {b} are the SAME: they differ by less than {_percent(comparison.delta)}."
    assert outcome.reason is not None
    return (
        f"{a} against {b} is UNDECIDED ({outcome.reason}): {REASONS[outcome.reason]}; "
        f"this run sees differences from {_percent(outcome.detectable)} on."
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f} %"


def _microseconds(time_ns: float) -> str:
    return f"{time_ns / 1000:.2f}"
