"""What a probe is given and what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from harness.checking.verdict import ExactVerdict


@dataclass(frozen=True)
class ProbeResult:
    """status: a probe that makes no sense here is `not applicable`, never a silent pass. detail: what it saw."""

    status: Literal["pass", "fail", "not applicable"]
    detail: str


class Subject(Protocol):
    """The submission in its process. Every method raises WorkerFailed when the submission or its process fails."""

    def put(self, data: Any, slot: str = "inputs", *, counted: bool = False) -> None:
        """Write inputs in place. counted: by a copy that the tensors' version counters see; otherwise past them."""

    def free(self, slot: str) -> None:
        """Drop a slot's tensors."""

    def call(self, slot: str = "inputs", *, keep: str | None = None, poison: int | None = None) -> Any:
        """One call. keep: hold the output under this name. poison: fill uninitialised memory with this byte."""

    @property
    def reused(self) -> bool:
        """Whether any output so far lay in the memory of an earlier one, all of which are kept alive."""

    @property
    def held(self) -> int:
        """How many outputs are kept alive."""

    @property
    def has_entries(self) -> bool:
        """Whether it is a merged file, whose shapes are reached through `entry_for`."""

    def call_entry_point(self, slot: str = "inputs") -> Any:
        """One call of `custom_kernel` itself, as the platform makes it."""

    def kept(self, name: str) -> Any:
        """A kept output, as its memory is now."""

    def overlap(self, first: str, second: str) -> bool:
        """Whether two kept outputs share memory."""

    def inputs(self, slot: str = "inputs") -> list[Any]:
        """The slot's input tensors as they are now."""

    def early_and_late(self, slot: str = "inputs") -> tuple[Any, Any]:
        """One call's output as the default queue sees it at once, and after everything has come to rest."""

    def time(self, slot: str = "inputs") -> tuple[float, Any]:
        """One timed call on the queued clock: nanoseconds, and its output."""

    def repeat(self, count: int, slot: str = "inputs") -> tuple[float, float, Any]:
        """`count` calls in a row: the parent's own clock and the events' claim, both in ns, and the last output."""


class Situation(Protocol):
    """One shape of one submission under probing."""

    @property
    def subject(self) -> Subject:
        """The submission."""

    @property
    def on_gpu(self) -> bool:
        """Whether it runs on a real device."""

    @property
    def timed(self) -> bool:
        """Whether timings mean anything here: on a device, and not through a stand-in."""

    @property
    def path(self) -> str:
        """The submission's file."""

    @property
    def source(self) -> str:
        """Its text."""

    def draw(self) -> Any:
        """Fresh inputs of the shape, from a seed that nobody has seen."""

    def tensors(self, data: Any) -> list[Any]:
        """The tensors of inputs, in the order of `Subject.inputs`."""

    def draw_other_shape(self) -> Any | None:
        """Fresh inputs of another shape that the file takes, or None."""

    def special(self, kind: str, data: Any = None) -> Iterable[tuple[str, Any]] | None:
        """Named inputs that the problem offers for `changed parts`, `hard values`, `hard shapes`, `sensitive keys`."""

    def judge(self, data: Any, output: Any) -> ExactVerdict:
        """The exact verdict, with the leave that the declared rounding has on these inputs."""

    def judge_any(self, data: Any, output: Any) -> ExactVerdict:
        """The exact verdict of an output that the shape's own code or the fallback's made, under the wider limit."""

    def bytes_needed(self, data: Any) -> int | None:
        """Bytes that any right kernel must move."""

    def bandwidth(self) -> float:
        """Bytes a second that this device was measured to move in this run."""


class Probe(Protocol):
    """One question to a submission."""

    @property
    def name(self) -> str:
        """The name on the command line and in the JSON."""

    def run(self, situation: Situation) -> ProbeResult:
        """Ask it. Raises WorkerFailed, which the caller reports as a failed probe."""


def passed(detail: str) -> ProbeResult:
    """A pass, with what was seen."""
    return ProbeResult("pass", detail)


def failed(detail: str) -> ProbeResult:
    """A failure, with what was seen."""
    return ProbeResult("fail", detail)


def not_applicable(why: str) -> ProbeResult:
    """Not asked here, and why."""
    return ProbeResult("not applicable", why)


@dataclass
class Worst:
    """Collects verdicts of one probe: the first failure ends it, otherwise the largest error is what it saw."""

    error: float = 0.0
    count: int = 0

    def take(self, name: str, verdict: ExactVerdict) -> ProbeResult | None:
        """A failure to return, or None to go on."""
        self.count += 1
        if verdict.status == "fail":
            return failed(f"{name}: {verdict.detail}")
        self.error = max(self.error, verdict.worst_row or 0.0)
        return None

    def result(self, what: str) -> ProbeResult:
        """A pass that says how many there were and how near the worst row came."""
        return passed(f"{self.count} {what}, worst row {self.error:.4f}")
