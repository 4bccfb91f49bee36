"""Who should hold each shape, by the records, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.assembly.winners import TargetWinners, Winner
from harness.problem.variant import Variant
from harness.records.evidence import Duel, Evidence, Figure

# A candidate whose mean is within this of the incumbent's may well be faster: an A/B would tell.
_NEAR = 1.05


@dataclass(frozen=True)
class Choice:
    """One shape.

    winner: what winners.toml should say; incumbent: who holds the shape now (the fallback where no line does).
    changed: another variant wins. figures: of all candidates that may win, fastest first. duel: the A/B that decided.
    reason: one sentence. asked: the comparison that would decide more, as arguments of `harness ab`, or ''.
    updated: whether winners.toml would get another line than it has.
    """

    shape: str
    incumbent: str
    winner: Winner
    changed: bool
    figures: tuple[Figure, ...]
    failures: dict[str, str]
    duel: Duel | None
    reason: str
    asked: str
    updated: bool = False


def choose(
    target: str, held: TargetWinners, labels: Sequence[str], candidates: Sequence[Variant], evidence: Evidence
) -> list[Choice]:
    """A Choice for each shape label. The incumbent stays unless an A/B says FASTER of another, or it failed."""
    return [_choose(target, label, held, candidates, evidence) for label in labels]


def _choose(target: str, label: str, held: TargetWinners, candidates: Sequence[Variant], evidence: Evidence) -> Choice:
    line = held.shapes.get(label)
    incumbent = line.variant if line else held.fallback
    able = [each.name for each in candidates if each.takes(label) and (not each.targets or _is_for(each, target))]
    failures = {name: why for (shape, name), why in evidence.failures.items() if shape == label and name in able}
    figures = sorted(
        (
            figure
            for (shape, name), figure in evidence.figures.items()
            if shape == label and name in able and name not in failures
        ),
        key=lambda figure: figure.mean_ns,
    )
    by_name = {figure.variant: figure for figure in figures}
    own = by_name.get(incumbent)
    duels = [
        duel
        for (shape, challenger, against), duel in evidence.duels.items()
        if shape == label and against == incumbent and challenger in able and challenger not in failures
    ]
    beaten_by = min((duel for duel in duels if duel.verdict == "FASTER"), key=lambda duel: duel.ratio, default=None)
    asked = _asked(label, incumbent, own, figures, duels)
    if incumbent in failures and figures:
        best = figures[0]
        reason = f"{incumbent} {failures[incumbent]}; {best.variant} is the fastest that passed"
        return _made(label, incumbent, best, None, figures, failures, reason, asked)
    if beaten_by is not None:
        reason = (
            f"FASTER than {incumbent} by A/B: {beaten_by.ratio:.3f} of its time "
            f"[{beaten_by.low:.3f} {beaten_by.high:.3f}] on {beaten_by.run.device}, {beaten_by.run.started_at[:10]}"
        )
        figure = by_name.get(beaten_by.challenger) or Figure(beaten_by.challenger, beaten_by.run, 0.0, None)
        return _made(label, incumbent, figure, beaten_by, figures, failures, reason, asked)
    kept, updated = line or Winner(incumbent, "the fallback"), False
    if own is not None and line is not None and (line.record, line.time_ns) != (own.run.id, round(own.mean_ns)):
        kept, updated = Winner(incumbent, line.why, own.run.id, round(own.mean_ns)), True
    reason = _kept(own, figures)
    return Choice(label, incumbent, kept, False, tuple(figures), failures, None, reason, asked, updated)


def _made(
    label: str, incumbent: str, figure: Figure, duel: Duel | None, figures: list[Figure], failures: dict[str, str],
    reason: str, asked: str,
) -> Choice:  # fmt: skip
    record = (duel.run if duel else figure.run).id
    winner = Winner(figure.variant, reason, record, round(figure.mean_ns) if figure.mean_ns else None)
    return Choice(label, incumbent, winner, True, tuple(figures), failures, duel, reason, asked, updated=True)


def _is_for(variant: Variant, target: str) -> bool:
    return bool({target, "portable"} & set(variant.targets))


def _kept(own: Figure | None, figures: Sequence[Figure]) -> str:
    if own is None and not figures:
        return "kept: no timed record of a present source on this target"
    if own is None:
        return "kept: it has no timed record here, and without an A/B against it nothing beats it"
    if figures[0].variant == own.variant:
        return "kept: the fastest by the records"
    return f"kept: {figures[0].variant} has a smaller mean, but no A/B says FASTER"


def _asked(label: str, incumbent: str, own: Figure | None, figures: Sequence[Figure], duels: Sequence[Duel]) -> str:
    """The comparison of the most promising candidate that has none with the incumbent yet."""
    known = {duel.challenger for duel in duels}
    for figure in figures:
        near = own is None or figure.mean_ns < own.mean_ns * _NEAR
        if figure.variant != incumbent and figure.variant not in known and near:
            return f"{figure.variant} {incumbent} --shapes {label}"
    return ""
