"""A merged file is held to each of its parts, byte for byte on the same inputs, and to both verdicts."""

from __future__ import annotations

import pytest
from scripted_bench import FAKE_GPU, InProcess

from harness.evaluation import merge_check
from harness.evaluation.merge_check import check_merge
from harness.targets.machine import open_machine

PLUS = "def custom_kernel(data):\n    return data[0] * data[1]['slope'] + 1\n"
# The same to rounding: another order of the same operations gives other bits.
REORDERED = "def custom_kernel(data):\n    return (data[0] + 0.1) * data[1]['slope'] + 0.8\n"
WRONG = "def custom_kernel(data):\n    return data[0] * data[1]['slope'] + 9\n"
RAISING = "def custom_kernel(data):\n    raise ValueError('not today')\n"
# Three shapes, each through an entry of its own; custom_kernel chooses by the number of columns and rows.
MERGED = (
    "VARIANT = {{'shapes': {{'4x8': {{}}, '16x8': {{}}, '16x32': {{}}}}, 'fallback': {{}}}}\n"
    "def _first(data):\n    return {0}\n"
    "def _second(data):\n    return {1}\n"
    "def _third(data):\n    return {2}\n"
    "_ENTRIES = {{(4, 8): _first, (16, 8): _second, (16, 32): _third}}\n"
    "def entry_for(key):\n    return _ENTRIES[tuple(key)]\n"
    "def custom_kernel(data):\n    return entry_for(tuple(data[0].shape))(data)\n"
)
ANSWER = "data[0] * data[1]['slope'] + 1"
WRONG_ANSWER = "data[0] * data[1]['slope'] + 9"


@pytest.fixture
def checked(affine, submit, monkeypatch):
    """Check a merged file against parts by label, with everything in this process."""
    monkeypatch.setattr(merge_check, "Bench", InProcess)

    def check(merged: str, parts: dict[str, str], machine=FAKE_GPU, listener=lambda result: None):
        variants = {label: submit(source, f"part_{label}") for label, source in parts.items()}
        return check_merge(affine, submit(merged, "merged"), variants, machine, listener)

    return check


ALL_RIGHT = MERGED.format(ANSWER, ANSWER, ANSWER)
LABELS = ("4x8", "16x8", "16x32")


@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_a_merged_file_that_equals_its_parts_passes_on_every_shape(checked, device):
    machine = FAKE_GPU if device == "gpu" else open_machine("cpu")
    results = checked(ALL_RIGHT, dict.fromkeys(LABELS, PLUS), machine)
    assert [(result.shape, result.label, result.variant) for result in results] == [
        (f"S{index}", label, f"part_{label}") for index, label in enumerate(LABELS, 1)
    ]
    assert all(result.passed and result.equal and result.reason == "" for result in results)
    sliced = "4 of 16 rows" if device == "cpu" else None
    assert [result.slice_of for result in results] == [None, sliced, sliced]


def test_a_difference_in_the_last_bits_is_reported_though_both_are_right(checked):
    results = checked(ALL_RIGHT, {"4x8": PLUS, "16x8": REORDERED})
    assert [result.passed for result in results] == [True, False]
    assert (results[1].official.status, results[1].exact.status) == ("pass", "pass")
    assert not results[1].equal
    assert results[1].reason == "differs from part_16x8 alone on the same inputs"


def test_a_wrong_part_fails_though_the_merged_file_equals_it(checked):
    (result,) = checked(MERGED.format(WRONG_ANSWER, ANSWER, ANSWER), {"4x8": WRONG})
    assert result.equal
    assert not result.passed
    assert result.reason.startswith("official: mismatch found!")


def test_a_part_that_is_wrong_by_the_exact_verdict_only_fails_too(checked):
    nearly = ANSWER + " + 0.05"
    (result,) = checked(MERGED.format(nearly, ANSWER, ANSWER), {"4x8": PLUS.replace(ANSWER, nearly)})
    assert (result.equal, result.official.status, result.exact.status) == (True, "pass", "fail")
    assert not result.passed
    assert result.reason.startswith("exact: error 0.0")


@pytest.mark.parametrize(
    ("answer", "part", "why"),
    [
        ("data[0].double()", "return data[0].double()", "official: the output's dtype is float64, expected float32"),
        ("data[0] / 0", "return data[0] / 0", "official: mismatch found!"),
        ("None", "return None", "official: the output is a NoneType, expected a tensor"),
    ],
)
def test_a_shape_with_the_wrong_kind_of_output_fails(checked, answer, part, why):
    (result,) = checked(MERGED.format(answer, ANSWER, ANSWER), {"4x8": f"def custom_kernel(data):\n    {part}\n"})
    assert not result.passed
    assert result.reason.startswith(why)


def test_shapes_without_a_part_are_left_out_and_each_result_is_heard_as_it_comes(checked):
    heard = []
    results = checked(ALL_RIGHT, {"16x32": PLUS, "4x8": PLUS}, listener=heard.append)
    assert [result.label for result in results] == ["4x8", "16x32"]
    assert heard == results


def test_real_children_are_compared_each_shape_on_its_own(affine, submit):
    merged = submit(MERGED.format(ANSWER, ANSWER, "1 / 0"), "merged")
    parts = {"4x8": submit(PLUS, "right"), "16x8": submit(RAISING, "raising"), "16x32": submit(PLUS, "also_right")}
    first, second, third = check_merge(affine, merged, parts, open_machine("cpu"))
    assert first.passed
    # The second part raises, and the third entry of the merged file does.
    assert not second.passed
    assert second.reason.startswith("ValueError: not today")
    assert not third.passed
    assert third.reason.startswith("ZeroDivisionError: division by zero")
