"""The platform's statistics of one case's timings, its stop rule, and its score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import BrokenTask


@dataclass(frozen=True)
class Statistics:
    """Of timed calls, in nanoseconds, except `runs`.

    mean, std (over n−1), err (std/√n), best, worst: as in gpu-mode/reference-kernels' eval.py (2026).
    std and err are NaN for a single run, where they are not defined.
    """

    runs: int
    mean: float
    std: float
    err: float
    best: float
    worst: float


def statistics_of(samples_ns: Sequence[float]) -> Statistics:
    """The statistics of at least one sample, in nanoseconds. Raises ValueError for none."""
    runs = len(samples_ns)
    if runs == 0:
        raise ValueError("statistics need at least one sample")
    mean = sum(samples_ns) / runs
    if runs == 1:
        std = err = math.nan
    else:
        std = math.sqrt(sum((sample - mean) ** 2 for sample in samples_ns) / (runs - 1))
        err = std / math.sqrt(runs)
    return Statistics(runs, mean, std, err, float(min(samples_ns)), float(max(samples_ns)))


@dataclass(frozen=True)
class StopRule:
    """When the platform stops repeating a case.

    max_runs: upper bound of runs; max_time_ns: bound of mean·runs; wall_ns: bound of the loop's wall time,
    120 s on the platform; relative_error: of the mean, 0.1 % on the platform. Checked from the third run on.
    """

    max_runs: int
    max_time_ns: float
    wall_ns: float = 120e9
    relative_error: float = 0.001

    def shared_by(self, processes: int) -> StopRule:
        """The rule of each of so many processes whose samples are put together: about as many as one would take."""
        return StopRule(
            math.ceil(self.max_runs / processes),
            self.max_time_ns / processes,
            self.wall_ns / processes,
            self.relative_error * math.sqrt(processes),
        )

    def reached(self, samples_ns: Sequence[float], wall_ns: float) -> bool:
        """Whether to stop after these samples, `wall_ns` after the loop began."""
        if len(samples_ns) >= self.max_runs:
            return True
        if len(samples_ns) < 3:
            return False
        now = statistics_of(samples_ns)
        return (
            now.err / now.mean < self.relative_error or now.mean * now.runs > self.max_time_ns or wall_ns > self.wall_ns
        )


def score_ns(means_ns: Sequence[float], ranking_by: str) -> float:
    """The platform's score of the benchmark means, in nanoseconds (the platform prints it in seconds).

    ranking_by: `last` (exactly one benchmark), `mean` or `geom`. Raises BrokenTask for `last` with several.
    """
    if ranking_by == "last":
        if len(means_ns) != 1:
            raise BrokenTask(f"ranking_by 'last' needs exactly one benchmark, got {len(means_ns)}")
        return means_ns[0]
    if ranking_by == "mean":
        return sum(means_ns) / len(means_ns)
    return math.exp(sum(math.log(mean) for mean in means_ns) / len(means_ns))
