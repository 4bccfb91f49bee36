"""Case lines are read and written as the platform's evaluator does, and seeds are combined as it combines them."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.errors import BrokenTask
from harness.problem.case import Case, case_from_arguments, combine_seeds, parse_case_line

# The expression of gpu-mode/reference-kernels, problems/amd_202602/eval.py, `get_test_cases` (2026).
PLATFORM = re.compile(r"\s*([a-zA-Z_]\w*):\s*([a-zA-Z_]\w*|[+-]?[0-9]+)\s*")

words = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
values = st.one_of(st.integers(), words)
cases = st.dictionaries(words, values, min_size=1, max_size=5)


def platforms_arguments(line: str) -> dict | None:
    """What the platform's evaluator makes of a line, None where it exits with code 113."""
    arguments = {}
    for part in line.split(";"):
        matched = PLATFORM.fullmatch(part)
        if matched is None:
            return None
        value = {"true": True, "false": False}.get(matched[2], matched[2])
        arguments[matched[1]] = int(value) if isinstance(value, str) and value.lstrip("+-").isdecimal() else value
    return arguments


@given(cases)
def test_a_written_case_line_reads_back_as_the_same_case(arguments):
    written = case_from_arguments(arguments)
    read = parse_case_line(written.spec)
    # The words true and false are the platform's booleans; every other value comes back as it was.
    expected = {name: {"true": True, "false": False}.get(value, value) for name, value in arguments.items()}
    assert read.arguments == expected
    assert list(read.arguments) == list(arguments)
    assert read.spec == written.spec


@given(st.one_of(st.text("ab_1:;+- \t.", max_size=20), st.from_regex(PLATFORM, fullmatch=True), st.text(max_size=12)))
@example("a: 1; b: -2")
@example("a: 1;")
@example("a : 1")
@example("")
@example("a: 1.5")
@example("a: 'x'")
@example("a: +3")
@example("  a:1  ;b:  x ")
@example("a: 1_000")
@example("a: 1; a: 2")
@example("é: 1")
@example("a: ١")
def test_a_line_is_accepted_where_the_platform_accepts_it_and_gives_the_same_arguments(line):
    expected = platforms_arguments(line)
    if expected is None:
        with pytest.raises(BrokenTask, match="invalid test case"):
            parse_case_line(line)
    else:
        assert parse_case_line(line).arguments == expected


@pytest.mark.parametrize(
    "line", ["", "rows", "rows: ", "rows = 4", "rows: 4.5", "rows: 4;; seed: 1", "2x: 4", "a: b c"]
)
def test_a_bad_line_is_refused_with_its_bad_part(line):
    with pytest.raises(BrokenTask) as caught:
        parse_case_line(line)
    bad = next(part for part in line.split(";") if PLATFORM.fullmatch(part) is None)
    assert str(caught.value) == f"invalid test case: '{line}': '{bad}' is not 'name: integer, true, false or word'"


def test_true_and_false_are_booleans_and_other_words_are_text():
    read = parse_case_line("a: true; b: false; c: True; d: truly; e: -3")
    assert read.arguments == {"a": True, "b": False, "c": "True", "d": "truly", "e": -3}
    assert type(read.arguments["a"]) is bool
    assert type(read.arguments["e"]) is int


@pytest.mark.parametrize(
    ("public", "secret", "combined"),
    [
        # a + (a + b)(a + b + 1) / 2, by hand.
        (0, 0, 0),
        (1, 0, 2),  # 1 + 1·2/2
        (0, 1, 1),  # 0 + 1·2/2
        (1, 2, 7),  # 1 + 3·4/2
        (4217, 1, 8_902_088),  # 4217 + 4218·4219/2 = 4217 + 8 897 871
        (4220, 1_000_000, 504_229_410_530),  # 4220 + 502 110·1 004 221
    ],
)  # fmt: skip
def test_seeds_combine_by_the_platforms_pairing(public, secret, combined):
    assert combine_seeds(public, secret) == combined


def test_a_secret_seed_changes_the_seed_and_neither_the_line_nor_the_rest():
    case = parse_case_line("rows: 4; seed: 1; kind: word")
    secret = case.with_secret_seed(2)
    assert secret.arguments == {"rows": 4, "seed": 7, "kind": "word"}
    assert secret.spec == case.spec
    assert case.with_secret_seed(None) is case


def test_a_step_moves_the_seed_only_and_leaves_the_first_case_as_it_was():
    case = parse_case_line("rows: 4; seed: 1")
    assert case.with_seed_plus(13).with_seed_plus(13).arguments == {"rows": 4, "seed": 27}
    assert case.arguments == {"rows": 4, "seed": 1}


def test_a_case_without_a_seed_stays_as_it_is():
    case = Case({"rows": 4}, "rows: 4")
    assert case.with_secret_seed(5) is case
    assert case.with_seed_plus(13) is case


def test_the_shape_of_a_case_is_everything_but_its_seed():
    assert parse_case_line("rows: 4; seed: 1; columns: 8").shape_arguments == {"rows": 4, "columns": 8}
