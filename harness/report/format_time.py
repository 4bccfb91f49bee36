"""A time as the platform writes it in its report."""

from __future__ import annotations

import math


def format_time(time_ns: float | None, err_ns: float | None = None) -> str:
    """`time_ns` in ns, µs (over 2000 ns) or ms (over 2,000,000 ns), with `± err_ns` in the same unit.

    Below 10 with two digits, below 100 with one, else with none, and the error with one digit more; below 1 both are
    unrounded. An error of None, 0 or NaN (one run has none) is left out; a time of None is –.
    Source: gpu-mode/kernelbot, src/libkernelbot/utils.py (2026), where an error of 0 is left out too.
    """
    if time_ns is None:
        return "–"
    scale, unit = _unit(time_ns)
    value = time_ns / scale
    if not err_ns or math.isnan(err_ns):
        return f"{_rounded(value, value)} {unit}"
    return f"{_rounded(value, value)} ± {_rounded(err_ns / scale, value, more_digits=1)} {unit}"


def _unit(time_ns: float) -> tuple[float, str]:
    if time_ns > 2_000_000:
        return 1_000_000, "ms"
    return (1_000, "µs") if time_ns > 2_000 else (1, "ns")


def _rounded(number: float, value: float, more_digits: int = 0) -> str:
    """`number` with the digits that go with a time of `value` units."""
    if value < 1:
        return str(number)
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{number:.{digits + more_digits}f}"
