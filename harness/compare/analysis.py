"""From the timed quads to the record: the same quads and seed always give the same record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from harness.compare import statistics
from harness.compare.arm import ArmName
from harness.compare.plan import DEFAULT_RESAMPLES, QUADS_PER_BLOCK, Plan
from harness.compare.record import Comparison, Outcome, QuadTimes, ShapeComparison
from harness.compare.verdict import DEFAULT_DELTA, decide
from harness.errors import HarnessError


@dataclass(frozen=True)
class _Differences:
    """Block differences of log time, each (processes, blocks): A against B, and A against its copy."""

    of_b: np.ndarray
    of_copy: np.ndarray


def analyse(
    a: str,
    b: str,
    plan: Plan,
    samples: Sequence[QuadTimes],
    delta: float = DEFAULT_DELTA,
    resamples: int = DEFAULT_RESAMPLES,
) -> Comparison:
    """The comparison that all quads of `plan` give.

    samples: every quad of the plan, in the order of time. Raises HarnessError for a δ outside [0, 1), and ValueError
    where the quads are not all there.
    """
    check_delta(delta)
    by_shape = {shape: tuple(sample for sample in samples if sample.quad.shape == shape) for shape in plan.shapes}
    times = {shape: _times_of_arms(plan, quads) for shape, quads in by_shape.items()}
    differences = [_differences(times[shape]) for shape in plan.shapes]
    pooled = _Differences(
        np.mean([each.of_b for each in differences], axis=0), np.mean([each.of_copy for each in differences], axis=0)
    )
    # One stream for each shape and one for the geomean: a shape's figures do not depend on the others.
    streams = (np.random.SeedSequence(plan.seed, spawn_key=(index,)) for index in range(len(differences) + 1))
    generators = [np.random.default_rng(stream) for stream in streams]
    p_values = [
        statistics.sign_flip_p(each.of_b, resamples, generator)
        for each, generator in zip([*differences, pooled], generators, strict=True)
    ]
    adjusted = statistics.holm(p_values[:-1])
    outcomes = [
        _outcome(each, p, p_holm, len(differences), delta, resamples, generator)
        for each, p, p_holm, generator in zip(differences, p_values[:-1], adjusted, generators[:-1], strict=True)
    ]
    shapes = tuple(
        ShapeComparison(
            **asdict(outcome),
            shape=shape,
            a_ns=float(np.median(times[shape]["a"])),
            b_ns=float(np.median(times[shape]["b"])),
            samples=by_shape[shape],
        )
        for shape, outcome in zip(plan.shapes, outcomes, strict=True)
    )
    return Comparison(
        a=a,
        b=b,
        shapes=shapes,
        geomean=_outcome(pooled, p_values[-1], p_values[-1], 1, delta, resamples, generators[-1]),
        delta=delta,
        blocks=plan.blocks,
        quads_per_block=QUADS_PER_BLOCK,
        processes=plan.processes,
        seed=plan.seed,
        resamples=resamples,
    )


def check_delta(delta: float) -> None:
    """Raises HarnessError for a least difference that is not a fraction."""
    if not 0 <= delta < 1:
        raise HarnessError(f"delta {delta:g} is not a relative difference: give 0 to 1, for example 0.005 for 0.5 %")


def _times_of_arms(plan: Plan, quads: Sequence[QuadTimes]) -> dict[ArmName, np.ndarray]:
    """Of one shape, for each arm: (processes, blocks, calls) nanoseconds."""
    expected = plan.measured_draws
    if len(quads) != expected:
        raise ValueError(f"{len(quads)} quads, the plan has {expected}")
    times_ns = np.array([quad.times_ns for quad in quads])
    calls = np.array([quad.quad.calls for quad in quads])
    # Every arm has two calls in a quad, so that a mask keeps whole blocks together.
    return {arm: times_ns[calls == arm].reshape(plan.processes, plan.blocks, -1) for arm in ("a", "b", "a_copy")}


def _differences(times: dict[ArmName, np.ndarray]) -> _Differences:
    return _Differences(
        statistics.block_differences(times["a"], times["b"]), statistics.block_differences(times["a"], times["a_copy"])
    )


def _outcome(
    differences: _Differences,
    p: float,
    p_holm: float,
    family: int,
    delta: float,
    resamples: int,
    generator: np.random.Generator,
) -> Outcome:
    low, high = statistics.bootstrap_interval(differences.of_b, resamples, generator)
    floor = statistics.noise_floor(differences.of_copy)
    log_delta = math.log1p(delta)  # in log time, so that exchanging A and B exchanges FASTER and SLOWER and no more
    decision = decide(low, high, p_holm, log_delta, floor)
    detectable = statistics.smallest_detectable(differences.of_b, (low, high), max(log_delta, floor), family)
    return Outcome(
        ratio=math.exp(float(np.mean(differences.of_b))),
        low=math.exp(low),
        high=math.exp(high),
        verdict=decision.verdict,
        reason=decision.reason,
        noise_floor=math.expm1(floor),
        detectable=math.expm1(detectable),
        p=p,
        p_holm=p_holm,
    )
