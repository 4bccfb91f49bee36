"""Writes down a run while it goes on: each case when it ends, so that a later failure loses none."""

from __future__ import annotations

import json
import platform
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.records.record import CaseRecord, ComparisonRecord, Kind, Run
from harness.records.store import RecordsProblem, Store, open_store
from harness.targets.device_clocks import read_device_clocks
from harness.targets.machine import Machine
from harness.targets.provenance import commit_of

if TYPE_CHECKING:
    from harness.compare.record import Comparison, Outcome
    from harness.evaluation.check import ShapeCheck
    from harness.evaluation.result import CaseResult
    from harness.problem.problem import Problem
    from harness.problem.variant import Variant


class Recorder:
    """The records of one run under way. Nothing it does raises: a run is worth more than its record.

    run_id: None where no record is kept.
    """

    def __init__(self, store: Store | None, run: Run, problem: Problem, said: Callable[[str], None]) -> None:
        self._store, self._run, self._problem, self._said = store, run, problem, said
        self._position = 0
        self._lock = threading.Lock()

    @property
    def run_id(self) -> str | None:
        return self._run.id if self._store is not None else None

    def case(self, variant: Variant, result: CaseResult, label: str) -> None:
        """A case of an evaluation that has ended. label: of its shape."""
        named = self._named(variant)
        self._add(lambda position: _evaluated(self._run.id, position, named, label, result))

    def shape(self, variant: Variant, result: ShapeCheck) -> None:
        """A shape of a check that has ended, from any thread."""
        named = self._named(variant)
        self._add(lambda position: _checked(self._run.id, position, named, result))

    def comparison(self, a: Variant, b: Variant, comparison: Comparison) -> None:
        """All shapes of a comparison, and their geometric mean."""
        outcomes: list[tuple[str | None, Outcome]] = [(shape.shape, shape) for shape in comparison.shapes]
        outcomes.append((None, comparison.geomean))
        for outcome in outcomes:
            self._add(partial(_compared, self._run.id, a, b, comparison, *outcome))

    def end(self, clocks: Mapping[str, Any]) -> None:
        """The run came to its end."""
        if self._store is not None:
            with self._forgiven():
                self._store.finish(self._run.id, json.dumps(clocks, sort_keys=True))

    def _named(self, variant: Variant) -> dict[str, str]:
        path, root = variant.path.resolve(), self._problem.root.resolve()
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        return {"variant": variant.name, "file": shown.as_posix(), "source_hash": variant.source_hash}

    def _add(self, made: Callable[[int], CaseRecord | ComparisonRecord]) -> None:
        # The run's own row goes in with its first case: a run without a case is no record.
        with self._lock, self._forgiven():
            if self._store is not None:
                self._position += 1
                record = made(self._position)
                self._store.add(*([self._run] if self._position == 1 else []), record)

    @contextmanager
    def _forgiven(self) -> Iterator[None]:
        try:
            yield
        except (RecordsProblem, ValueError) as error:
            self._store = None
            self._said(f"this run is not recorded any further: {error}")


@contextmanager
def recording(
    problem: Problem,
    machine: Machine,
    kind: Kind,
    said: Callable[[str], None],
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[Recorder]:
    """A recorder for one run on this machine; `said` gets a line where no record can be kept.

    options: what the command was asked for, as far as its result depends on it; absent values are left out.
    """
    before = read_device_clocks(machine)
    run = _run(problem.root, machine, kind, mode, {key: v for key, v in (options or {}).items() if v is not None})
    try:
        store = open_store(problem.root, said)
    except RecordsProblem as error:
        said(f"this run is not recorded: {error}")
        store = None
    recorder = Recorder(store, run, problem, said)
    try:
        yield recorder
        clocks = {"before": before, "after": read_device_clocks(machine)}
        recorder.end({when: asdict(read) for when, read in clocks.items() if read is not None})
    finally:
        if store is not None:
            store.close()


def _run(root: Path, machine: Machine, kind: Kind, mode: str | None, options: Mapping[str, Any]) -> Run:
    return Run(
        id=secrets.token_hex(6),
        kind=kind,
        mode=mode,
        started_at=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        problem=root.resolve().name,
        commit=commit_of(root),
        device=machine.gpu or machine.cpu or "CPU",
        device_kind=machine.kind,
        target=machine.target,
        driver=machine.driver or None,
        torch=machine.torch or None,
        triton=machine.triton or None,
        python=platform.python_version(),
        hostname=machine.hostname or None,
        options=options,
    )


def _evaluated(run_id: str, position: int, named: dict[str, str], label: str, result: CaseResult) -> CaseRecord:
    timing, floor = result.timing, result.floor
    return CaseRecord(
        run_id=run_id,
        position=position,
        **named,
        shape=label,
        spec=result.spec,
        status=result.status,
        official=result.official.status,
        mismatch_ratio=result.official.mismatch_ratio,
        exact=result.exact.status,
        error=_finite(result.exact.error),
        worst_row=_finite(result.exact.worst_row),
        limit=result.exact.limit,
        reads=result.exact.reads,
        reason=result.reason,
        slice_of=result.slice_of,
        runs=timing and timing.runs,
        mean_ns=timing and timing.mean,
        std_ns=timing and _finite(timing.std),
        err_ns=timing and _finite(timing.err),
        best_ns=timing and timing.best,
        worst_ns=timing and timing.worst,
        samples_ns=result.samples_ns if timing else (),
        exposed_ns=result.exposed_ns if timing else (),
        floor_ns=floor and floor.floor_ns,
        bandwidth=floor and floor.bandwidth,
    )


def _checked(run_id: str, position: int, named: dict[str, str], result: ShapeCheck) -> CaseRecord:
    return CaseRecord(
        run_id=run_id,
        position=position,
        **named,
        shape=result.label,
        status="pass" if result.passed else "fail",
        official=result.official.status,
        mismatch_ratio=result.official.mismatch_ratio,
        exact=result.exact.status,
        error=_finite(result.exact.error),
        worst_row=_finite(result.exact.worst_row),
        limit=result.exact.limit,
        reads=result.exact.reads,
        probes={name: {"status": probe.status, "detail": probe.detail} for name, probe in result.probes.items()},
        reason=result.reason,
        slice_of=result.slice_of,
    )


def _compared(
    run_id: str, a: Variant, b: Variant, comparison: Comparison, shape: str | None, outcome: Outcome, position: int
) -> ComparisonRecord:
    samples = getattr(outcome, "samples", ())
    return ComparisonRecord(
        run_id=run_id,
        position=position,
        a=a.name,
        a_hash=a.source_hash,
        b=b.name,
        b_hash=b.source_hash,
        shape=shape,
        ratio=outcome.ratio,
        low=outcome.low,
        high=outcome.high,
        verdict=outcome.verdict,
        reason=outcome.reason,
        noise_floor=outcome.noise_floor,
        detectable=outcome.detectable,
        p_holm=outcome.p_holm,
        delta=comparison.delta,
        blocks=comparison.blocks,
        processes=comparison.processes,
        a_ns=getattr(outcome, "a_ns", None),
        b_ns=getattr(outcome, "b_ns", None),
        samples_ns=tuple(time_ns for quad in samples for time_ns in quad.times_ns),
    )


def _finite(value: float | None) -> float | None:
    # SQLite stores NaN as NULL; infinity would come back as such and be no JSON.
    return value if value is not None and abs(value) < float("inf") else None
