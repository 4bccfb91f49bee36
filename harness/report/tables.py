"""An evaluation for people: a table of its cases, the score as the website shows it, and what must be read with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.evaluation.result import CaseResult, Evaluation
from harness.report.caveats import all_notes, substitutes
from harness.report.figures import percent
from harness.report.format_time import format_time
from harness.timing.statistics import Statistics

_COLOURS = {"pass": "green", "fail": "bold red", "not checked": "yellow"}
_GAP = "  "


@dataclass(frozen=True)
class Column:
    """A heading, and the cell of one case. figure: what it shows; left out where no case has it."""

    heading: str
    cell: Callable[[CaseResult], str]
    figure: Callable[[CaseResult], object] = lambda case: case
    right: bool = False


def print_evaluation(console: Console, evaluation: Evaluation) -> None:
    """A table for each stage, then the score or why there is none, the notes in full, tracebacks and profiles.

    On anything but a terminal the table is plain text in aligned columns, never cut or wrapped.
    """
    stages = evaluation.stages or (evaluation,)
    for stage in stages:
        if console.is_terminal:
            console.print(rich_table(stage))
        else:
            _print_plain(console, plain_table(stage))
    for line in [score_line(evaluation), *clock_lines(evaluation), *all_notes(evaluation)]:
        _print_plain(console, line)
    for stage in stages:
        for heading, text in _long_texts(stage):
            _print_plain(console, f"\n{heading}\n{text.rstrip()}")


def rich_table(evaluation: Evaluation) -> Table:
    """The cases as a table for a terminal."""
    table = Table(title=title(evaluation), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    columns = _columns(evaluation)
    for column in columns:
        is_note = column.heading == "note"
        justify = "right" if column.right else "left"
        table.add_column(column.heading, justify=justify, no_wrap=not is_note, overflow="fold")
    for case in evaluation.cases:
        cells = [column.cell(case) for column in columns]
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in cells))
    return table


def plain_table(evaluation: Evaluation) -> str:
    """The cases as aligned lines below the title, one a line."""
    columns = _columns(evaluation)
    rows = [[column.heading for column in columns]]
    rows += [[column.cell(case) for column in columns] for case in evaluation.cases]
    widths = [max(cell_len(row[index]) for row in rows) for index in range(len(columns))]
    lines = [_aligned(row, widths, columns) for row in rows]
    return "\n".join([title(evaluation), *lines])


def title(evaluation: Evaluation) -> str:
    """What ran, how and where; says so where kernels were interpreted or a stand-in ran."""
    machine = evaluation.machine
    where = machine.gpu or machine.cpu or machine.kind
    how = ", ".join(substitutes(evaluation))
    return f"{Path(evaluation.file).name}, mode {evaluation.mode}, on {where}" + (f" ({how})" if how else "")


def score_line(evaluation: Evaluation) -> str:
    """The score as the website shows it, in µs, or why there is none."""
    if evaluation.score_ns is not None:
        return f"score {evaluation.score_ns / 1e9 * 1e6:.3f}μs"
    cases = [case for stage in (evaluation.stages or (evaluation,)) for case in stage.cases]
    what = "no score" if any(case.timing is not None for case in cases) else "no timings"
    return f"{what}: {_why_no_score(evaluation, cases)}"


def clock_lines(evaluation: Evaluation) -> list[str]:
    """What the times are to be read against: empty calls of both clocks, the clear, the bandwidth, and the cost."""
    lines = []
    for stage in evaluation.stages or (evaluation,):
        if stage.empty is not None:
            empty = stage.empty
            lines.append(
                f"empty calls, not subtracted: queued {format_time(empty.queued)}, with one trivial kernel "
                f"{format_time(empty.queued_launch)}; exposed {format_time(empty.exposed)}, with one "
                f"{format_time(empty.exposed_launch)}"
            )
        floors = [case.floor for case in stage.cases if case.floor is not None]
        if floors and stage.clear_bytes is not None:
            lines.append(
                f"floor: the bytes of the declared inputs at {floors[0].bandwidth / 1e12:.2f} TB/s, which a reading "
                f"kernel got in this run; {stage.clear_bytes / 1e9:.1f} GB written before each call"
            )
    lines = list(dict.fromkeys(lines))
    if lines and evaluation.duration_s:
        among = f" of {evaluation.processes} processes" if evaluation.processes > 1 else ""
        lines.append(
            f"took {evaluation.duration_s:.1f} s: {evaluation.timed_calls_s:.1f} in timed calls{among} and their "
            f"clears, {evaluation.first_calls_s:.1f} in first calls, where it compiles, {evaluation.own_s:.1f} in "
            "starting, inputs and verdicts"
        )
    return lines


def _why_no_score(evaluation: Evaluation, cases: Sequence[CaseResult]) -> str:
    if not cases:
        return "no case was run"
    instead = substitutes(evaluation)
    if instead and all(case.timing is None for case in cases):
        return f"{' and '.join(instead)}, which gives the values but not the speed of the real thing"
    bad = _listed([case.shape for case in cases if case.status != "pass"])
    if bad:
        return f"{bad} did not pass"
    if evaluation.mode in ("test", "profile"):
        return f"mode {evaluation.mode} does not time; --mode benchmark does"
    untimed = _listed([case.shape for case in cases if case.timing is None])
    return f"{untimed} could not be timed here" if untimed else "not every ranked benchmark was run"


def _listed(shapes: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(shapes))


def _columns(evaluation: Evaluation) -> list[Column]:
    columns = [
        Column("shape", lambda case: case.shape),
        Column("official", lambda case: case.official.status),
        Column("exact", lambda case: case.exact.status),
        Column("error", lambda case: percent(case.exact.error), right=True),
        Column("worst row", lambda case: percent(case.exact.worst_row), right=True),
        Column("limit", lambda case: percent(case.exact.limit), right=True),
        Column("time", lambda case: _mean(case.timing), _timing, right=True),
        Column("best", lambda case: format_time(case.timing and case.timing.best), _timing, right=True),
        Column("runs", lambda case: str(case.timing.runs) if case.timing else "–", _timing, right=True),
        Column("exposed", lambda case: format_time(case.exposed_median_ns), _exposed, right=True),
        Column("floor", lambda case: format_time(case.floor and case.floor.floor_ns), _floor, right=True),
        Column("of floor", lambda case: percent(case.floor_share), _floor, right=True),
        Column("note", _note),
    ]
    return [column for column in columns if any(column.figure(case) is not None for case in evaluation.cases)]


def _timing(case: CaseResult) -> object:
    return case.timing


def _exposed(case: CaseResult) -> object:
    return case.exposed_median_ns


def _floor(case: CaseResult) -> object:
    return case.floor


def _mean(timing: Statistics | None) -> str:
    if timing is None:
        return "–"
    if math.isnan(timing.err):
        return f"{format_time(timing.mean)} ± –"
    return format_time(timing.mean, timing.err)


def _note(case: CaseResult) -> str:
    reason = " ".join(case.reason.replace("\\n", " ").split())
    return "; ".join(part for part in (reason, case.slice_of) if part)


def _aligned(row: list[str], widths: list[int], columns: list[Column]) -> str:
    cells = []
    for cell, width, column in zip(row, widths, columns, strict=True):
        padding = " " * (width - cell_len(cell))
        cells.append(padding + cell if column.right else cell + padding)
    return _GAP.join(cells).rstrip()


def _long_texts(stage: Evaluation) -> list[tuple[str, str]]:
    """Heading and text of each different traceback and of each profile."""
    first_with = {case.traceback: case.shape for case in reversed(stage.cases) if case.traceback}
    tracebacks = [(f"{shape}: the submission raised", text) for text, shape in reversed(first_with.items())]
    profiles = [(f"{case.shape}: profile", case.profile) for case in stage.cases if case.profile]
    return tracebacks + profiles


def _print_plain(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)
