"""The record of one comparison. Every ratio is time of A over time of B: below 1, A is faster."""

from __future__ import annotations

from dataclasses import dataclass

from harness.compare.plan import Quad
from harness.compare.verdict import Reason, Verdict


@dataclass(frozen=True)
class QuadTimes:
    """The six timed calls of one quad, in nanoseconds, in the order of `quad.calls`. Nothing is ever dropped."""

    quad: Quad
    times_ns: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the blocks say of A against B.

    ratio: exp of the mean block difference of log time. low, high: its 95 % interval.
    noise_floor: 95th percentile over the blocks of |difference of A and its copy|, as a relative difference
    (0.01 is 1 %). detectable: the smallest relative difference that this run could have called.
    p: of the sign-flip test; p_holm: the same after Holm over the shapes (for the geomean equal to p).
    reason: why UNDECIDED, a code of `verdict.REASONS`; None for the other verdicts.
    """

    ratio: float
    low: float
    high: float
    verdict: Verdict
    reason: Reason | None
    noise_floor: float
    detectable: float
    p: float
    p_holm: float


@dataclass(frozen=True, kw_only=True)
class ShapeComparison(Outcome):
    """One shape. a_ns, b_ns: median time of all timed calls, in nanoseconds. samples: all of them, in order of time."""

    shape: str
    a_ns: float
    b_ns: float
    samples: tuple[QuadTimes, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A against B on some shapes.

    a, b: the files or variants as the user named them. geomean: of the ratio over the shapes, block by block.
    delta: the least relative difference that matters (0.005 is 0.5 %). blocks: per shape and process.
    resamples: of the sign-flip test and of the bootstrap.
    """

    a: str
    b: str
    shapes: tuple[ShapeComparison, ...]
    geomean: Outcome
    delta: float
    blocks: int
    quads_per_block: int
    processes: int
    seed: int
    resamples: int
