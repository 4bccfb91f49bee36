"""The tables for people: columns, dashes for what is absent, the score or the reason for none, notes in full."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from report_record import CPU, ONE_RUN, TIMING, evaluation, failed, passed
from rich.console import Console

from harness.report.tables import plain_table, print_evaluation, score_line, title

STAND_IN = "Results come from a stand-in for a library; it is never timed."


def printed(record, terminal=False, width=140) -> str:
    file = io.StringIO()
    print_evaluation(Console(file=file, force_terminal=terminal, width=width, color_system=None), record)
    return file.getvalue()


def test_a_plain_table_has_a_row_a_case_and_aligned_columns():
    record = evaluation("benchmark", passed(timing=TIMING), failed(), score_ns=None)
    assert plain_table(record).splitlines() == [
        "submission.py, mode benchmark, on NVIDIA H200",
        "shape  official  exact         error  worst row  limit            time     best  runs  note",
        "S1     pass      pass         0.31 %     0.49 %    1 %  36.5 ± 0.02 µs  35.9 µs   100",
        "S2     fail      not checked       –          –      –               –        –     –  official: mismatch",
    ]


def test_without_timings_the_timing_columns_are_left_out_and_the_slice_is_noted():
    case = replace(passed(), slice_of="2 of 64 sequences")
    lines = plain_table(evaluation("test", case, machine=CPU)).splitlines()
    assert "time" not in lines[1]
    assert lines[2].endswith("2 of 64 sequences")


def test_a_single_run_has_a_dash_for_its_error():
    assert "1500 µs ± –" in plain_table(evaluation("benchmark", passed(timing=ONE_RUN)))
    assert "nan" not in plain_table(evaluation("benchmark", passed(timing=ONE_RUN)))


def test_the_title_says_interpreted_and_stand_in():
    assert title(evaluation("test", passed(), machine=CPU)).endswith("(interpreted)")
    assert title(evaluation("test", passed(), notes=(STAND_IN,))).endswith("(stand-in)")
    assert title(evaluation("test", passed(), machine=CPU, notes=(STAND_IN,))).endswith("(interpreted, stand-in)")
    assert "(" not in title(evaluation("test", passed()))


def test_the_score_is_shown_as_on_the_website():
    assert score_line(evaluation("leaderboard", passed(timing=TIMING), score_ns=36_512.3456)) == "score 36.512\u03bcs"


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (evaluation("test", passed()), "no timings: mode test does not time; --mode benchmark does"),
        (evaluation("benchmark", passed(timing=TIMING), failed()), "no score: S2 did not pass"),
        (evaluation("benchmark", failed(), failed()), "no timings: S2 did not pass"),
        (evaluation("benchmark", passed(timing=TIMING)), "no score: not every ranked benchmark was run"),
        (evaluation("benchmark", passed(timing=TIMING), passed(shape="S4")), "no score: S4 could not be timed here"),
        (evaluation("benchmark"), "no timings: no case was run"),
    ],
)
def test_without_a_score_the_line_says_why(record, line):
    assert score_line(record) == line


@pytest.mark.parametrize(
    ("more", "word"), [({"machine": CPU}, "interpreted"), ({"notes": (STAND_IN,)}, "stand-in")], ids=["cpu", "stand-in"]
)
def test_where_nothing_real_was_timed_the_line_says_what_ran(more, word):
    assert score_line(evaluation("benchmark", passed(), **more)).startswith(
        f"no timings: {word}, which gives the values"
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_notes_are_printed_in_full_after_the_score(terminal):
    note = "A long note that must be read with the result. " * 10
    text = printed(evaluation("test", passed(), notes=(note.strip(), "Another.")), terminal, width=60)
    assert text.index("no timings") < text.index(note.strip()) < text.index("Another.")


def test_what_is_not_a_terminal_gets_plain_lines_that_are_never_cut():
    record = evaluation("test", failed(reason="why " * 100))
    text = printed(record, terminal=False, width=40)
    assert ("why " * 100).strip() in text
    assert not set("│─╭┃━") & set(text)


def test_a_terminal_gets_a_table_with_every_cell():
    text = printed(evaluation("benchmark", passed(timing=TIMING), failed()), terminal=True)
    assert "─" in text
    for cell in ("S1", "36.5 ± 0.02 µs", "0.31 %", "not checked", "official: mismatch", "100"):
        assert cell in text


def test_text_that_looks_like_markup_is_shown_as_it_is():
    record = evaluation("test", failed(reason="[bold]x[/bold] :smile:"), notes=("[red]note[/red]",))
    for terminal in (True, False):
        assert "[bold]x[/bold] :smile:" in printed(record, terminal)
        assert "[red]note[/red]" in printed(record, terminal)


def test_a_reason_of_several_lines_stays_in_its_row():
    assert len(plain_table(evaluation("test", failed(reason="one\ntwo\\nthree"))).splitlines()) == 3


def test_each_stage_has_its_table_and_the_score_comes_once():
    ranked = passed(timing=TIMING)
    stages = (evaluation("test", passed()), evaluation("benchmark", ranked), evaluation("leaderboard", ranked))
    text = printed(evaluation("leaderboard", ranked, stages=stages, score_ns=36_512.3))
    assert [text.count(f"mode {mode}, on") for mode in ("test", "benchmark", "leaderboard")] == [1, 1, 1]
    assert text.count("score") == 1


def test_a_traceback_is_shown_once_and_a_profile_is_shown():
    raised = replace(failed(), traceback="Traceback: ValueError")
    text = printed(evaluation("test", raised, replace(raised, shape="S3")))
    assert text.count("Traceback: ValueError") == 1
    assert "S2: the submission raised" in text
    assert "Name  Time" in printed(evaluation("profile", replace(passed(), profile="Name  Time\nk  1")))
