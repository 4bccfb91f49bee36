"""The verdict on an interval: each verdict and each reason, and the thresholds between them."""

from __future__ import annotations

import math

import pytest

from harness.compare.verdict import REASONS, Decision, decide

DELTA = 0.005


@pytest.mark.parametrize(
    ("low", "high", "p", "floor", "expected"),
    [
        (-0.030, -0.020, 0.001, 0.004, Decision("FASTER")),
        (0.020, 0.030, 0.001, 0.004, Decision("SLOWER")),
        (-0.004, 0.003, 0.500, 0.001, Decision("SAME")),
        (0.001, 0.003, 0.001, 0.001, Decision("SAME")),
        (-0.004, 0.003, 0.500, 0.020, Decision("SAME")),
        (-0.020, 0.020, 0.500, 0.001, Decision("UNDECIDED", "interval-crosses-delta")),
        (0.001, 0.009, 0.001, 0.001, Decision("UNDECIDED", "interval-crosses-delta")),
        (-0.030, -0.001, 0.001, 0.001, Decision("UNDECIDED", "interval-crosses-delta")),
        (0.010, 0.020, 0.001, 0.015, Decision("UNDECIDED", "below-noise-floor")),
        (-0.020, -0.010, 0.001, 0.015, Decision("UNDECIDED", "below-noise-floor")),
        (0.010, 0.020, 0.060, 0.001, Decision("UNDECIDED", "not-significant")),
        (-0.020, -0.010, 0.050, 0.001, Decision("UNDECIDED", "not-significant")),
    ],
)
def test_each_verdict_and_each_reason_is_given_where_it_is_due(low, high, p, floor, expected):
    assert decide(low, high, p, DELTA, floor) == expected


def test_a_bound_on_the_threshold_has_not_cleared_it():
    assert decide(DELTA, 0.02, 0.001, DELTA, 0.0).reason == "interval-crosses-delta"
    assert decide(0.01, 0.02, 0.001, DELTA, 0.01).reason == "below-noise-floor"
    assert decide(-0.001, DELTA, 0.001, DELTA, 0.0).reason == "interval-crosses-delta"
    assert decide(math.nextafter(0.01, 1), 0.02, 0.001, DELTA, 0.01).verdict == "SLOWER"


def test_exchanging_a_and_b_exchanges_faster_and_slower_and_nothing_else():
    exchanged = {"FASTER": "SLOWER", "SLOWER": "FASTER", "SAME": "SAME", "UNDECIDED": "UNDECIDED"}
    bounds = [-0.03, -0.012, -0.004, 0.0, 0.004, 0.012, 0.03]
    for low in bounds:
        for high in (bound for bound in bounds if bound >= low):
            there, back = decide(low, high, 0.01, DELTA, 0.01), decide(-high, -low, 0.01, DELTA, 0.01)
            assert back == Decision(exchanged[there.verdict], there.reason)


def test_no_difference_is_too_small_when_delta_is_zero():
    assert decide(0.0001, 0.0002, 0.001, 0.0, 0.0).verdict == "SLOWER"
    assert decide(-0.0001, 0.0002, 0.5, 0.0, 0.0).reason == "interval-crosses-delta"


def test_every_reason_has_a_sentence():
    assert set(REASONS) == {"interval-crosses-delta", "below-noise-floor", "not-significant"}
    assert all(REASONS.values())
