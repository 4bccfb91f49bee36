"""The `exact` verdict: the error of an output against the float64 truth of what the file declares to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.checking.truth import Declaration, Truth
from harness.checking.verdict import ExactVerdict

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Errors:
    """Relative Frobenius errors: of the whole output, and of its worst row with that row's index."""

    whole: float
    worst_row: float
    worst_index: int


def relative_errors(output: torch.Tensor, truth: torch.Tensor, rows: Callable[[Any], Any]) -> Errors:
    """‖output − truth‖ / ‖truth‖ in float64, over everything and over each row.

    A row whose truth is zero counts its own norm as the error: 0 when it is zero too, infinite otherwise.
    """
    import torch

    difference, expected = rows(output.double() - truth), rows(truth)
    row_difference = torch.linalg.vector_norm(difference, dim=1)
    row_norm = torch.linalg.vector_norm(expected, dim=1)
    by_row = torch.where(row_difference == 0, torch.zeros_like(row_norm), row_difference / row_norm)
    worst = int(by_row.argmax())
    norm = float(torch.linalg.vector_norm(row_norm))
    total = float(torch.linalg.vector_norm(row_difference))
    return Errors(total / norm if norm else (0.0 if total == 0 else float("inf")), float(by_row[worst]), worst)


def malformed(truth: Truth, data: Any, output: Any) -> str | None:
    """Why the output is not even of the right kind, or None."""
    import torch

    if type(output) is not torch.Tensor:
        return f"the output is a {type(output).__name__}, expected a tensor"
    shape, dtype = truth.output_shape(data), truth.output_dtype(data)
    if tuple(output.shape) != tuple(shape):
        return f"the output's shape is {tuple(output.shape)}, expected {tuple(shape)}"
    if output.dtype != dtype:
        return f"the output's dtype is {_name(output.dtype)}, expected {_name(dtype)}"
    device = getattr(truth, "output_device", None)
    if device is not None and output.device.type != device(data).type:
        return f"the output lies on {output.device.type}, expected {device(data).type}"
    if not output.is_contiguous():
        return f"the output is not contiguous: strides {tuple(output.stride())} for shape {tuple(shape)}"
    return None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Limits:
    """Largest errors that pass: of the whole output, and of any row."""

    whole: float
    row: float


# What a file that declares coarse rounding may add to the error that such rounding makes by itself.
LEAVE = 1.5


def limits_on(truth: Truth, data: Any, declaration: Declaration, expected: torch.Tensor) -> Limits:
    """The limits on these very inputs: the declared ones, or 1.5 × the error of the declared arithmetic if larger."""
    base = truth.limit(declaration)
    arithmetic = getattr(truth, "arithmetic_error", None)
    error = None if arithmetic is None else arithmetic(data, declaration, expected)
    if error is None:
        return Limits(base, base)
    own = relative_errors(truth.rows(expected) + error, truth.rows(expected), lambda rows: rows)
    return Limits(max(base, LEAVE * own.whole), max(base, LEAVE * own.worst_row))


def exact_verdict(
    truth: Truth,
    data: Any,
    output: Any,
    declaration: Declaration,
    expected: torch.Tensor,
    declared_by: str,
    limits: Limits | None = None,
) -> ExactVerdict:
    """Judge one output; `expected` is `truth.truth(data, declaration)`, on the output's device.

    limits: None takes the declared ones.
    """
    reads = truth.describe(declaration)
    limits = limits or Limits(truth.limit(declaration), truth.limit(declaration))
    limit = max(limits.whole, limits.row)
    wrong_kind = malformed(truth, data, output)
    if wrong_kind:
        return ExactVerdict("fail", wrong_kind, limit=limit, reads=reads, declared_by=declared_by)
    finite = output.isfinite()
    if not bool(finite.all()):
        count = int((~finite).sum())
        detail = f"{count} of {output.numel()} values are NaN or Inf"
        return ExactVerdict("fail", detail, None, None, limit, reads, declared_by)
    errors = relative_errors(output, expected, truth.rows)
    passed = errors.whole <= limits.whole and errors.worst_row <= limits.row
    where = truth.row_name(errors.worst_index)
    detail = f"error {errors.whole:.4f}, worst row {errors.worst_row:.4f} ({where}), limit {limit:.3g} ({reads})"
    status, detail = ("pass", "") if passed else ("fail", detail)
    return ExactVerdict(status, detail, errors.whole, errors.worst_row, limit, reads, declared_by)
