"""A comparison as JSON and as a table."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from harness.compare.as_json import comparison_json, origin_json
from harness.compare.record import Comparison, Outcome, ShapeComparison
from harness.compare.table import advice, print_comparison, print_provenance, verdict_sentences
from harness.compare.verdict import REASONS
from harness.targets.device_clocks import DeviceClocks
from harness.targets.provenance import Provenance

PAGE = Path(__file__).parents[1] / "docs" / "comparing.md"

FASTER = Outcome(
    ratio=0.97,
    low=0.965,
    high=0.975,
    verdict="FASTER",
    reason=None,
    noise_floor=0.004,
    detectable=0.01,
    p=2e-4,
    p_holm=4e-4,
)
SLOWER = replace(FASTER, ratio=1.031, low=1.02, high=1.042, verdict="SLOWER")
SAME = replace(FASTER, ratio=1.0, low=0.999, high=1.001, verdict="SAME", p=0.6, p_holm=0.6)
UNDECIDED = replace(SAME, low=0.98, high=1.02, verdict="UNDECIDED", reason="interval-crosses-delta")


def comparison_of(*outcomes: Outcome, processes: int = 1) -> Comparison:
    shapes = tuple(
        ShapeComparison(**vars(outcome), shape=f"S{number}", a_ns=97_000.0, b_ns=100_000.0, samples=())
        for number, outcome in enumerate(outcomes, 1)
    )
    return Comparison(
        a="new[1].py",
        b="old.py",
        shapes=shapes,
        geomean=outcomes[0],
        delta=0.005,
        blocks=20,
        quads_per_block=5,
        processes=processes,
        seed=0,
        resamples=9999,
    )


def printed(comparison: Comparison, width: int = 80) -> str:
    stream = io.StringIO()
    print_comparison(comparison, Console(file=stream, width=width))
    return stream.getvalue()


def test_json_has_the_documented_keys_and_plain_values():
    as_json = comparison_json(comparison_of(FASTER, UNDECIDED))
    assert json.loads(json.dumps(as_json, allow_nan=False)) == as_json
    assert list(as_json) == [
        "a", "b", "shapes", "geomean", "delta", "blocks", "quads_per_block", "processes", "seed", "resamples",
    ]  # fmt: skip
    outcome_keys = {"ratio", "low", "high", "verdict", "reason", "noise_floor", "detectable", "p", "p_holm"}
    assert set(as_json["shapes"][0]) == outcome_keys | {"shape", "a_ns", "b_ns"}
    assert set(as_json["geomean"]) == outcome_keys
    assert as_json["shapes"][0]["reason"] is None
    assert as_json["shapes"][1]["reason"] == "interval-crosses-delta"


ORIGIN = Provenance(
    device="Some GPU",
    target="sm_90",
    driver="580.1",
    python="3.12.1",
    torch="2.11.0",
    triton="3.6.0",
    commit="0123abc+changes",
    clocks_before=DeviceClocks(1980.0, 3201.0, 41.0, 118.65),
    clocks_after=None,
)


def test_json_says_what_the_times_depend_on():
    as_json = origin_json(ORIGIN, "a" * 64, "b" * 64, 8 << 30)
    assert json.loads(json.dumps(as_json, allow_nan=False)) == as_json
    assert list(as_json) == ["a_hash", "b_hash", "clear_bytes", "provenance"]
    assert as_json["provenance"]["clocks_before"]["compute_mhz"] == 1980.0
    assert as_json["provenance"]["clocks_after"] is None


def test_the_provenance_is_printed_in_two_lines():
    stream = io.StringIO()
    print_provenance(ORIGIN, 7, Console(file=stream, width=200))
    assert stream.getvalue().splitlines() == [
        "Some GPU, torch 2.11.0, Triton 3.6.0, Python 3.12.1, driver 580.1",
        "seed 7, commit 0123abc+changes; clocks before 1980 MHz 3201 MHz memory 41 °C, after unknown",
    ]


def test_every_json_key_is_documented():
    page, as_json = PAGE.read_text(encoding="utf-8"), comparison_json(comparison_of(FASTER))
    origin = origin_json(ORIGIN, "", "", 0)
    keys = {*as_json, *as_json["shapes"][0], *as_json["geomean"], *origin, *origin["provenance"]}
    keys |= set(origin["provenance"]["clocks_before"])
    assert not {key for key in keys if f"`{key}`" not in page}


def test_every_reason_code_is_documented():
    page = PAGE.read_text(encoding="utf-8")
    assert not {reason for reason in REASONS if f"`{reason}`" not in page}


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (FASTER, "S1: A (new[1].py) is FASTER than B (old.py): it takes 3.00 % less time."),
        (SLOWER, "S1: A (new[1].py) is SLOWER than B (old.py): it takes 3.10 % more time."),
        (SAME, "S1: A (new[1].py) and B (old.py) are the SAME: they differ by less than 0.50 %."),
        (
            UNDECIDED,
            "S1: A (new[1].py) against B (old.py) is UNDECIDED (interval-crosses-delta): a part of the interval "
            "matters and a part does not; this run sees differences from 1.00 % on.",
        ),
    ],
)
def test_each_verdict_is_one_sentence_that_says_whose_it_is(outcome, sentence):
    assert verdict_sentences(comparison_of(outcome)) == [sentence]
    assert sentence in printed(comparison_of(outcome))


def test_the_table_prints_low_mid_high_and_what_the_run_sees_within_80_columns():
    text = printed(comparison_of(FASTER))
    assert "[0.9650 0.9700 0.9750]" in text
    assert "1.00 %" in text
    assert "97.00" in text
    assert "A = new[1].py" in text
    table = text.split("S1: ")[0]
    assert "…" not in table
    assert all(len(line) <= 80 for line in table.splitlines())


def test_the_geomean_has_a_row_and_a_sentence_where_there_are_several_shapes():
    assert "geomean" not in printed(comparison_of(FASTER))
    assert printed(comparison_of(FASTER, SAME)).count("geomean") == 2


def test_advice_names_only_what_was_not_tried():
    assert advice(comparison_of(FASTER, processes=3)) == []
    assert any("--processes 3" in line for line in advice(comparison_of(FASTER)))
    assert any("--blocks 40" in line for line in advice(comparison_of(UNDECIDED)))
    floor = advice(comparison_of(replace(UNDECIDED, reason="below-noise-floor"), processes=3))
    assert len(floor) == 1
    assert "more blocks do not" in floor[0]
