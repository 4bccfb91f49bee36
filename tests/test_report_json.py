"""The JSON of an evaluation has its documented keys and holds no figure that was not measured."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

from report_record import CPU, ONE_RUN, SPEC_1, TIMING, evaluation, failed, passed

from harness.checking.verdict import ExactVerdict
from harness.report import json_report
from harness.report.json_report import evaluation_json
from harness.timing.clocks import ByteFloor, EmptyTimes

CASE_KEYS = [
    "shape", "spec", "status", "reason", "slice_of", "official", "exact", "error", "runs", "mean", "std", "err",
    "best", "worst", "queued_median", "exposed_median", "exposed_runs", "bytes_needed", "floor_ns", "floor_share",
]  # fmt: skip
TIMING_KEYS = CASE_KEYS[-12:]
EMPTY = EmptyTimes(queued=1300.0, queued_launch=3100.0, exposed=6000.0, exposed_launch=9000.0)
KEYS = [
    "file", "mode", "device", "check", "score_ns", "notes", "bandwidth", "clear_bytes", "empty_queued_ns",
    "empty_queued_launch_ns", "empty_exposed_ns", "empty_exposed_launch_ns", "processes", "duration_s",
    "first_calls_s", "timed_calls_s", "cases",
]  # fmt: skip


def test_the_keys_are_the_documented_ones_and_each_is_in_the_docstring():
    document = evaluation_json(evaluation("benchmark", passed(timing=TIMING), score_ns=36_512.3))
    assert list(document) == KEYS
    assert list(document["cases"][0]) == CASE_KEYS
    assert all(f"`{key}`" in json_report.__doc__ for key in [*document, *CASE_KEYS])


def test_every_key_is_in_the_page_on_measuring():
    page = (Path(__file__).parents[1] / "docs" / "measuring.md").read_text(encoding="utf-8")
    assert not {key for key in [*KEYS, *CASE_KEYS] if f"`{key}`" not in page}


def test_a_timed_case_has_its_figures_in_nanoseconds():
    case = replace(
        passed(timing=TIMING),
        samples_ns=(36_000.0, 36_500.0, 37_000.0),
        exposed_ns=(60_000.0, 61_000.0),
        floor=ByteFloor(4_000_000, 4e12),
    )
    document = evaluation_json(
        evaluation("benchmark", case, score_ns=36_512.3, notes=("a note",), clear_bytes=8 << 30, empty=EMPTY)
    )
    assert document["score_ns"] == 36_512.3
    assert document["check"] == "pass"
    assert document["device"] == "cuda"
    assert document["notes"] == ["a note"]
    assert (document["bandwidth"], document["clear_bytes"]) == (4e12, 8 << 30)
    assert [document[key] for key in KEYS if key.startswith("empty_")] == [1300.0, 3100.0, 6000.0, 9000.0]
    assert document["cases"][0] == {
        "shape": "S1", "spec": SPEC_1, "status": "pass", "reason": "", "slice_of": None, "official": "pass",
        "exact": "pass", "error": 0.0031, "runs": 100, "mean": 36512.3, "std": 210.0, "err": 21.0, "best": 35900.0,
        "worst": 41002.5, "queued_median": 36_500.0, "exposed_median": 60_500.0, "exposed_runs": 2,
        "bytes_needed": 4_000_000, "floor_ns": 1000.0, "floor_share": 1000 / 36_500,
    }  # fmt: skip


def test_on_the_cpu_the_timing_keys_are_null_and_the_device_says_interpreted():
    case = replace(passed(), slice_of="2 of 64 sequences")
    document = evaluation_json(evaluation("benchmark", case, machine=CPU))
    assert document["device"] == "cpu (interpreted)"
    assert document["score_ns"] is None
    assert [document["cases"][0][key] for key in TIMING_KEYS] == [None] * 12
    assert document["cases"][0]["slice_of"] == "2 of 64 sequences"


def test_a_failed_case_has_its_reason_and_fails_the_whole():
    document = evaluation_json(evaluation("test", passed(), failed()))
    assert document["check"] == "fail"
    assert (document["cases"][1]["status"], document["cases"][1]["reason"]) == ("fail", "official: mismatch")


def test_no_cases_are_no_pass():
    assert evaluation_json(evaluation("test"))["check"] == "fail"


def test_what_is_not_a_number_becomes_null_so_that_the_document_is_json():
    wild = replace(passed(timing=ONE_RUN), exact=ExactVerdict("fail", "", error=math.inf, worst_row=math.nan))
    document = evaluation_json(evaluation("benchmark", wild))
    json.dumps(document, allow_nan=False)
    assert document["cases"][0]["std"] is None
    assert document["cases"][0]["error"] is None
    assert document["cases"][0]["runs"] == 1


def test_with_stages_a_failure_of_any_fails_the_whole_and_the_last_gives_the_cases():
    good = evaluation("test", passed())
    bad = evaluation("benchmark", failed())
    document = evaluation_json(evaluation("leaderboard", stages=(good, bad)))
    assert document["check"] == "fail"
    assert [case["shape"] for case in document["cases"]] == ["S2"]
    ranked = passed(timing=TIMING)
    stages = (good, evaluation("benchmark", ranked), evaluation("leaderboard", ranked))
    assert evaluation_json(evaluation("leaderboard", ranked, stages=stages))["check"] == "pass"
