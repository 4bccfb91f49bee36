"""An evaluation as JSON, in the shape that README documents.

Keys: `file`, `mode`, `device`, `check` ("pass" where every case passed both verdicts, else "fail"), `score_ns`,
`notes` (sentences to be read with the result) and `cases`. A case: `shape`, `spec`, `status`, `reason` (why it is not
"pass", else empty), `slice_of` (how much of the shape ran, null for all), `official` and `exact` (statuses of the two
verdicts: "pass", "fail", "not checked"), `error` (relative error of the exact verdict), and `runs`, `mean`, `std`,
`err`, `best`, `worst` in nanoseconds (`runs` is a count). A figure that does not exist is null: all of the last six
where no real device was timed, `std` and `err` after a single run.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from harness.evaluation.result import CaseResult, Evaluation
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
        "cases": [_case(case) for case in cases],
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
    }


def _figure(value: float | None) -> float | None:
    """The figure, or None for one that is absent or that JSON cannot hold."""
    return value if value is not None and math.isfinite(value) else None
