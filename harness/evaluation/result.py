"""The record of one evaluation: what ran, on what, and what each case gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from harness.checking.verdict import ExactVerdict, OfficialVerdict
from harness.targets.machine import Machine
from harness.timing.clocks import ByteFloor, EmptyTimes, median_ns
from harness.timing.statistics import Statistics

Mode = Literal["test", "benchmark", "leaderboard", "profile"]
MODES: tuple[Mode, ...] = ("test", "benchmark", "leaderboard", "profile")
TIMED_MODES: tuple[Mode, ...] = ("benchmark", "leaderboard")


@dataclass(frozen=True)
class CaseResult:
    """One case.

    shape: `S3`, or the spec's label where no benchmark has this shape. spec: the platform's case line.
    status: `pass` when both verdicts pass, `fail` when either fails or the child died, `not checked` when it
    could not run here. reason: one line saying why it is not `pass` (empty otherwise).
    slice_of: for a run on the CPU, how much of the shape ran, e.g. `2 of 64 sequences`; None for all of it.
    timing: None wherever no real device was timed (interpreter, stand-in, failure before the first run).
    samples_ns: every call timed on the queued clock, in order, in nanoseconds; exposed_ns: the same on the exposed
    clock. floor: what moving the bytes alone would take; None where nothing was timed or the problem does not say.
    profile: the profiler's table, in profile mode. traceback: the submission's own, where it raised.
    """

    shape: str
    spec: str
    status: Literal["pass", "fail", "not checked"]
    official: OfficialVerdict
    exact: ExactVerdict
    reason: str = ""
    slice_of: str | None = None
    timing: Statistics | None = None
    samples_ns: tuple[float, ...] = ()
    profile: str | None = None
    traceback: str = ""
    exposed_ns: tuple[float, ...] = ()
    floor: ByteFloor | None = None

    @property
    def queued_median_ns(self) -> float | None:
        """Median on the queued clock, in nanoseconds; None for a case without a timing."""
        return median_ns(self.samples_ns) if self.timing is not None else None

    @property
    def exposed_median_ns(self) -> float | None:
        """Median on the exposed clock, in nanoseconds; None for a case without a timing."""
        return median_ns(self.exposed_ns) if self.timing is not None else None

    @property
    def floor_share(self) -> float | None:
        """The share of the byte floor that the queued median reached."""
        queued_ns = self.queued_median_ns
        return None if self.floor is None or queued_ns is None else self.floor.share(queued_ns)


@dataclass(frozen=True)
class Evaluation:
    """One file evaluated in one mode.

    score_ns: the platform's score in nanoseconds, None unless every benchmark case passed and was timed.
    notes: sentences that must be read with the result (interpreted, stand-in, cut short by a limit …).
    stdout, stderr: what the submission printed, cut to a bounded length. duration_s: wall time of the run.
    empty: what the clocks showed without a submission, in the same child; None where nothing was timed.
    clear_bytes: written before each timed call. first_calls_s, timed_calls_s: the parts of duration_s that went to
    first calls, where a submission compiles, and to timed ones with their clears. processes: how many shared those.
    """

    file: str
    source_hash: str
    mode: Mode
    machine: Machine
    cases: tuple[CaseResult, ...]
    score_ns: float | None
    notes: tuple[str, ...] = ()
    stdout: str = ""
    stderr: str = ""
    duration_s: float = 0.0
    stages: tuple[Evaluation, ...] = field(default=())
    empty: EmptyTimes | None = None
    clear_bytes: int | None = None
    first_calls_s: float = 0.0
    timed_calls_s: float = 0.0
    processes: int = 1

    @property
    def own_s(self) -> float:
        """Seconds that the toolkit took for itself: starting, inputs, verdicts and the bandwidth."""
        return self.duration_s - self.first_calls_s - self.timed_calls_s

    @property
    def passed(self) -> bool:
        """True when there were cases and every one passed both verdicts."""
        return bool(self.cases) and all(case.status == "pass" for case in self.cases)
