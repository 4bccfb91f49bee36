"""The arms of a comparison: the same fresh inputs for all, and every timed output judged."""

from __future__ import annotations

import pytest
from scripted_bench import FAKE_GPU, ScriptedBench, right

from harness.compare.arm import WrongOutput
from harness.errors import WorkerFailed
from harness.evaluation.arms import Draws, GpuArm
from harness.evaluation.referee import Referee

KERNEL = "def custom_kernel(data):\n    return data\n"


@pytest.fixture
def arm(affine, submit):
    """An arm over a scripted bench, and what it is made of."""

    def made(bench: ScriptedBench, referee: Referee | None = None) -> GpuArm:
        referee = referee or Referee(affine, submit(KERNEL), FAKE_GPU)
        return GpuArm(bench, Draws(affine, referee, 7), referee, 8 << 30)

    return made


def test_arms_share_the_inputs_of_a_draw_and_get_others_for_the_next(affine, submit):
    referee = Referee(affine, submit(KERNEL), FAKE_GPU)
    draws = Draws(affine, referee, 7)
    benches = [ScriptedBench(), ScriptedBench()]
    arms = [GpuArm(bench, draws, referee, 8 << 30) for bench in benches]
    for draw in (0, 1):
        for arm in arms:
            arm.measure("4x8", draw)
    first, second = ([data[0] for data in bench.inputs] for bench in benches)
    assert first[0].equal(second[0])
    assert first[1].equal(second[1])
    assert not first[0].equal(first[1])


def test_a_timed_call_follows_the_clear_and_gives_the_clocks_time(arm):
    bench = ScriptedBench(times_ns=[123.0])
    assert arm(bench).measure("4x8", 0) == 123.0
    assert bench.clears == [8 << 30]


def test_an_output_that_is_a_little_wrong_stops_the_arm(arm):
    with pytest.raises(WrongOutput, match=r"error 0\.01"):
        arm(ScriptedBench(kernel=lambda data: right(data) * 1.01)).measure("4x8", 0)


def test_without_a_truth_the_problems_own_rule_judges(affine, arm, submit):
    (affine.root / "truth.py").unlink()
    referee = Referee(affine, submit(KERNEL), FAKE_GPU)
    assert referee.truth is None
    assert arm(ScriptedBench(), referee).measure("4x8", 0) == 90.0
    with pytest.raises(WrongOutput, match="mismatch found"):
        arm(ScriptedBench(kernel=lambda data: right(data) + 9), referee).measure("4x8", 0)


def test_a_stand_in_is_never_timed(arm):
    with pytest.raises(WorkerFailed, match="stand-in"):
        arm(ScriptedBench(stood_in=lambda: True)).measure("4x8", 0)
