"""Runs a plan: opens the arms, warms, times every quad, and stops at the first failure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from harness.compare.arm import ARMS, Arm, ArmName, ComparisonStopped, OpenArms
from harness.compare.plan import DEFAULT_RESAMPLES, Plan, Quad
from harness.compare.record import Comparison, QuadTimes
from harness.compare.verdict import DEFAULT_DELTA
from harness.errors import HarnessError, WorkerFailed

# Blocks done and blocks in all, over processes and shapes.
OnBlock = Callable[[int, int], None]


def ignore_progress(done: int, total: int) -> None:
    """For a caller that shows no progress."""


def measure(
    names: Mapping[ArmName, str],
    plan: Plan,
    open_arms: OpenArms,
    on_block: OnBlock = ignore_progress,
    now_s: Callable[[], float] = time.monotonic,
) -> tuple[QuadTimes, ...]:
    """Every quad of the plan, timed, in the order of time.

    names: what to call each arm in a message. now_s: wall clock of the warm-up, in seconds.
    Raises ComparisonStopped, with the arm's own reason, at the first HarnessError of an arm; the arms are closed then,
    and what was timed is given up, because a part of a plan has no verdict.
    """
    total = plan.processes * plan.blocks * len(plan.shapes)
    timed: list[QuadTimes] = []
    done = 0
    for process in range(plan.processes):
        with open_arms(plan.import_order(process)) as arms:
            call = _Caller(names, arms, plan)
            call.warm_up(process, now_s)
            for quads in plan.visits(process):
                call.untimed_round(quads[0].shape, f"before block {quads[0].block + 1}", process)
                timed.extend(call.time_quad(quad) for quad in quads)
                done += 1
                on_block(done, total)
    return tuple(timed)


def compare(
    a: str,
    b: str,
    plan: Plan,
    open_arms: OpenArms,
    delta: float = DEFAULT_DELTA,
    resamples: int = DEFAULT_RESAMPLES,
    on_block: OnBlock = ignore_progress,
    now_s: Callable[[], float] = time.monotonic,
) -> Comparison:
    """Measure and analyse A against B.

    a, b: the files or variants as the user named them. delta: the least relative difference that matters.
    resamples: of the sign-flip test and of the bootstrap. on_block, now_s: as in `measure`.
    Raises ComparisonStopped as `measure` does, and HarnessError for a δ that is not a fraction.
    """
    from harness.compare import analysis  # NumPy and SciPy, late

    analysis.check_delta(delta)
    names: dict[ArmName, str] = {"a": f"A ({a})", "b": f"B ({b})", "a_copy": f"the copy of A ({a})"}
    samples = measure(names, plan, open_arms, on_block, now_s)
    return analysis.analyse(a, b, plan, samples, delta, resamples)


class _Caller:
    """Calls the arms of one process, and says where a call failed."""

    def __init__(self, names: Mapping[ArmName, str], arms: Mapping[ArmName, Arm], plan: Plan) -> None:
        self._names, self._arms, self._plan = names, arms, plan
        self._spare_draw = plan.measured_draws

    def warm_up(self, process: int, now_s: Callable[[], float]) -> None:
        """Rounds over all shapes, at least one and at least `plan.warmup_s` seconds of them."""
        started = now_s()
        while True:
            for shape in self._plan.shapes:
                self.untimed_round(shape, "warming up", process)
            if now_s() - started >= self._plan.warmup_s:
                return

    def untimed_round(self, shape: str, where: str, process: int) -> None:
        """One call of each arm that is verified and not kept, on inputs that no timed call sees."""
        for name in ARMS:
            self._call(name, shape, self._spare_draw, where, process)
        self._spare_draw += 1

    def time_quad(self, quad: Quad) -> QuadTimes:
        where = f"block {quad.block + 1} of {self._plan.blocks}"
        return QuadTimes(
            quad, tuple(self._call(name, quad.shape, quad.draw, where, quad.process) for name in quad.calls)
        )

    def _call(self, name: ArmName, shape: str, draw: int, where: str, process: int) -> float:
        try:
            time_ns = self._arms[name].measure(shape, draw)
            if not (math.isfinite(time_ns) and time_ns > 0):
                raise WorkerFailed(f"its clock gave {time_ns} ns, which is no duration")
            return time_ns
        except HarnessError as error:
            stopped = ComparisonStopped(
                f"stopped without a verdict: {self._names[name]} failed on {shape}, {where}, "
                f"process {process + 1} of {self._plan.processes}: {error}"
            )
            stopped.exit_code = error.exit_code
            raise stopped from error
