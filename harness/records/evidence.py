"""What the records say of the candidates of one target: which figures may be used, and which are stale and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.problem.variant import Variant
from harness.records.record import CaseRecord, ComparisonRecord, Run
from harness.records.store import Store


@dataclass(frozen=True)
class Ground:
    """One device with one Triton: times from anywhere else are not compared with these."""

    device: str
    triton: str | None

    def __str__(self) -> str:
        return f"{self.device}, Triton {self.triton or 'unknown'}"


@dataclass(frozen=True)
class Figure:
    """The newest usable time of a candidate on a shape. mean_ns, err_ns: in nanoseconds."""

    variant: str
    run: Run
    mean_ns: float
    err_ns: float | None


@dataclass(frozen=True)
class Duel:
    """An A/B between two present sources on one shape, seen from `challenger`: ratio is its time over the other's."""

    challenger: str
    against: str
    run: Run
    ratio: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True)
class Evidence:
    """Of one target. ground: where all figures are from, None for no timed record. shape label first in each key.

    figures: (shape, variant). failures: (shape, variant) → why it must not win, from the newest verdict on its present
    source. stale: sentences that name records which were left out, and why.
    """

    ground: Ground | None
    figures: dict[tuple[str, str], Figure]
    failures: dict[tuple[str, str], str]
    duels: dict[tuple[str, str, str], Duel]
    stale: tuple[str, ...]


def gather(store: Store, target: str, candidates: Sequence[Variant], ground: Ground | None = None) -> Evidence:
    """The evidence on `candidates` for a target. ground: None takes that of the newest timed record of the target."""
    names = {variant.source_hash: variant.name for variant in candidates}
    latest = store.latest_of_sources(list(names))
    timed = [(run, case) for run, case in latest if case.mean_ns is not None and run.target == target]
    ground = ground or next((Ground(run.device, run.triton) for run, _ in timed), None)
    figures: dict[tuple[str, str], Figure] = {}
    failures: dict[tuple[str, str], str] = {}
    decided: set[tuple[str, str]] = set()
    elsewhere: set[str] = set()
    for run, case in latest:
        key = (case.shape, names[case.source_hash])
        if run.target in (target, "portable") and case.exact != "not checked" and key not in decided:
            decided.add(key)
            if case.exact == "fail" or (run.kind == "check" and case.status == "fail"):
                failures[key] = f"{_why(case)} (record {run.id}, {run.started_at[:10]})"
        if case.mean_ns is None or run.target != target:
            continue
        if Ground(run.device, run.triton) != ground:
            elsewhere.add(f"{names[case.source_hash]} on {Ground(run.device, run.triton)}")
        elif case.status == "pass":
            figures.setdefault(key, Figure(key[1], run, case.mean_ns, case.err_ns))
    stale = [f"other device or Triton, not used: {each}" for each in sorted(elsewhere)]
    stale += _changed_sources(store, target, candidates)
    duels = _duels(store.comparisons(source_hashes=list(names)), names, target, ground) if names else {}
    return Evidence(ground, figures, failures, duels, tuple(stale))


def _why(case: CaseRecord) -> str:
    failed = [name for name, probe in case.probes.items() if probe.get("status") == "fail"]
    if case.exact == "fail":
        return f"failed exact: error {case.error:.2g}" if case.error is not None else "failed exact"
    return f"failed {', '.join(failed)}" if failed else case.reason or "failed its check"


def _changed_sources(store: Store, target: str, candidates: Iterable[Variant]) -> list[str]:
    sentences = []
    for variant in candidates:
        others = store.cases_of_other_sources(variant.name, variant.source_hash, target)
        if others:
            sentences.append(
                f"source changed since, not used: {others} timed record{'s' if others > 1 else ''} of {variant.name}"
            )
    return sentences


def _duels(
    found: Iterable[tuple[Run, ComparisonRecord]], names: dict[str, str], target: str, ground: Ground | None
) -> dict[tuple[str, str, str], Duel]:
    duels: dict[tuple[str, str, str], Duel] = {}
    for run, record in found:
        if record.shape is None or run.target != target or Ground(run.device, run.triton) != ground:
            continue
        a, b = names[record.a_hash], names[record.b_hash]
        turned = {"FASTER": "SLOWER", "SLOWER": "FASTER"}.get(record.verdict, record.verdict)
        forwards = Duel(a, b, run, record.ratio, record.low, record.high, record.verdict)
        backwards = Duel(b, a, run, 1 / record.ratio, 1 / record.high, 1 / record.low, turned)
        # Newest first: an older A/B of the same two does not replace a newer one.
        duels.setdefault((record.shape, a, b), forwards)
        duels.setdefault((record.shape, b, a), backwards)
    return duels
