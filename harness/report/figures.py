"""How single figures are written in tables."""

from __future__ import annotations


def percent(value: float | None) -> str:
    """A relative error in percent, three digits; – where there is none."""
    return "–" if value is None else f"{100 * value:.3g} %"
