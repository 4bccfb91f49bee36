"""An evaluation as JSON, in the shape that README documents.

Keys: `file`, `mode`, `device`, `check` ("pass" where every case passed both verdicts, else "fail"), `score_ns`,
`notes` (sentences to be read with the result) and `cases`. A case: `shape`, `spec`, `status`, `reason` (why it is not
"pass", else empty), `slice_of` (how much of the shape ran, null for all), `official` and `exact` (statuses of the two
verdicts: "pass", "fail", "not checked"), `error` (relative error of the exact verdict), and `runs`, `mean`, `std`,
`err`, `best`, `worst` of the queued clock in nanoseconds (`runs` is a count), then `queued_median`, `exposed_median`
(nanoseconds on each clock), `exposed_runs`, `bytes_needed` (what a kernel must move for the declared inputs),
`floor_ns` (the time that this takes at `bandwidth`) and `floor_share` (`floor_ns` over `queued_median`). Beside the
cases: `bandwidth` (bytes a second that a reading kernel got in this run), `clear_bytes` (written before each timed
call), and the medians of empty calls in nanoseconds, `empty_queued_ns` and `empty_exposed_ns` with nothing in them,
`empty_queued_launch_ns` and `empty_exposed_launch_ns` with one trivial kernel; `processes` that shared the timed calls;
and in seconds `duration_s`, with `first_calls_s` (where a submission compiles) and `timed_calls_s` in it. A figure that
does not exist is null: all of these where no real device was timed, `std` and `err` after a single run, the floor where
the problem does not say what a kernel must move. docs/measuring.md says how each is measured.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from harness.evaluation.result import CaseResult, Evaluation
from harness.timing.clocks import EmptyTimes
from harness.timing.statistics import Statistics


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """The evaluation in plain values, none of them NaN or infinite.

    With stages, `cases` are those of the last stage that ran, and `check` is of all of them.
    """
    stages = evaluation.stages or (evaluation,)
    cases = evaluation.cases or stages[-1].cases
    return {
        "file": evaluation.file,
        "mode": evaluation.mode,
        "device": evaluation.machine.kind,
        "check": "pass" if evaluation.passed and all(stage.passed for stage in stages) else "fail",
        "score_ns": _figure(evaluation.score_ns),
        "notes": list(evaluation.notes),
        **_conditions(stages[-1]),
        "processes": stages[-1].processes,
        **{
            key: _figure(round(getattr(stages[-1], key), 3)) for key in ("duration_s", "first_calls_s", "timed_calls_s")
        },
        "cases": [_case(case) for case in cases],
    }


def _conditions(stage: Evaluation) -> dict[str, Any]:
    """What the times of a stage are to be read against."""
    bandwidths = [case.floor.bandwidth for case in stage.cases if case.floor is not None]
    return {
        "bandwidth": bandwidths[0] if bandwidths else None,
        "clear_bytes": stage.clear_bytes,
        **{f"empty_{field.name}_ns": _figure(getattr(stage.empty, field.name, None)) for field in fields(EmptyTimes)},
    }


def _case(case: CaseResult) -> dict[str, Any]:
    return {
        "shape": case.shape,
        "spec": case.spec,
        "status": case.status,
        "reason": case.reason,
        "slice_of": case.slice_of,
        "official": case.official.status,
        "exact": case.exact.status,
        "error": _figure(case.exact.error),
        **{field.name: _figure(getattr(case.timing, field.name, None)) for field in fields(Statistics)},
        "queued_median": _figure(case.queued_median_ns),
        "exposed_median": _figure(case.exposed_median_ns),
        "exposed_runs": len(case.exposed_ns) or None,
        "bytes_needed": case.floor and case.floor.bytes_needed,
        "floor_ns": case.floor and _figure(case.floor.floor_ns),
        "floor_share": _figure(case.floor_share),
    }


def _figure(value: float | None) -> float | None:
    """The figure, or None for one that is absent or that JSON cannot hold."""
    return value if value is not None and math.isfinite(value) else None
