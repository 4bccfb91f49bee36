"""The parent's side of a case: draws the inputs, keeps the truth, judges what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from harness.checking.exact import Limits, exact_verdict, limits_on, malformed
from harness.checking.official import official_verdict
from harness.checking.truth import Declaration, Truth, check_declaration, load_truth
from harness.checking.verdict import ExactVerdict, OfficialVerdict
from harness.errors import BrokenTask
from harness.problem.case import Case
from harness.problem.problem import Problem
from harness.problem.variant import Variant
from harness.targets.machine import Machine

if TYPE_CHECKING:
    import torch

_NO_TRUTH = ExactVerdict("not checked", "this problem has no truth.py")


@dataclass
class Draw:
    """The inputs of one call. slice_note: how much of the shape it is, where that is not all of it."""

    case: Case
    data: Any
    slice_note: str | None
    truths: dict[str, torch.Tensor] = field(default_factory=dict)
    limits: dict[str, Limits] = field(default_factory=dict)


class Referee:
    """Everything about right and wrong that must stay out of the submission's process."""

    def __init__(
        self, problem: Problem, variant: Variant, machine: Machine, override: Declaration | None = None
    ) -> None:
        self._problem, self._variant, self._machine = problem, variant, machine
        self._override = override
        self._best_fit: Declaration | None = None
        for declaration in self._declared():
            if self.truth is not None and declaration:
                check_declaration(self.truth, declaration, str(variant.path))

    def load(self) -> None:
        """Import the problem's modules now, before threads ask for them."""
        _ = self.reference, self.truth

    @cached_property
    def reference(self) -> ModuleType:
        """The problem's reference module."""
        return self._problem.load_module("reference")

    @cached_property
    def truth(self) -> Truth | None:
        """The problem's truth module, or None."""
        return load_truth(self._problem)

    def draw(self, case: Case) -> Draw:
        """Fresh inputs of a case; a slice of it where kernels are interpreted. Raises BrokenTask."""
        arguments, note = self.arguments(case)
        try:
            data = self.reference.generate_input(**arguments)
        except Exception as error:
            raise BrokenTask(f"generate_input fails on '{case.spec}': {type(error).__name__}: {error}") from error
        return Draw(case, data, note)

    def malformed(self, draw: Draw, output: Any) -> str | None:
        """Why an output is of the wrong kind, where the problem says what kind is right."""
        return None if self.truth is None else malformed(self.truth, draw.data, output)

    def official(self, draw: Draw, output: Any) -> OfficialVerdict:
        """The problem's own verdict."""
        return official_verdict(self.reference, draw.data, output)

    def exact(self, draw: Draw, output: Any) -> ExactVerdict:
        """The verdict against the truth of what the file declares, or of what its output fits best."""
        if self.truth is None:
            return _NO_TRUTH
        return self._exact(draw, output, *self._declaration(draw, output))

    def exact_as(self, draw: Draw, output: Any, declaration: Declaration) -> ExactVerdict:
        """The verdict that an output would have under another declaration."""
        return _NO_TRUTH if self.truth is None else self._exact(draw, output, declaration, "variant")

    def _exact(self, draw: Draw, output: Any, declaration: Declaration, declared_by: str) -> ExactVerdict:
        expected = self._truth_of(draw, declaration)
        key = f"{self.truth.describe(declaration)}, {self.truth.limit(declaration)}"
        if key not in draw.limits:
            draw.limits[key] = limits_on(self.truth, draw.data, declaration, expected)
        return exact_verdict(self.truth, draw.data, output, declaration, expected, declared_by, draw.limits[key])

    def format_cost(self, draw: Draw) -> float | None:
        """Relative error that the declared inputs themselves have against the problem's finest ones, or None.

        The problem says which are the finest by `FINEST`, a declaration.
        """
        finest = getattr(self.truth, "FINEST", None)
        if finest is None:
            return None
        own, best = self._truth_of(draw, self.declaration(draw)), self._truth_of(draw, finest)
        return float((own - best).norm() / best.norm())

    def declaration(self, draw: Draw) -> Declaration:
        """What the file declares for a draw's shape, or what its outputs fit best so far."""
        return self._declaration(draw, None)[0]

    def arguments(self, case: Case) -> tuple[dict[str, Any], str | None]:
        """A case's arguments as they run here, and how much of it that is (None: all)."""
        if self._machine.on_gpu or self.truth is None:
            return dict(case.arguments), None
        return self.truth.slice_arguments(case.arguments)

    def bytes_needed(self, draw: Draw) -> int | None:
        """Bytes that any right kernel must move for this draw, for the declared inputs; None where nobody says."""
        bytes_needed = getattr(self.truth, "bytes_needed", None)
        return None if bytes_needed is None else bytes_needed(draw.data, self._declaration(draw, None)[0])

    def _declared(self) -> list[Declaration]:
        labels = [shape.label for shape in self._problem.shapes]
        return [self._override or self._variant.declaration(label) for label in labels]

    def _declaration(self, draw: Draw, output: Any) -> tuple[Declaration, str]:
        if self._override:
            return self._override, "option"
        shape = self._problem.shape_of(draw.case)
        declared = self._variant.declaration(shape.label if shape else None)
        if declared:
            return declared, "variant"
        if self._best_fit is None and output is not None and self.malformed(draw, output) is None:
            self._best_fit = self._fit(draw, output)
        return self._best_fit or self.truth.candidates()[0], "best fit"

    def _fit(self, draw: Draw, output: Any) -> Declaration:
        candidates: Sequence[Declaration] = self.truth.candidates()

        def error(declaration: Declaration) -> float:
            expected = self._truth_of(draw, declaration)
            verdict = exact_verdict(self.truth, draw.data, output, declaration, expected, "best fit")
            return float("inf") if verdict.error is None else verdict.error

        return min(candidates, key=error)

    def _truth_of(self, draw: Draw, declaration: Declaration) -> torch.Tensor:
        key = self.truth.describe(declaration)
        if key not in draw.truths:
            draw.truths[key] = self.truth.truth(draw.data, declaration)
        return draw.truths[key]
