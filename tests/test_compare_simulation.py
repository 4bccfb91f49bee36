"""The verdicts' error rates and power on a simulated device, with 999 resamples: p is then a multiple of 0.001."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from harness.compare.simulate import SCENARIOS, Tally, main, one_after_the_other, tally, trial
from harness.compare.simulated_device import Weather

DRIFTING = Weather(drift=0.01, jitter=0.005, spike_rate=0.02)
NOISY = Weather(drift=0.01, jitter=0.03, spike_rate=0.05)


def trials(weather: Weather, count: int, b_over_a: float = 1.0, processes: int = 1, first_seed: int = 0) -> Tally:
    seeds = range(first_seed, first_seed + count)
    return tally([trial(weather, seed, b_over_a, processes, resamples=999) for seed in seeds], b_over_a)


@pytest.fixture(scope="module")
def equal_kernels() -> Tally:
    return trials(DRIFTING, 400)


def test_equal_kernels_are_called_different_at_most_one_time_in_twenty_under_drift_and_spikes(equal_kernels):
    assert equal_kernels.called <= 0.05


def test_under_drift_the_sign_flip_test_alone_is_wrong_one_time_in_twenty(equal_kernels):
    # Nominal 5 %; 400 trials have a standard deviation of 1.1 points; three of them either way.
    assert 0.017 < equal_kernels.significant < 0.083


def test_under_drift_the_interval_holds_the_true_ratio(equal_kernels):
    # Nominal 95 %, the same three standard deviations.
    assert 0.917 < equal_kernels.covered < 0.983


def test_a_difference_of_twice_what_the_run_says_it_sees_is_called_nine_times_in_ten(equal_kernels):
    b_over_a = 1 + 2 * equal_kernels.detectable
    assert trials(DRIFTING, 200, b_over_a, first_seed=1000).right >= 0.9
    assert trials(DRIFTING, 100, 1 / b_over_a, first_seed=2000).right >= 0.9


def test_on_a_noisy_device_the_run_sees_less_and_keeps_its_power_at_twice_that(equal_kernels):
    noisy = trials(NOISY, 100)
    assert noisy.detectable > 3 * equal_kernels.detectable
    assert noisy.called <= 0.05
    assert trials(NOISY, 100, 1 + 2 * noisy.detectable, first_seed=1000).right >= 0.9


def test_a_difference_well_below_what_the_run_sees_is_not_called():
    quarter = trials(NOISY, 50, 1.01)
    assert quarter.called <= 0.05


def test_equal_kernels_on_a_quiet_device_are_the_same():
    assert trials(Weather(drift=0.01, jitter=0.002), 50).same >= 0.95


def test_three_processes_see_through_offsets_that_one_process_takes_for_a_difference():
    weather = Weather(jitter=0.002, process_offset=0.01)
    assert trials(weather, 60, processes=1).called > 0.15
    assert trials(weather, 60, processes=3).called <= 0.05


def test_timing_one_after_the_other_is_fooled_by_the_same_drift():
    p_values = np.array([one_after_the_other(Weather(drift=0.01, jitter=0.002), seed) for seed in range(50)])
    assert ((p_values < 0.05).mean(axis=0) > 0.5).all()


def test_undecided_says_that_the_interval_crosses_delta():
    outcome = trial(NOISY, 0, resamples=999).shapes[0]
    assert (outcome.verdict, outcome.reason) == ("UNDECIDED", "interval-crosses-delta")


def test_undecided_says_that_the_difference_is_below_the_noise_floor():
    # 3 % of jitter puts the floor near 2.5 %, and the interval's half-width near 0.7 %: 2 % lies between.
    reasons = {trial(NOISY, seed, 1.02, resamples=999).shapes[0].reason for seed in range(10)}
    assert "below-noise-floor" in reasons


def test_the_simulation_can_be_repeated_from_the_command_line():
    result = CliRunner().invoke(main, ["--trials", "2"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert all(scenario.name in result.output for scenario in SCENARIOS)
    assert "Mann–Whitney" in result.output
