"""What was decided about one output, and from which figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["pass", "fail", "not checked"]


@dataclass(frozen=True)
class OfficialVerdict:
    """The platform's rule, exactly.

    mismatch_ratio: share of output values outside the problem's own tolerance; None where it was not counted.
    message: what `check_implementation` said.
    """

    status: Status
    message: str
    mismatch_ratio: float | None = None


@dataclass(frozen=True)
class ExactVerdict:
    """The error against the float64 truth of the inputs that the submission declares to read.

    error: relative Frobenius error, ‖output − truth‖ / ‖truth‖, over the whole output; worst_row: the same
    over the worst row (for attention: one head of one query). Both None where nothing could be compared.
    limit: the largest error and row error that pass, from the declared rounding.
    reads: what the truth was made of, for example `fp8`; declared_by: 'variant', 'option' or 'best fit'.
    """

    status: Status
    detail: str
    error: float | None = None
    worst_row: float | None = None
    limit: float | None = None
    reads: str | None = None
    declared_by: str | None = None
