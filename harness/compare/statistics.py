"""Block differences of log time, their test, their interval, and what they could have shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from harness.compare.verdict import SIGNIFICANCE

CONFIDENCE = 0.95


def block_differences(first_ns: np.ndarray, second_ns: np.ndarray) -> np.ndarray:
    """Difference of the median log time of two arms in each block.

    first_ns, second_ns: (processes, blocks, calls) nanoseconds. Returns (processes, blocks). The median keeps a
    spike of one call from moving its block, so that no call has to be dropped.
    """
    return np.median(np.log(first_ns), axis=-1) - np.median(np.log(second_ns), axis=-1)


def sign_flip_p(differences: np.ndarray, resamples: int, generator: np.random.Generator) -> float:
    """Two-sided p of the mean block difference when the sign of every block is drawn anew.

    differences: (processes, blocks). Each quad draws its order of arms independently, so exchanging the names of two
    equal arms in a block turns its sign and is as likely as not: the test holds for any drift and any distribution.
    The smallest p that can come out is 2 / (resamples + 1).
    """
    result = stats.permutation_test(
        (differences.ravel(),),
        np.mean,
        permutation_type="samples",  # with a single sample: flips of sign
        vectorized=True,
        n_resamples=resamples,
        # `rng` from SciPy 1.15 on, which still takes the older name
        random_state=generator,
    )
    return float(result.pvalue)


def bootstrap_interval(differences: np.ndarray, resamples: int, generator: np.random.Generator) -> tuple[float, float]:
    """95 % interval of the mean block difference: processes drawn with replacement, then blocks within each.

    differences: (processes, blocks). With one process this is the block bootstrap. Drawing the processes too keeps
    what is constant within a process (where its memory lies) from being taken for a difference of the kernels;
    scipy.stats.bootstrap cannot resample in two stages, which is why this is written out.

    Percentile, not BCa: the mean of differences of two like medians has next to no skew or bias to correct. The
    percentile interval's known fault, too narrow by √(n/(n−1))·t/z for n blocks, is mended by widening its level.
    Source: T. Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69 (2015), §4.
    """
    processes, blocks = differences.shape
    within = differences - differences.mean(axis=1, keepdims=True)
    drawn_processes = generator.integers(processes, size=(resamples, processes, 1))
    drawn_blocks = generator.integers(blocks, size=(resamples, processes, blocks))
    means = _process_deviations(differences)[drawn_processes[..., 0]].mean(axis=1)
    means += differences.mean() + within[drawn_processes, drawn_blocks].mean(axis=(1, 2))
    n = differences.size
    tail = stats.norm.cdf(np.sqrt(n / (n - 1)) * stats.t.ppf((1 - CONFIDENCE) / 2, n - 1))
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _process_deviations(differences: np.ndarray) -> np.ndarray:
    """How far each process lies from the mean of all, made fit for resampling so few of them; (processes,).

    Two changes. What the noise of the blocks alone explains is taken out (one-way analysis of variance), because
    drawing the blocks brings it in again. The rest is stretched by √(P/(P−1)) and to the t-quantile of P−1 degrees of
    freedom: otherwise an interval from three processes would cover 75 %, not 95 %, where the processes differ much.
    """
    processes, blocks = differences.shape
    means = differences.mean(axis=1)
    if processes == 1 or np.ptp(means) == 0:
        return np.zeros(processes)
    explained = differences.var(axis=1, ddof=1).mean() / blocks / means.var(ddof=1)
    upper = (1 + CONFIDENCE) / 2
    stretch = np.sqrt(processes / (processes - 1))
    stretch *= stats.t.ppf(upper, processes - 1) / stats.t.ppf(upper, differences.size - 1)
    return (means - means.mean()) * np.sqrt(max(0.0, 1 - explained)) * stretch


def noise_floor(copy_differences: np.ndarray) -> float:
    """95th percentile over all blocks of |difference of A and its copy|, in log time."""
    return float(np.quantile(np.abs(copy_differences), 0.95))


def smallest_detectable(differences: np.ndarray, interval: tuple[float, float], threshold: float, family: int) -> float:
    """The smallest difference of log time that this run would have called FASTER or SLOWER if it measured just that.

    Such an estimate keeps its interval clear of `threshold`, the larger of δ and the noise floor, and stays significant
    as the least of `family` shapes under Holm (by the t approximation of the sign-flip test). A true difference of
    this size is called about every second time; one of twice this size, at least nine times in ten, because then the
    estimate may fall short by this whole figure, which is more than two of its standard errors.
    """
    n = differences.size
    half_width = (interval[1] - interval[0]) / 2
    standard_error = float(np.std(differences, ddof=1)) / np.sqrt(n)
    critical = float(stats.t.ppf(1 - SIGNIFICANCE / (2 * family), n - 1))
    return float(max(threshold + half_width, critical * standard_error))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: over all of them, the chance of any false call stays below 5 %.

    Source: S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979).
    """
    p = np.asarray(p_values, dtype=float)
    ascending = np.argsort(p)
    stepped = np.maximum.accumulate(p[ascending] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[ascending] = np.minimum(stepped, 1.0)
    return adjusted.tolist()
