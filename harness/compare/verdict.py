"""FASTER, SLOWER, SAME or UNDECIDED, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["FASTER", "SLOWER", "SAME", "UNDECIDED"]
Reason = Literal["interval-crosses-delta", "below-noise-floor", "not-significant"]

REASONS: dict[Reason, str] = {
    "interval-crosses-delta": "a part of the interval matters and a part does not",
    "below-noise-floor": "the difference matters, but single blocks of A and its own copy differ by as much",
    "not-significant": "the interval is clear, but the sign-flip test over all shapes (Holm) is not",
}

SIGNIFICANCE = 0.05

# The least relative difference that matters, unless the user says another: 0.5 %.
DEFAULT_DELTA = 0.005


@dataclass(frozen=True)
class Decision:
    """verdict: of A, seen from B. reason: set where, and only where, the verdict is UNDECIDED."""

    verdict: Verdict
    reason: Reason | None = None


def decide(low: float, high: float, p_holm: float, delta: float, noise_floor: float) -> Decision:
    """The verdict on an interval of log(time A / time B).

    low, high, delta and noise_floor are differences of log time; delta and noise_floor are not negative.
    A bound that lies exactly on a threshold has not cleared it. The reason is the first condition that failed.
    """
    if -delta < low and high < delta:
        return Decision("SAME")
    clear_by = max(low, -high)  # how far the interval stays away from no difference; negative where it holds it
    if clear_by <= delta:
        return Decision("UNDECIDED", "interval-crosses-delta")
    if clear_by <= noise_floor:
        return Decision("UNDECIDED", "below-noise-floor")
    if p_holm >= SIGNIFICANCE:
        return Decision("UNDECIDED", "not-significant")
    return Decision("FASTER" if high < 0 else "SLOWER")
