"""The platform's four modes, each as what happens to one case."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from harness.checking.verdict import ExactVerdict, OfficialVerdict
from harness.errors import WorkerFailed
from harness.evaluation.bench import Bench, Call
from harness.evaluation.child import SubmissionError
from harness.evaluation.profile_run import Profile
from harness.evaluation.protocol import Deadline, DeadlinePassed
from harness.evaluation.referee import Draw, Referee
from harness.evaluation.result import CaseResult
from harness.problem.case import Case
from harness.problem.problem import Shape
from harness.timing.clocks import ByteFloor, Clock
from harness.timing.statistics import StopRule, statistics_of

# The platform moves the seed by this much for each timed call of the leaderboard mode.
SEED_STEP = 13
# Warm-up and measured loops of gpu-mode/reference-kernels' eval.py (2026): runs and summed time at most.
WARMUP = {"benchmark": StopRule(100, 0.1e9), "leaderboard": StopRule(100, 10e6)}
MEASURED = {"benchmark": StopRule(1000, 50e9), "leaderboard": StopRule(100, 30e9)}
# Of the exposed clock, after the platform's own loop: at most 30 calls or about a second of a case, whatever the error.
EXPOSED = StopRule(30, 1e9, wall_ns=1e9, relative_error=0.0)
_UNJUDGED = OfficialVerdict("not checked", "")
_UNKNOWN = ExactVerdict("not checked", "")


@dataclass(frozen=True)
class Conditions:
    """How cases are run.

    call_limit_s: a call that takes longer is a hang. clear_bytes: written before each timed call, None for the
    platform's own clear. deadline: when everything must stop; what was measured by then is kept. bandwidth: measures
    bytes a second of this device, for the byte floor. processes: how many share a case's timed calls.
    """

    deadline: Deadline
    call_limit_s: float
    clear_bytes: int | None
    timed: bool
    bandwidth: Callable[[], float]
    processes: int = 1

    def call_deadline(self) -> Deadline:
        """When the call that starts now must have answered."""
        return self.deadline.earlier_of(Deadline.after(self.call_limit_s))


@dataclass
class CaseRun:
    """One case under way: `run` never raises for what a submission does.

    profile: how profile mode looks at a call; None for torch's profiler in the child. first_calls_s, timed_calls_s:
    wall time so far in first calls, where the submission compiles, and in timed ones with their clears.
    """

    bench: Bench
    referee: Referee
    conditions: Conditions
    case: Case
    shape: Shape | None
    profile: Profile | None = None
    stand_in: bool = False
    first_calls_s: float = 0.0
    timed_calls_s: float = 0.0

    def run(self, mode: str) -> CaseResult:
        """The case's result in this mode."""
        steps: dict[str, Callable[[CaseResult], CaseResult]] = {
            "test": lambda result: result,
            "benchmark": self._repeat_on_same_inputs,
            "leaderboard": self._repeat_on_fresh_inputs,
            "profile": self._profile,
        }
        label = self.shape.name if self.shape else self.case.spec
        blank = CaseResult(label, self.case.spec, "fail", _UNJUDGED, _UNKNOWN)
        if self.conditions.deadline.passed:
            return replace(blank, reason="the limit of time came before this case")
        try:
            self._draw = self.referee.draw(self.case)
            blank = replace(blank, slice_of=self._draw.slice_note)
            result = self._judged(blank, self._first_call())
            return steps[mode](result) if result.status == "pass" else result
        except WorkerFailed as error:
            return replace(blank, reason=self._reason(error), traceback=getattr(error, "traceback", ""))

    def warm_up(self, mode: str) -> None:
        """The platform's unreported repeats on the first case."""
        if mode not in WARMUP or not self.conditions.timed:
            return
        try:
            draw = self.referee.draw(self.case)
            self.bench.put(draw.data, self.conditions.call_deadline())
            if not self._call().stand_in:
                self._loop(WARMUP[mode], lambda: self._timed_call().time_ns or 0.0)
        except WorkerFailed:
            # The case itself follows and reports what is wrong.
            return

    @property
    def _key(self) -> tuple[Any, ...] | None:
        sliced = self._draw.slice_note is not None
        return self.shape.key if self.shape is not None and sliced else None

    def _first_call(self) -> Call:
        self.bench.put(self._draw.data, self.conditions.call_deadline())
        return self._call(self._key)

    def _call(self, key: tuple[Any, ...] | None = None) -> Call:
        began_s = time.monotonic()
        try:
            return self.bench.call(self.conditions.call_deadline(), key)
        finally:
            self.first_calls_s += time.monotonic() - began_s

    def _judged(self, result: CaseResult, call: Call, draw: Draw | None = None) -> CaseResult:
        draw = draw or self._draw
        self.stand_in |= call.stand_in
        exact = self.referee.exact(draw, call.output)
        wrong_kind = self.referee.malformed(draw, call.output)
        official = OfficialVerdict("fail", wrong_kind) if wrong_kind else self.referee.official(draw, call.output)
        passed = official.status == "pass" and exact.status != "fail"
        reason = ""
        if official.status != "pass":
            reason = f"official: {official.message.splitlines()[0] if official.message else 'rejected'}"
        if exact.status == "fail":
            known = official.status == "pass" or wrong_kind
            reason = f"exact: {exact.detail}" if known else f"{reason}; exact: {exact.detail}"
        return replace(result, status="pass" if passed else "fail", official=official, exact=exact, reason=reason)

    @property
    def _timed(self) -> bool:
        return self.conditions.timed and not self.stand_in

    def _timed_call(self, clock: Clock = "queued") -> Call:
        began_s = time.monotonic()
        call = self.bench.time(self.conditions.call_deadline(), self.conditions.clear_bytes, clock=clock)
        self.timed_calls_s += time.monotonic() - began_s
        self.stand_in |= call.stand_in
        return call

    def _repeat_on_same_inputs(self, result: CaseResult) -> CaseResult:
        def once(clock: Clock) -> float | CaseResult:
            return self._exact_time(result, self._timed_call(clock), self._draw)

        return self._measure(result, MEASURED["benchmark"], once)

    def _repeat_on_fresh_inputs(self, result: CaseResult) -> CaseResult:
        case, draw = self.case, self._draw

        def once(clock: Clock) -> float | CaseResult:
            nonlocal case, draw
            if clock == "exposed":
                # No part of the platform's mode: these calls take the last inputs again.
                return self._exact_time(result, self._timed_call(clock), draw)
            case = case.with_seed_plus(SEED_STEP)
            draw = self.referee.draw(case)
            self.bench.put(draw.data, self.conditions.call_deadline())
            call = self._timed_call(clock)
            judged = self._judged(result, call, draw)
            if judged.status != "pass":
                return replace(judged, reason=f"a timed call was wrong; {judged.reason}")
            return call.time_ns or 0.0

        return self._measure(result, MEASURED["leaderboard"], once)

    def _exact_time(self, result: CaseResult, call: Call, draw: Draw) -> float | CaseResult:
        """A timed call's nanoseconds or, where its output is wrong, the failed result."""
        exact = self.referee.exact(draw, call.output)
        if exact.status == "fail":
            reason = f"a timed call was wrong; exact: {exact.detail}"
            return replace(result, status="fail", exact=exact, reason=reason)
        return call.time_ns or 0.0

    def _measure(self, result: CaseResult, rule: StopRule, once: Callable[[Clock], float | CaseResult]) -> CaseResult:
        """The platform's loop on the queued clock, then a few calls on the exposed one.

        once(clock) gives a time in nanoseconds or, when a call was wrong, the failed result.
        """
        if not self._timed:
            return result
        samples, ended = self._loop(rule.shared_by(self.conditions.processes), lambda: once("queued"))
        exposed: list[float] = []
        if ended is None:
            exposed, ended = self._exposed(once)
        if self.stand_in:
            return result
        result = replace(result, samples_ns=tuple(samples), exposed_ns=tuple(exposed))
        if isinstance(ended, CaseResult):
            return replace(ended, samples_ns=result.samples_ns, exposed_ns=result.exposed_ns, timing=None)
        result = replace(result, timing=statistics_of(samples) if samples else None, floor=self._floor())
        return result if ended is None else replace(result, status="fail", reason=self._reason(ended))

    def _exposed(
        self, once: Callable[[Clock], float | CaseResult]
    ) -> tuple[list[float], CaseResult | WorkerFailed | None]:
        """Samples of the exposed clock; none where the limit of time came first, which is no failure of the case."""
        samples, ended = self._loop(EXPOSED.shared_by(self.conditions.processes), lambda: once("exposed"))
        came_first = isinstance(ended, DeadlinePassed) and self.conditions.deadline.passed
        return samples, None if came_first else ended

    def _floor(self) -> ByteFloor | None:
        needed = self.referee.bytes_needed(self._draw)
        return None if needed is None else ByteFloor(needed, self.conditions.bandwidth())

    def _loop(
        self, rule: StopRule, once: Callable[[], float | CaseResult]
    ) -> tuple[list[float], CaseResult | WorkerFailed | None]:
        """Samples until the rule is reached, and what ended the loop before that."""
        samples: list[float] = []
        began = time.perf_counter_ns()
        while not self.stand_in and not rule.reached(samples, time.perf_counter_ns() - began):
            if self.conditions.deadline.passed:
                return samples, None if samples else DeadlinePassed("the limit of time came first")
            try:
                step = once()
            except DeadlinePassed as error:
                cut_short = samples and self.conditions.deadline.passed
                return samples, None if cut_short else error
            except WorkerFailed as error:
                return samples, error
            if isinstance(step, CaseResult):
                return samples, step
            samples.append(step)
        return samples, None

    def _profile(self, result: CaseResult) -> CaseResult:
        deadline = self.conditions.call_deadline()
        if self.profile is None:
            return replace(result, profile=self.bench.profile(deadline, self._key))
        return replace(result, profile=self.profile(self._draw.data, self._key, deadline))

    def _reason(self, error: WorkerFailed) -> str:
        if isinstance(error, SubmissionError):
            where = f" (line {error.line} of the submission)" if error.line else ""
            return f"{str(error).splitlines()[0]}{where}" if str(error) else f"raised{where}"
        if isinstance(error, DeadlinePassed) and self.conditions.deadline.passed:
            return "the limit of time came during this case"
        if isinstance(error, DeadlinePassed):
            return f"hung: no answer within {self.conditions.call_limit_s:g} s"
        return str(error)
