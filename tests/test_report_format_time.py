"""Times are written as the platform writes them: unit, digits and the error's digits, at every boundary."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.format_time import format_time


@pytest.mark.parametrize(
    ("time_ns", "err_ns", "text"),
    [
        (0.5, None, "0.5 ns"),
        (0.123456, 0.25, "0.123456 ± 0.25 ns"),
        (0, None, "0.0 ns"),
        (1, None, "1.00 ns"),
        (1, 0.5, "1.00 ± 0.500 ns"),
        (9.994, 0.1, "9.99 ± 0.100 ns"),
        (9.999, None, "10.00 ns"),
        (10, 0.123, "10.0 ± 0.12 ns"),
        (99.94, None, "99.9 ns"),
        (99.99, 1, "100.0 ± 1.00 ns"),
        (100, 1.25, "100 ± 1.2 ns"),
        (2000, 15, "2000 ± 15.0 ns"),
        (2000.1, 15, "2.00 ± 0.015 µs"),
        (9_994, 15, "9.99 ± 0.015 µs"),
        (36_512.3, 21, "36.5 ± 0.02 µs"),
        (349_000, 1_234, "349 ± 1.2 µs"),
        (2_000_000, 500, "2000 ± 0.5 µs"),
        (2_000_001, 500, "2.00 ± 0.001 ms"),
        (12_345_678, 100_000, "12.3 ± 0.10 ms"),
        (50e9, 1e6, "50000 ± 1.0 ms"),
        (36_512.3, 0, "36.5 µs"),
        (36_512.3, math.nan, "36.5 µs"),
        (None, None, "–"),
    ],
)
def test_a_time_is_written_as_on_the_platform(time_ns, err_ns, text):
    assert format_time(time_ns, err_ns) == text


def test_the_micro_sign_is_the_platforms():
    assert format_time(5000)[-2:] == "\u00b5s"


@given(st.floats(1, 1e12), st.floats(1e-6, 1e12))
def test_unit_and_digits_follow_from_the_time_alone(time_ns, err_ns):
    scale, unit = (1e6, "ms") if time_ns > 2e6 else (1e3, "µs") if time_ns > 2e3 else (1, "ns")
    digits = 2 if time_ns / scale < 10 else 1 if time_ns / scale < 100 else 0
    found = re.fullmatch(r"(\d+(?:\.(\d+))?) ± (\d+\.(\d+)) (\w+)", format_time(time_ns, err_ns))
    assert found is not None
    assert (len(found[2] or ""), len(found[4]), found[5]) == (digits, digits + 1, unit)
    # Rounded to that many digits, so off by half of the last one at most, and a little for the float itself.
    assert math.isclose(float(found[1]) * scale, time_ns, abs_tol=0.5000001 * scale * 10**-digits, rel_tol=1e-12)
    assert math.isclose(float(found[3]) * scale, err_ns, abs_tol=0.0500001 * scale * 10**-digits, rel_tol=1e-12)


@given(st.floats(0, 1, exclude_max=True))
def test_a_time_below_one_is_not_rounded(time_ns):
    assert float(format_time(time_ns).removesuffix(" ns")) == time_ns


@given(st.floats(0, 1e12))
def test_without_an_error_the_text_is_the_first_part_of_that_with_one(time_ns):
    alone = format_time(time_ns)
    number, unit = alone.split()
    assert format_time(time_ns, 7.0).startswith(f"{number} ± ")
    assert format_time(time_ns, 7.0).endswith(f" {unit}")
