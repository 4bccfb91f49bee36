"""A problem's optional `truth.py`: what a right answer is, beyond the platform's own check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from harness.errors import BrokenSubmission, FileProblem
from harness.problem.problem import Problem

if TYPE_CHECKING:
    import torch

Declaration = Mapping[str, Any]


class Truth(Protocol):
    """The functions that a `truth.py` offers. `data` is what `generate_input` returned.

    A declaration is a file's `VARIANT` (or what `--kv` and `--rounding` said in its place); `truth`, `limit`,
    `describe` and `bytes_needed` raise ValueError for one that they cannot read. Optional: `arithmetic_error`,
    `bytes_needed`, `output_device`, and what the probes draw (`changed_parts`, `hard_values`, `hard_shapes`,
    `sensitive_keys`).
    """

    def candidates(self) -> list[Declaration]:
        """Declarations to try for a file that declares nothing."""

    def describe(self, declaration: Declaration) -> str:
        """What the declaration reads, in a word or two."""

    def limit(self, declaration: Declaration) -> float:
        """Largest relative error, of the whole output and of any row, that passes."""

    def truth(self, data: Any, declaration: Declaration) -> torch.Tensor:
        """The right output in float64."""

    def output_shape(self, data: Any) -> tuple[int, ...]:
        """The shape that an output must have."""

    def output_dtype(self, data: Any) -> torch.dtype:
        """The dtype that an output must have."""

    def rows(self, output: torch.Tensor) -> torch.Tensor:
        """The output as (rows, values) so that no small row hides in a large norm."""

    def row_name(self, index: int) -> str:
        """What one row is."""

    def slice_arguments(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """A smaller case that exercises the same code, for slow devices, and how to say so."""

    def arithmetic_error(self, data: Any, declaration: Declaration, expected: torch.Tensor) -> torch.Tensor | None:
        """By rows, the error that the declared rounding makes by itself on these inputs, or None where it is none."""

    def bytes_needed(self, data: Any, declaration: Declaration) -> int:
        """Bytes that any right kernel must move."""


def load_truth(problem: Problem) -> Truth | None:
    """The problem's truth module, or None where the folder has none."""
    try:
        return problem.load_module("truth")
    except FileProblem:
        return None


def check_declaration(truth: Truth, declaration: Declaration, file: str) -> None:
    """Raise BrokenSubmission when the problem cannot read what the file declares."""
    try:
        truth.limit(declaration)
        truth.describe(declaration)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BrokenSubmission(f"{file}: VARIANT: {error}") from None
