"""The statistics of a comparison, each against SciPy or against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.compare import statistics


def normal_blocks(seed: int, processes: int = 1, blocks: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(processes, blocks))


def test_a_block_difference_is_the_difference_of_median_log_times():
    first = np.array([[[100.0, 200.0, 400.0]]])
    second = np.array([[[100.0, 100.0, 900.0]]])
    assert statistics.block_differences(first, second) == pytest.approx(np.array([[np.log(2)]]))


def test_one_spike_does_not_move_its_block():
    calm = np.full((1, 1, 10), 100.0)
    spiked = calm.copy()
    spiked[0, 0, 3] = 10_000.0
    assert statistics.block_differences(spiked, calm) == 0


def test_sign_flips_agree_with_counting_all_of_them():
    differences = np.random.default_rng(2).normal(0.4, 1, size=(1, 10))
    signs = np.array(np.meshgrid(*[[-1, 1]] * 10)).reshape(10, -1)
    null = np.abs((signs * differences.T).mean(axis=0))
    exact = np.mean(null >= abs(differences.mean()) - 1e-12)
    # 2,000 flips are more than the 1,024 there are, so that SciPy counts them all.
    assert statistics.sign_flip_p(differences, 2000, np.random.default_rng(0)) == pytest.approx(exact)


def test_sign_flips_call_five_percent_of_equal_pairs_different_at_the_five_percent_level():
    p_values = [statistics.sign_flip_p(normal_blocks(seed), 499, np.random.default_rng(seed)) for seed in range(600)]
    # 600 trials at 5 %: standard deviation 0.9 points; three of them either way.
    assert 0.023 < np.mean(np.array(p_values) < 0.05) < 0.077


def test_sign_flips_never_give_a_p_of_zero():
    p = statistics.sign_flip_p(np.ones((1, 20)), 999, np.random.default_rng(0))
    assert 0 < p <= 2 / 1000 + 1e-12


def test_with_one_process_the_interval_is_scipys_percentile_interval_at_the_widened_level():
    differences = normal_blocks(4)
    # Hesterberg's level for n = 20: Φ(−√(20/19) · 2.093) = 1.59 % in each tail.
    scipys = stats.bootstrap(
        (differences.ravel(),),
        np.mean,
        n_resamples=20_000,
        method="percentile",
        confidence_level=1 - 2 * 0.0159,
        random_state=np.random.default_rng(1),
    ).confidence_interval
    ours = statistics.bootstrap_interval(differences, 20_000, np.random.default_rng(2))
    # Two bootstraps of 20,000 differ in a tail by about 2 % of the standard error of 0.22; three such steps.
    assert ours == pytest.approx((scipys.low, scipys.high), abs=0.015)


@pytest.mark.parametrize(("processes", "offset"), [(1, 0.0), (3, 0.0), (3, 3.0), (5, 0.5)])
def test_the_interval_holds_the_truth_about_nineteen_times_in_twenty(processes, offset):
    generator = np.random.default_rng(11)
    held = 0
    for _ in range(400):
        differences = generator.normal(size=(processes, 20)) + offset * generator.normal(size=(processes, 1))
        low, high = statistics.bootstrap_interval(differences, 400, generator)
        held += low <= 0 <= high
    # Nominal 95 %; with few processes whose spread must be estimated it may fall to about 90 %. A plain block
    # bootstrap holds it in 20 % of the cases with offset 3, and a plain two-stage one in 75 %.
    assert held / 400 > 0.88


def test_processes_that_differ_widen_the_interval():
    alike = normal_blocks(6, processes=3)
    apart = alike + np.array([[-1.0], [0.0], [1.0]])
    narrow = statistics.bootstrap_interval(alike, 999, np.random.default_rng(0))
    wide = statistics.bootstrap_interval(apart, 999, np.random.default_rng(0))
    assert wide[1] - wide[0] > 3 * (narrow[1] - narrow[0])


def test_the_noise_floor_is_the_95th_percentile_of_the_sizes():
    copy_differences = np.array([np.arange(-10.0, 11.0)])
    # Sizes 0, 1, 1, 2, 2 … 10, 10: of 21, the 95th percentile is the 20th.
    assert statistics.noise_floor(copy_differences) == 10.0


def test_the_smallest_detectable_difference_clears_the_threshold_by_half_the_interval():
    differences = normal_blocks(8) * 0.001
    assert statistics.smallest_detectable(differences, (-0.001, 0.002), 0.005, 1) == pytest.approx(0.0065)


def test_without_a_threshold_significance_over_all_shapes_sets_the_smallest_detectable_difference():
    differences = normal_blocks(8)
    one, many = (statistics.smallest_detectable(differences, (0.0, 0.0), 0.0, family) for family in (1, 8))
    standard_error = np.std(differences, ddof=1) / np.sqrt(20)
    assert one == pytest.approx(stats.t.ppf(0.975, 19) * standard_error)
    assert many == pytest.approx(stats.t.ppf(1 - 0.05 / 16, 19) * standard_error)


def test_holm_gives_the_worked_example():
    # Ascending: 0.005·4, 0.01·3, 0.03·2, 0.04·1, each at least the one before.
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_of_one_changes_nothing_and_never_passes_one():
    assert statistics.holm([0.03]) == [0.03]
    assert statistics.holm([0.6, 0.7, 0.8]) == [1.0, 1.0, 1.0]


def test_clocks_that_never_differ_give_no_warning_and_no_difference():
    differences = np.zeros((3, 20))
    assert statistics.sign_flip_p(differences, 199, np.random.default_rng(0)) == 1.0
    assert statistics.bootstrap_interval(differences, 199, np.random.default_rng(0)) == (0.0, 0.0)
    assert statistics.smallest_detectable(differences, (0.0, 0.0), 0.005, 1) == 0.005
