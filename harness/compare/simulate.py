"""How often the verdicts are right, on a simulated device: `python -m harness.compare.simulate --trials 400`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats

from harness.compare.plan import LEAST_BLOCKS, QUADS_PER_BLOCK, Plan
from harness.compare.record import Comparison
from harness.compare.run import compare
from harness.compare.simulated_device import SimulatedDevice, Weather
from harness.compare.verdict import SIGNIFICANCE

# Fewer than a real comparison takes: enough to tell p from 0.05, and five times as fast.
RESAMPLES = 1999
_PLAIN_WIDTH = 120


@dataclass(frozen=True)
class Scenario:
    """A weather, and how many processes the comparison uses in it."""

    name: str
    weather: Weather
    processes: int = 1


SCENARIOS = (
    Scenario("quiet: jitter 0.1 %", Weather(jitter=0.001)),
    Scenario("drift 1 %", Weather(drift=0.01, jitter=0.002)),
    Scenario("drift 1 %, spikes", Weather(drift=0.01, jitter=0.005, spike_rate=0.02)),
    Scenario("drift as fast as a quad", Weather(drift=0.01, drift_calls=9, jitter=0.002)),
    Scenario("noisy: jitter 3 %, spikes", Weather(drift=0.01, jitter=0.03, spike_rate=0.05)),
    Scenario("process offsets 0.3 %", Weather(jitter=0.002, process_offset=0.003)),
    Scenario("process offsets 0.3 %", Weather(jitter=0.002, process_offset=0.003), processes=3),
    Scenario("process offsets 1 %", Weather(jitter=0.002, process_offset=0.01)),
    Scenario("process offsets 1 %", Weather(jitter=0.002, process_offset=0.01), processes=3),
)


@dataclass(frozen=True)
class Tally:
    """Shares of the trials, except detectable (the mean of what was printed, as a relative difference).

    called: FASTER or SLOWER. right: called as the device was set. significant: p of the sign-flip test below 5 %.
    covered: the interval holds the ratio that the device was set to.
    """

    called: float
    right: float
    same: float
    undecided: float
    significant: float
    covered: float
    detectable: float


def trial(
    weather: Weather, seed: int, b_over_a: float = 1.0, processes: int = 1, resamples: int = RESAMPLES
) -> Comparison:
    """One whole comparison on one shape of a device of its own."""
    device = SimulatedDevice(weather, seed, b_over_a)
    plan = Plan(("S1",), processes=processes, seed=seed)
    return compare("a.py", "b.py", plan, device.open_arms, resamples=resamples, now_s=device.now_s)


def tally(comparisons: Sequence[Comparison], b_over_a: float = 1.0) -> Tally:
    """What the trials of one device came to."""
    outcomes = [comparison.shapes[0] for comparison in comparisons]
    ratio = 1 / b_over_a
    due = "FASTER" if ratio < 1 else "SLOWER"
    return Tally(
        called=_share(outcome.verdict in ("FASTER", "SLOWER") for outcome in outcomes),
        right=_share(outcome.verdict == due and ratio != 1 for outcome in outcomes),
        same=_share(outcome.verdict == "SAME" for outcome in outcomes),
        undecided=_share(outcome.verdict == "UNDECIDED" for outcome in outcomes),
        significant=_share(outcome.p < SIGNIFICANCE for outcome in outcomes),
        covered=_share(outcome.low <= ratio <= outcome.high for outcome in outcomes),
        detectable=float(np.mean([outcome.detectable for outcome in outcomes])),
    )


def one_after_the_other(weather: Weather, seed: int) -> tuple[float, float]:
    """The p of Welch's t-test and of Mann–Whitney's, where equal kernels are timed in turn: all of A, then all of B."""
    device = SimulatedDevice(weather, seed)
    calls = LEAST_BLOCKS * QUADS_PER_BLOCK * 2
    with device.open_arms(("a", "b")) as arms:
        a_ns, b_ns = ([arms[name].measure("S1", draw) for draw in range(calls)] for name in ("a", "b"))
    return float(stats.ttest_ind(a_ns, b_ns, equal_var=False).pvalue), float(stats.mannwhitneyu(a_ns, b_ns).pvalue)


def _share(hits: Iterable[bool]) -> float:
    return float(np.mean(list(hits)))


@click.command()
@click.option("--trials", default=400, show_default=True, type=click.IntRange(min=1), help="Comparisons per row.")
def main(trials: int) -> None:
    """Simulate comparisons of equal kernels, and of kernels that differ by twice what the run says it can see."""
    # A file or a pipe is no narrower than the table.
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    table = Table(box=box.SIMPLE_HEAD, title=f"{trials} trials a row", title_justify="left")
    table.add_column("equal kernels", no_wrap=True)
    for name in ("processes", "wrong", "SAME", "UNDECIDED", "p < 5 %", "covered", "sees from", "power at twice"):
        table.add_column(name, justify="right")
    errors = Console(stderr=True)
    for scenario in track(SCENARIOS, description="simulating", console=errors):
        table.add_row(scenario.name, str(scenario.processes), *_row(scenario, trials))
    console.print(table)
    drifting = SCENARIOS[1].weather
    p_values = np.array([one_after_the_other(drifting, seed) for seed in range(trials)])
    t_test, mann_whitney = (p_values < SIGNIFICANCE).mean(axis=0)
    console.print(
        f"Equal kernels one after the other in '{SCENARIOS[1].name}': the t-test calls {t_test:.1%} different, "
        f"Mann–Whitney {mann_whitney:.1%}.",
        soft_wrap=True,
    )


def _row(scenario: Scenario, trials: int) -> list[str]:
    weather, processes = scenario.weather, scenario.processes
    equal = tally([trial(weather, seed, processes=processes) for seed in range(trials)])
    b_over_a = 1 + 2 * equal.detectable
    unequal = tally([trial(weather, trials + seed, b_over_a, processes) for seed in range(trials)], b_over_a)
    shares = (equal.called, equal.same, equal.undecided, equal.significant, equal.covered)
    return [*(f"{share:.1%}" for share in shares), f"{equal.detectable:.2%}", f"{unequal.right:.1%}"]


if __name__ == "__main__":
    main()
