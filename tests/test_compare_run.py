"""Running a comparison against scripted arms: what is called, what is kept, and how a failure ends it."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import contextmanager
from statistics import NormalDist

import pytest

from harness.compare.arm import ARMS, ComparisonStopped, WrongOutput
from harness.compare.plan import QUADS_PER_BLOCK, Plan
from harness.compare.run import compare, measure
from harness.compare.simulated_device import SimulatedDevice, Weather
from harness.errors import HarnessError, MissingCapability, WorkerFailed

NAMES = {"a": "A (a.py)", "b": "B (b.py)", "a_copy": "the copy of A (a.py)"}


class ScriptedArms:
    """Arms that log their calls, take the time that `time_ns(arm, call number)` says, and may raise."""

    def __init__(self, time_ns=lambda arm, call: 1000.0):
        self.log: list[tuple[str, str, int]] = []
        self.imported: list[tuple[str, ...]] = []
        self.open_now = 0
        self._time_ns = time_ns

    @contextmanager
    def open_arms(self, order):
        self.imported.append(order)
        self.open_now += 1
        try:
            yield {name: _ScriptedArm(self, name) for name in order}
        finally:
            self.open_now -= 1

    def call(self, name, shape, draw):
        self.log.append((name, shape, draw))
        return self._time_ns(name, len(self.log) - 1)


class _ScriptedArm:
    def __init__(self, arms, name):
        self._arms, self._name = arms, name

    def measure(self, shape, draw):
        return self._arms.call(self._name, shape, draw)


def ticking(step_s=1.0):
    """A wall clock that moves by `step_s` at every look."""
    now = -step_s

    def now_s():
        nonlocal now
        now += step_s
        return now

    return now_s


def test_every_quad_of_the_plan_is_timed_in_its_order_and_kept():
    plan = Plan(("S1", "S2"), blocks=20, processes=2)
    times = iter(range(1, 10**6))
    arms = ScriptedArms(lambda arm, call: float(next(times)))
    samples = measure(NAMES, plan, arms.open_arms, now_s=ticking())
    expected = [quad for process in (0, 1) for quads in plan.visits(process) for quad in quads]
    assert [sample.quad for sample in samples] == expected
    kept = [time for sample in samples for time in sample.times_ns]
    assert kept == sorted(kept)
    assert len(kept) == 2 * 20 * 5 * 6 * 2


def test_both_arms_and_the_copy_get_the_same_inputs_twice_in_every_quad():
    plan = Plan(("S1",))
    arms = ScriptedArms()
    measure(NAMES, plan, arms.open_arms, now_s=ticking())
    calls = Counter(call for call in arms.log if call[2] < plan.measured_draws)
    assert calls == {(arm, "S1", draw): 2 for arm in ARMS for draw in range(plan.measured_draws)}


def test_the_chip_is_warmed_on_every_shape_before_the_first_timed_call():
    plan = Plan(("S1", "S2"), warmup_s=3.0)
    arms = ScriptedArms()
    measure(NAMES, plan, arms.open_arms, now_s=ticking(1.0))
    first_timed = next(index for index, call in enumerate(arms.log) if call[2] < plan.measured_draws)
    # The clock moves a second at each look: three rounds over both shapes, and one round before the first block.
    assert first_timed == (3 * 2 + 1) * 3
    assert {call[1] for call in arms.log[:first_timed]} == {"S1", "S2"}


def test_inputs_of_the_warm_up_are_never_measured():
    plan = Plan(("S1",), processes=2)
    arms = ScriptedArms(lambda arm, call: 1000.0)
    samples = measure(NAMES, plan, arms.open_arms, now_s=ticking())
    timed = {sample.quad.draw for sample in samples}
    untimed = {draw for _, _, draw in arms.log} - timed
    assert timed == set(range(plan.measured_draws))
    assert untimed
    assert min(untimed) >= plan.measured_draws


def test_every_round_of_the_warm_up_has_fresh_inputs():
    plan = Plan(("S1", "S2"))
    arms = ScriptedArms()
    measure(NAMES, plan, arms.open_arms, now_s=ticking())
    draws = Counter(draw for _, _, draw in arms.log if draw >= plan.measured_draws)
    assert set(draws.values()) == {len(ARMS)}


def test_each_process_is_opened_once_with_the_import_order_swapped():
    arms = ScriptedArms()
    measure(NAMES, Plan(("S1",), processes=3), arms.open_arms, now_s=ticking())
    assert arms.imported == [ARMS, ARMS[::-1], ARMS]
    assert arms.open_now == 0


def test_progress_counts_every_block_of_every_shape_and_process():
    seen = []
    arms = ScriptedArms()
    plan = Plan(("S1", "S2"), processes=2)
    measure(NAMES, plan, arms.open_arms, on_block=lambda done, total: seen.append((done, total)), now_s=ticking())
    assert seen == [(done, 80) for done in range(1, 81)]


@pytest.mark.parametrize("error", [WrongOutput("worst row 0.3, limit 0.02"), WorkerFailed("killed by signal 9")])
def test_a_failing_arm_stops_the_run_with_its_reason_and_closes_the_arms(error):
    def time_ns(arm, call):
        if arm == "b" and call > 500:
            raise error
        return 1000.0

    arms = ScriptedArms(time_ns)
    plan = Plan(("S1",), processes=2)
    with pytest.raises(ComparisonStopped) as caught:
        measure(NAMES, plan, arms.open_arms, now_s=ticking())
    message = str(caught.value)
    assert str(error) in message
    assert "B (b.py)" in message
    assert "S1, block 16 of 20, process 1 of 2" in message
    assert "\n" not in message
    assert caught.value.exit_code == 1
    assert caught.value.__cause__ is error
    assert arms.open_now == 0
    assert len(arms.log) < 510


def test_a_failure_while_warming_says_so():
    def time_ns(arm, call):
        raise MissingCapability("out of memory")

    with pytest.raises(ComparisonStopped, match=r"A \(a\.py\) failed on S1, warming up, .*out of memory") as caught:
        measure(NAMES, Plan(("S1",)), ScriptedArms(time_ns).open_arms, now_s=ticking())
    assert caught.value.exit_code == MissingCapability.exit_code


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_clock_that_gives_no_duration_stops_the_run(bad):
    arms = ScriptedArms(lambda arm, call: bad if call == 100 else 1000.0)
    with pytest.raises(ComparisonStopped, match="no duration"):
        measure(NAMES, Plan(("S1",)), arms.open_arms, now_s=ticking())


def test_an_error_of_our_own_is_not_taken_for_a_failing_arm():
    def time_ns(arm, call):
        raise KeyError("a bug")

    arms = ScriptedArms(time_ns)
    with pytest.raises(KeyError):
        measure(NAMES, Plan(("S1",)), arms.open_arms, now_s=ticking())
    assert arms.open_now == 0


@pytest.mark.parametrize("delta", [-0.001, 1.0, math.nan])
def test_a_delta_that_is_no_fraction_is_refused_before_anything_runs(delta):
    arms = ScriptedArms()
    with pytest.raises(HarnessError, match="delta"):
        compare("a.py", "b.py", Plan(("S1",)), arms.open_arms, delta=delta, now_s=ticking())
    assert not arms.imported


def test_half_the_time_is_faster_with_a_ratio_of_one_half():
    arms = ScriptedArms(lambda arm, call: 2000.0 if arm == "b" else 1000.0)
    comparison = compare("a.py", "b.py", Plan(("S1",)), arms.open_arms, resamples=999, now_s=ticking())
    shape = comparison.shapes[0]
    assert (shape.a_ns, shape.b_ns, shape.verdict, shape.reason) == (1000.0, 2000.0, "FASTER", None)
    # Exact but for the rounding of log and exp.
    assert (shape.low, shape.ratio, shape.high) == pytest.approx((0.5, 0.5, 0.5), rel=1e-12)
    assert len(shape.samples) == 100


def test_twice_the_time_is_slower():
    arms = ScriptedArms(lambda arm, call: 500.0 if arm == "b" else 1000.0)
    comparison = compare("a.py", "b.py", Plan(("S1",)), arms.open_arms, resamples=999, now_s=ticking())
    assert comparison.shapes[0].verdict == "SLOWER"
    assert comparison.shapes[0].ratio == pytest.approx(2.0, rel=1e-12)


def test_the_geomean_is_over_the_shapes_and_each_shape_keeps_its_own_verdict():
    class ByShape(ScriptedArms):
        def call(self, name, shape, draw):
            return (super().call(name, shape, draw)) * (
                {"S1": 2.0, "S2": 1.0, "S3": 4.0}[shape] if name == "b" else 1.0
            )

    comparison = compare("a.py", "b.py", Plan(("S1", "S2", "S3")), ByShape().open_arms, resamples=999, now_s=ticking())
    assert [shape.verdict for shape in comparison.shapes] == ["FASTER", "SAME", "FASTER"]
    # (1/2 · 1 · 1/4)^(1/3) = 1/2
    assert comparison.geomean.ratio == pytest.approx(0.5, rel=1e-12)
    assert comparison.geomean.verdict == "FASTER"


def test_holm_is_over_the_shapes():
    device = SimulatedDevice(Weather(jitter=0.02), seed=5)
    plan = Plan(("S1", "S2", "S3"), seed=5)
    comparison = compare("a.py", "b.py", plan, device.open_arms, resamples=499, now_s=device.now_s)
    least = min(comparison.shapes, key=lambda shape: shape.p)
    assert least.p_holm == pytest.approx(min(1.0, 3 * least.p))
    assert comparison.geomean.p_holm == comparison.geomean.p


def test_a_difference_that_holm_takes_for_chance_is_not_significant():
    # B is slower by 0.53 % on average, with 1 % between blocks: t = 2.4 and p ≈ 0.03 on each of three shapes.
    block_effects = [0.0053 + 0.01 * NormalDist().inv_cdf((block + 0.5) / 20) for block in range(20)]

    class ByBlock(ScriptedArms):
        def call(self, name, shape, draw):
            effect = block_effects[draw // QUADS_PER_BLOCK % 20] if name == "b" else 0.0
            return super().call(name, shape, draw) * math.exp(effect)

    def verdicts(shapes):
        comparison = compare("a", "b", Plan(shapes), ByBlock().open_arms, delta=0.0, now_s=ticking())
        return {(shape.verdict, shape.reason) for shape in comparison.shapes}

    assert verdicts(("S1", "S2", "S3")) == {("UNDECIDED", "not-significant")}
    assert verdicts(("S1",)) == {("FASTER", None)}


def test_the_same_seed_and_the_same_clock_give_the_same_record():
    def once(seed):
        device = SimulatedDevice(Weather(drift=0.01, jitter=0.01), seed=1)
        return compare("a.py", "b.py", Plan(("S1",), seed=seed), device.open_arms, resamples=499, now_s=device.now_s)

    assert once(4) == once(4)
    assert once(4) != once(5)
