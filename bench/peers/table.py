"""The peers' results for people, shape by shape, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.peers.measure import PeerResult
from harness.evaluation.result import CaseResult
from harness.report.figures import percent
from harness.report.format_time import format_time
from harness.report.json_report import evaluation_json
from harness.report.tables import clock_lines


def print_peers(console: Console, results: Sequence[PeerResult]) -> None:
    """The peers of each shape one below the other, then what the times are read against, and what is missing."""
    measured = [result for result in results if result.evaluation is not None]
    if measured:
        console.print(peers_table(measured))
    lines = [line for result in measured for line in clock_lines(result.evaluation)]
    if measured and not lines:
        lines = ["No device was timed: correctness only, on a slice of each shape."]
    lines += [f"{result.peer.name}: {result.missing}" for result in results if result.missing]
    for line in dict.fromkeys(lines):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def peers_table(measured: Sequence[PeerResult]) -> Table:
    """One row a shape and peer, in the order of the shapes."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("shape", "kernel", "reads"):
        table.add_column(name, no_wrap=True)
    for name in ("queued", "exposed", "of floor"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("exact")
    table.add_column("error", justify="right", no_wrap=True)
    table.add_column("note", overflow="fold")
    for shape in _shapes(measured):
        for result in measured:
            for case in result.evaluation.cases:
                if case.shape == shape:
                    table.add_row(*(Text(cell) for cell in _cells(result, case)))
        table.add_section()
    return table


def peers_json(results: Sequence[PeerResult]) -> dict[str, Any]:
    """One object a peer: its name, file, package, version, why it is missing (or null), and its evaluation (or null).

    The evaluation has the keys of `harness eval --json`.
    """
    return {
        "peers": [
            {
                "name": result.peer.name,
                "file": str(result.peer.variant.path),
                "package": result.peer.package or None,
                "version": result.peer.version,
                "missing": result.missing,
                "evaluation": None if result.evaluation is None else evaluation_json(result.evaluation),
            }
            for result in results
        ]
    }


def _shapes(measured: Sequence[PeerResult]) -> list[str]:
    """In the order of the cases."""
    return list(dict.fromkeys(case.shape for result in measured for case in result.evaluation.cases))


def _cells(result: PeerResult, case: CaseResult) -> list[str]:
    note = "; ".join(part for part in (" ".join(case.reason.split()), case.slice_of) if part)
    return [
        case.shape,
        result.peer.name,
        case.exact.reads or "–",
        format_time(case.queued_median_ns),
        format_time(case.exposed_median_ns),
        percent(case.floor_share),
        case.exact.status,
        percent(case.exact.error),
        note,
    ]
