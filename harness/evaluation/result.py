"""The record of one evaluation: what ran, on what, and what each case gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from harness.checking.verdict import ExactVerdict, OfficialVerdict
from harness.targets.machine import Machine
from harness.timing.statistics import Statistics

Mode = Literal["test", "benchmark", "leaderboard", "profile"]
MODES: tuple[Mode, ...] = ("test", "benchmark", "leaderboard", "profile")


@dataclass(frozen=True)
class CaseResult:
    """One case.

    shape: `S3`, or the spec's label where no benchmark has this shape. spec: the platform's case line.
    status: `pass` when both verdicts pass, `fail` when either fails or the child died, `not checked` when it
    could not run here. reason: one line saying why it is not `pass` (empty otherwise).
    slice_of: for a run on the CPU, how much of the shape ran, e.g. `2 of 64 sequences`; None for all of it.
    timing: None wherever no real device was timed (interpreter, stand-in, failure before the first run).
    samples_ns: every timed call in order, in nanoseconds. profile: the profiler's table, in profile mode.
    traceback: the submission's own, where it raised.
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


@dataclass(frozen=True)
class Evaluation:
    """One file evaluated in one mode.

    score_ns: the platform's score in nanoseconds, None unless every benchmark case passed and was timed.
    notes: sentences that must be read with the result (interpreted, stand-in, cut short by a limit …).
    stdout, stderr: what the submission printed, cut to a bounded length. duration_s: wall time of the run.
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

    @property
    def passed(self) -> bool:
        """True when there were cases and every one passed both verdicts."""
        return bool(self.cases) and all(case.status == "pass" for case in self.cases)
