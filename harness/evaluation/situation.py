"""What the probes see of one shape of one submission: its child, fresh inputs, and the judge."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.checking.verdict import ExactVerdict
from harness.evaluation.bench import Bench
from harness.evaluation.protocol import Deadline, flatten
from harness.evaluation.referee import Draw, Referee
from harness.problem.case import Case
from harness.problem.problem import Shape
from harness.problem.variant import Variant
from harness.targets.bandwidth import measured_bandwidth
from harness.timing.clear import CLEAR_BYTES

if TYPE_CHECKING:
    import torch

CALL_LIMIT_S = 300.0


@dataclass
class BenchSubject:
    """The probes' view of a bench: every call goes to the shape's own entry, within the limit of a call."""

    bench: Bench
    key: tuple[Any, ...] | None
    stood_in: bool = False
    reused: bool = False
    held: int = 0

    def put(self, data: Any, slot: str = "inputs", *, counted: bool = False) -> None:
        """Write inputs in place."""
        self.bench.put(data, self._deadline(), slot, counted=counted)

    def free(self, slot: str) -> None:
        """Drop a slot's tensors."""
        self.bench.free(self._deadline(), slot)

    def call(self, slot: str = "inputs", *, keep: str | None = None, poison: int | None = None) -> Any:
        """One call's output."""
        call = self.bench.call(self._deadline(), self.key, slot, keep, poison, hold=True)
        self.stood_in |= call.stand_in
        self.reused |= call.reused
        self.held += 1
        return call.output

    @property
    def has_entries(self) -> bool:
        """Whether it is a merged file, whose shapes are reached through `entry_for`."""
        return self.bench.has_entries

    def call_entry_point(self, slot: str = "inputs") -> Any:
        """One call of `custom_kernel` itself."""
        return self.bench.call(self._deadline(), None, slot).output

    def kept(self, name: str) -> Any:
        """A kept output, as its memory is now."""
        return self.bench.kept(self._deadline(), name)

    def overlap(self, first: str, second: str) -> bool:
        """Whether two kept outputs share memory."""
        return self.bench.overlap(self._deadline(), first, second)

    def inputs(self, slot: str = "inputs") -> list[Any]:
        """The slot's input tensors as they are now."""
        return self.bench.inputs(self._deadline(), slot)

    def early_and_late(self, slot: str = "inputs") -> tuple[Any, Any]:
        """One call's output at once, and after everything has come to rest."""
        return self.bench.early_and_late(self._deadline(), self.key, slot)

    def time(self, slot: str = "inputs") -> tuple[float, Any]:
        """One timed call: nanoseconds, and its output."""
        call = self.bench.time(self._deadline(), CLEAR_BYTES, self.key, slot)
        return call.time_ns or 0.0, call.output

    def repeat(self, count: int, slot: str = "inputs") -> tuple[float, float, Any]:
        """`count` calls in a row: this process's clock, the events' claim, the last output."""
        return self.bench.repeat(self._deadline(), count, self.key, slot)

    def _deadline(self) -> Deadline:
        return Deadline.after(CALL_LIMIT_S)


@dataclass
class ShapeSituation:
    """One shape of one file. Seeds are drawn here, anew for every input, and never leave this process."""

    subject: BenchSubject
    referee: Referee
    variant: Variant
    shape: Shape
    others: tuple[Shape, ...]
    on_gpu: bool
    new_seed: Callable[[], int] = field(default=lambda: secrets.randbelow(1 << 31))

    @property
    def timed(self) -> bool:
        """Whether timings mean anything here."""
        return self.on_gpu and not self.subject.stood_in

    @property
    def path(self) -> str:
        """The submission's file."""
        return str(self.variant.path)

    @property
    def source(self) -> str:
        """Its text."""
        return self.variant.source

    def draw(self) -> Any:
        """Fresh inputs of the shape."""
        return self.referee.draw(self._case(self.shape)).data

    def draw_other_shape(self) -> Any | None:
        """Fresh inputs of another shape that the file takes, or None."""
        return self.referee.draw(self._case(self.others[0])).data if self.others else None

    def tensors(self, data: Any) -> list[torch.Tensor]:
        """The tensors of inputs, in the order in which they were put."""
        leaves: list[torch.Tensor] = []
        flatten(data, leaves)
        return leaves

    def special(self, kind: str, data: Any = None) -> Iterable[tuple[str, Any]] | None:
        """Named inputs of one kind, or None where the problem offers none."""
        make = getattr(self.referee.truth, kind.replace(" ", "_"), None)
        if make is None:
            return None
        declaration = self.referee.declaration(Draw(self.shape.case, None, None))
        ragged = bool(declaration.get("ragged", False))
        arguments, _ = self.referee.arguments(self._case(self.shape))
        if kind == "changed parts":
            return make(data, self.draw(), ragged=ragged)
        if kind == "hard shapes":
            return make(arguments, tuple(declaration.get("q_seq_len", (1,))), ragged=ragged)
        return make(arguments)

    def judge(self, data: Any, output: Any) -> ExactVerdict:
        """The exact verdict."""
        return self.referee.exact(Draw(self.shape.case, data, None), output)

    def judge_any(self, data: Any, output: Any) -> ExactVerdict:
        """The exact verdict under the shape's or the fallback's declaration, whichever passes."""
        own = self.judge(data, output)
        if own.status == "pass":
            return own
        fallback = self.variant.declaration(None)
        return self.referee.exact_as(Draw(self.shape.case, data, None), output, fallback) if fallback else own

    def bytes_needed(self, data: Any) -> int | None:
        """Bytes that any right kernel must move."""
        return self.referee.bytes_needed(Draw(self.shape.case, data, None))

    def bandwidth(self) -> float:
        """Bytes a second, measured once in this run."""
        return measured_bandwidth()

    def _case(self, shape: Shape) -> Case:
        return shape.case if "seed" not in shape.case.arguments else _reseeded(shape.case, self.new_seed())


def _reseeded(case: Case, seed: int) -> Case:
    return Case({**case.arguments, "seed": seed}, case.spec)
