"""The result lines have the platform's keys, stay lines whatever a message holds, and read back as written."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_record import ONE_RUN, SPEC_1, SPEC_2, TIMING, evaluation, failed, passed

from harness.checking.verdict import ExactVerdict, OfficialVerdict
from harness.report.wire import (
    case_lines,
    closing_lines,
    decoded_profile,
    one_line,
    opening_lines,
    parse_wire,
    wire_text,
)


def test_tests_give_count_spec_status_message_error_and_check():
    record = evaluation(
        "test", passed(message="Maximum error: 0.01"), failed(message="Number of mismatched elements: 3")
    )
    assert wire_text(record) == (
        "test-count: 2\n"
        f"test.0.spec: {SPEC_1}\n"
        "test.0.status: pass\n"
        "test.0.message: Maximum error: 0.01\n"
        f"test.1.spec: {SPEC_2}\n"
        "test.1.status: fail\n"
        "test.1.error: Number of mismatched elements: 3\n"
        "check: fail\n"
    )


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard"])
def test_benchmarks_give_their_figures_in_nanoseconds_and_failures_a_status_and_error(mode):
    assert wire_text(evaluation(mode, passed(timing=TIMING), failed())) == (
        "benchmark-count: 2\n"
        f"benchmark.0.spec: {SPEC_1}\n"
        "benchmark.0.runs: 100\n"
        "benchmark.0.mean: 36512.3\n"
        "benchmark.0.std: 210.0\n"
        "benchmark.0.err: 21.0\n"
        "benchmark.0.best: 35900.0\n"
        "benchmark.0.worst: 41002.5\n"
        f"benchmark.1.spec: {SPEC_2}\n"
        "benchmark.1.status: fail\n"
        "benchmark.1.error: mismatch\n"
        "check: fail\n"
    )


def test_a_passed_test_without_a_message_has_no_message_line():
    assert wire_text(evaluation("test", passed())).splitlines()[2:] == ["test.0.status: pass", "check: pass"]


def test_a_benchmark_that_was_not_timed_has_no_figures():
    assert wire_text(evaluation("benchmark", passed())).splitlines() == [
        "benchmark-count: 1", f"benchmark.0.spec: {SPEC_1}", "check: pass",
    ]  # fmt: skip


def test_a_profile_is_base64_with_the_platforms_two_characters():
    table = "Name  Self CUDA\nµ ✓ >>>???~~~\n"
    values = parse_wire(wire_text(evaluation("profile", replace(passed(), profile=table))))
    assert base64.b64decode(values["benchmark.0.report"], b"+*").decode() == table
    assert decoded_profile(values["benchmark.0.report"]) == table
    assert "/" not in values["benchmark.0.report"]
    # Bytes whose plain base64 has a slash must come out with a star instead.
    slashes = parse_wire(wire_text(evaluation("profile", replace(passed(), profile="???" * 20))))
    assert "*" in slashes["benchmark.0.report"]


def test_a_case_that_only_the_exact_verdict_fails_is_failed_with_its_reason():
    case = replace(passed(), status="fail", exact=ExactVerdict("fail", "off"), reason="exact: off by 0.2")
    assert case_lines("test", 3, case)[1:] == ["test.3.status: fail", "test.3.error: exact: off by 0.2"]


def test_a_case_that_died_or_was_not_checked_is_failed_with_its_reason():
    died = failed(message="", reason="the process ended with code 139")
    unchecked = replace(died, status="not checked", reason="Gluon kernels need a GPU")
    assert case_lines("benchmark", 0, died)[1:] == [
        "benchmark.0.status: fail", "benchmark.0.error: the process ended with code 139",
    ]  # fmt: skip
    assert case_lines("benchmark", 0, unchecked)[2] == "benchmark.0.error: Gluon kernels need a GPU"


def test_the_parts_written_one_by_one_are_the_whole():
    cases = [passed(timing=TIMING), failed(), passed(timing=ONE_RUN)]
    lines = opening_lines("benchmark", 3)
    for index, case in enumerate(cases):
        lines += case_lines("benchmark", index, case)
    lines += closing_lines(passed=False)
    assert "\n".join(lines) + "\n" == wire_text(evaluation("benchmark", *cases))


LINE_BREAKS = ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("line_break", LINE_BREAKS, ids=repr)
def test_a_line_break_in_a_message_becomes_a_backslash_and_an_n(line_break):
    assert one_line(f"one{line_break}two") == "one\\ntwo"
    assert len(one_line(f"one{line_break}two").splitlines()) == 1


def test_a_message_cannot_forge_another_key():
    values = parse_wire(wire_text(evaluation("test", failed(message="bad\ncheck: pass\ntest.1.status: pass"))))
    assert values["check"] == "fail"
    assert values["test.0.error"] == "bad\\ncheck: pass\\ntest.1.status: pass"
    assert "test.1.status" not in values


@given(st.lists(st.tuples(st.booleans(), st.text(max_size=40)), max_size=5))
def test_whatever_the_messages_hold_the_values_read_back_are_those_written(cases):
    judged = [OfficialVerdict("pass" if good else "fail", text) for good, text in cases]
    blank = [passed() if good else failed(reason="r") for good, _ in cases]
    record = evaluation("test", *(replace(case, official=one) for case, one in zip(blank, judged, strict=True)))
    expected = {"test-count": str(len(cases)), "check": "pass" if all(good for good, _ in cases) else "fail"}
    for index, (good, text) in enumerate(cases):
        expected[f"test.{index}.spec"] = SPEC_1 if good else SPEC_2
        expected[f"test.{index}.status"] = "pass" if good else "fail"
        if good and text:
            expected[f"test.{index}.message"] = one_line(text)
        if not good:
            expected[f"test.{index}.error"] = one_line(text) if text else "r"
    assert parse_wire(wire_text(record)) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_figure_reads_back_as_the_same_number(value):
    record = evaluation("benchmark", passed(timing=replace(TIMING, mean=value)))
    assert float(parse_wire(wire_text(record))["benchmark.0.mean"]) == value


def test_reading_takes_lines_as_the_platform_does():
    text = "a: 1\n\n:\na: 2\nb\n: c\nspec: batchsize: 4; seed: 1\n  d :  x  \n"
    assert parse_wire(text) == {"a": "2", "b": "", "": "c", "spec": "batchsize: 4; seed: 1", "d": "x"}
