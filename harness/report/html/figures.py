"""What the page shows, taken from the records: winners, times of one run, history, comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.assembly.winners import Winners
from harness.problem.problem import Problem
from harness.records.record import CaseRecord, Run
from harness.records.store import Store

# Of the newest: enough for any plot that can still be read, and the page stays under a few megabytes.
_CASES = 4000
_COMPARISONS = 60


@dataclass(frozen=True)
class WinnerRow:
    """A line of winners.toml, with the time and the share of the byte floor of the record that it names."""

    target: str
    shape: str
    variant: str
    why: str
    record: str | None
    time_ns: float | None
    floor_share: float | None
    error: float | None
    device: str | None


@dataclass(frozen=True)
class Timed:
    """One kernel on one shape. mean_ns: queued; floor_ns: of the inputs that it declares."""

    variant: str
    reads: str
    mean_ns: float
    err_ns: float | None
    floor_ns: float | None
    error: float | None
    is_peer: bool


@dataclass(frozen=True)
class SideBySide:
    """The kernels of one run, or, without a run of several, the newest of each on one device. title: which it is."""

    title: str
    where: str
    shapes: dict[str, tuple[Timed, ...]]


@dataclass(frozen=True)
class Point:
    """One timed record in a history. commit: short, '' where unknown."""

    started_at: str
    run_id: str
    commit: str
    mean_ns: float
    err_ns: float | None


@dataclass(frozen=True)
class Line:
    """The records of one variant on one shape and one device, oldest first."""

    device: str
    shape: str
    variant: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Interval:
    """One shape of a comparison: ratio is the time of a over that of b."""

    a: str
    b: str
    shape: str
    ratio: float
    low: float
    high: float
    verdict: str
    delta: float
    record: str
    when: str
    where: str


@dataclass(frozen=True)
class Page:
    """Everything that the page shows. shapes: label → name, in the problem's order."""

    problem: str
    shapes: dict[str, str]
    winners: tuple[WinnerRow, ...]
    side_by_side: tuple[SideBySide, ...]
    history: tuple[Line, ...]
    intervals: tuple[Interval, ...]
    records: int


def page_of(problem: Problem, winners: Winners | None, store: Store) -> Page:
    """What there is to show of a problem's records and winners."""
    timed = [(run, case) for run, case in store.cases(timed=True, limit=_CASES) if case.status == "pass"]
    shapes = {shape.label: shape.name for shape in problem.shapes}
    intervals = tuple(
        Interval(record.a, record.b, record.shape or "geomean", record.ratio, record.low, record.high, record.verdict,
                 record.delta, run.id, run.started_at, f"{run.device}, Triton {run.triton}")
        for run, record in store.comparisons(limit=_COMPARISONS)
    )  # fmt: skip
    return Page(
        problem=winners.leaderboard if winners else problem.root.resolve().name,
        shapes=shapes,
        winners=tuple(_winner_rows(winners, shapes, timed)) if winners else (),
        side_by_side=tuple(_side_by_side(timed, shapes)),
        history=tuple(_history(timed, shapes)),
        intervals=intervals,
        records=len(timed),
    )


def _winner_rows(
    winners: Winners, shapes: Iterable[str], timed: Sequence[tuple[Run, CaseRecord]]
) -> Iterable[WinnerRow]:
    by_record = {(run.id, case.shape, case.variant): (run, case) for run, case in timed}
    for target, held in winners.targets.items():
        for label in shapes:
            winner = held.shapes.get(label)
            if winner is None:
                yield WinnerRow(target, label, held.fallback, "the fallback", None, None, None, None, None)
                continue
            run, case = by_record.get((winner.record or "", label, winner.variant), (None, None))
            share = None if case is None else _share(case)
            error, device = case and case.error, run and run.device
            yield WinnerRow(
                target, label, winner.variant, winner.why, winner.record, winner.time_ns, share, error, device
            )


def _share(case: CaseRecord) -> float | None:
    return case.floor_ns / case.mean_ns if case.floor_ns and case.mean_ns else None


def _side_by_side(timed: Sequence[tuple[Run, CaseRecord]], shapes: dict[str, str]) -> Iterable[SideBySide]:
    """For each device, newest first: its newest run of several kernels, else the newest record of each kernel."""
    for device in dict.fromkeys(run.device for run, _ in timed):
        here = [(run, case) for run, case in timed if run.device == device]
        several = next((run for run, _ in here if run.options.get("peers")), None)
        if several is not None:
            chosen = [case for run, case in here if run.id == several.id]
            title = f"measured in one run, {several.started_at[:16].replace('T', ' ')} UTC (record {several.id})"
            where = f"{device}, Triton {several.triton}"
        else:
            newest: dict[tuple[str, str], CaseRecord] = {}
            for _, case in here:
                newest.setdefault((case.shape, case.variant), case)
            chosen = list(newest.values())
            title, where = "the newest record of each, not of one run", device
        by_shape = {
            label: tuple(sorted(map(_timed, (c for c in chosen if c.shape == label)), key=lambda each: each.mean_ns))
            for label in shapes
        }
        yield SideBySide(title, where, {label: found for label, found in by_shape.items() if found})


def _timed(case: CaseRecord) -> Timed:
    peer = case.file.startswith("bench/peers/")
    reads = case.reads or "?"
    return Timed(case.variant, reads, case.mean_ns or 0.0, case.err_ns, case.floor_ns, case.error, peer)


def _history(timed: Sequence[tuple[Run, CaseRecord]], shapes: dict[str, str]) -> Iterable[Line]:
    lines: dict[tuple[str, str, str], list[Point]] = {}
    for run, case in reversed(timed):
        if case.shape in shapes and not case.file.startswith("bench/peers/"):
            commit = (run.commit or "")[:7] + ("+" if "+" in (run.commit or "") else "")
            point = Point(run.started_at, run.id, commit, case.mean_ns or 0.0, case.err_ns)
            lines.setdefault((run.device, case.shape, case.variant), []).append(point)
    order = list(shapes)
    for (device, shape, variant), points in sorted(
        lines.items(), key=lambda each: (each[0][0], order.index(each[0][1]))
    ):
        yield Line(device, shape, variant, tuple(points))
