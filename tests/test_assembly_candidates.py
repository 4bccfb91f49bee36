"""candidates.toml: whole submissions to try, with other plans and settings, each a file of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from assembly_cases.problem_folder import make_problem, winners_text

from harness.assembly.candidates import Built, build_candidate, read_candidates
from harness.assembly.plans import with_plan
from harness.assembly.winners import read_winners
from harness.errors import BrokenWinners, UnknownName
from harness.lint.check import lint_source
from harness.problem.problem import Problem, open_problem

ROOT = Path(__file__).parents[1]
TUNED = """\
from __future__ import annotations

import torch

# how much
TUNED_PLANS = {
    "1": 10,  # measured
    "2": 20,
}
OTHER = {"1": 0}


def custom_kernel(data):
    return TUNED_PLANS[str(len(data))]
"""
PLAIN = "import torch\n\n\ndef custom_kernel(data):\n    return data\n"


def folder(root: Path, text: str | None) -> Problem:
    problem = make_problem(root, {"tuned": TUNED, "plain": PLAIN}, winners_text({"1": "plain"}, "plain"))
    if text is not None:
        (root / "variants" / "candidates.toml").write_text(text)
    return problem


def build(problem: Problem) -> list[Built]:
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    return [build_candidate(problem, winners, candidate) for candidate in read_candidates(problem)]


def test_a_plan_replaces_one_value_and_nothing_else() -> None:
    edited = with_plan(TUNED, "2", "Plan(splits=4)", "tuned")
    assert edited == TUNED.replace('"2": 20', '"2": Plan(splits=4)')


@pytest.mark.parametrize(
    ("source", "label", "plan", "said"),
    [
        (TUNED, "3", "1", "no table named …PLANS with that shape"),
        (PLAIN, "1", "1", "no table named …PLANS"),
        (TUNED + 'MORE_PLANS = {"1": 1}\n', "1", "2", "2 tables"),
        (TUNED, "1", "Plan(", "not a Python expression: Plan("),
        ('def f():\n    PLANS = {"1": 1}\n', "1", "2", "no table"),
    ],
)
def test_a_plan_without_its_place_is_refused(source: str, label: str, plan: str, said: str) -> None:
    with pytest.raises(BrokenWinners, match="plan of tuned for " + label) as refused:
        with_plan(source, label, plan, "tuned")
    assert said in str(refused.value)


GOOD = """\
[first]
why = "other numbers"
fallback = "plain"
settings = { TRITON_X = "a b" }
[first.shapes]
"2" = { variant = "tuned", plan = "21" }
"1" = { variant = "tuned", plan = "11" }

[second]
why = "the plain one"
target = "portable"
fallback = "plain"
[second.shapes]
"1" = "plain"
"""


def test_a_candidate_holds_its_plans_and_leaves_the_variant_alone(tmp_path: Path) -> None:
    problem = folder(tmp_path, GOOD)
    first, second = build(problem)
    assert '"1": 11' in first.assembly.source
    assert '"2": 21' in first.assembly.source
    assert '"1": 11' in first.parts["1"].source
    assert "TUNED_PLANS" not in second.assembly.source
    assert (tmp_path / "variants" / "tuned.py").read_text() == TUNED
    assert [build.assembly.source for build in build(problem)] == [first.assembly.source, second.assembly.source]


def test_directives_come_first_and_the_header_says_what_is_tried(tmp_path: Path) -> None:
    first, _ = build(folder(tmp_path, GOOD))
    lines = first.assembly.source.splitlines()
    header = lines[: next(number for number, line in enumerate(lines) if not line.startswith("#"))]
    assert all(line.startswith("#!POPCORN") for line in header[:2])
    assert "# Candidate first: other numbers." in header
    assert "# 2: tuned, plan 21" in header
    assert not any("make submit" in line for line in header)
    assert first.assembly.bytes == len(first.assembly.source.encode())


def test_settings_are_made_before_anything_but_the_future_is_imported(tmp_path: Path) -> None:
    first, second = build(folder(tmp_path, GOOD))
    body = [ast.unparse(node) for node in ast.parse(first.assembly.source).body]
    before = [line for line in body[: body.index("import torch")] if "__future__" not in line and line[0] != "'"]
    assert before == ["import os", "os.environ['TRITON_X'] = 'a b'"]
    assert "environ" not in second.assembly.source


def test_no_file_is_no_candidate(tmp_path: Path) -> None:
    assert read_candidates(folder(tmp_path, None)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"the plain one"', "3"), "needs why"),
        (('[second.shapes]\n"1" = "plain"', ""), "needs a table [second.shapes]"),
        (('"1" = "plain"', '"1" = 3'), 'must name a variant, as "NAME"'),
        (('{ TRITON_X = "a b" }', "{ TRITON_X = 1 }"), "settings must be a table of texts"),
        (('"21"', "21"), "must be one line of text"),
        (("[second]", '["second one"]'), "the name becomes a file's"),
        (("[second]", "second"), "not valid TOML"),
        (("other numbers", "a stream of numbers"), "contains 'stream'"),
    ],
)
def test_what_is_no_candidate_is_refused_in_one_line(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    with pytest.raises(BrokenWinners) as refused:
        build(folder(tmp_path, GOOD.replace(*change)))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"1" = "plain"', '"1" = "plan"'), "did you mean plain?"),
        (('"1" = "plain"', '"7" = "plain"'), "shape in [second]"),
        (('target = "portable"', 'target = "gfx951"'), "gfx950"),
        (('why = "the plain one"', 'whi = "the plain one"'), "did you mean why?"),
        (('plan = "21"', 'plans = "21"'), "did you mean plan?"),
    ],
)
def test_what_does_not_exist_is_refused_with_the_nearest_name(
    tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    with pytest.raises(UnknownName) as refused:
        build(folder(tmp_path, GOOD.replace(*change)))
    assert said in str(refused.value)


def repository_candidates() -> list[str]:
    return [candidate.name for candidate in read_candidates(open_problem(ROOT))]


@pytest.mark.parametrize("name", repository_candidates())
def test_each_candidate_here_takes_every_shape_and_breaks_no_rule(name: str) -> None:
    problem = open_problem(ROOT)
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    candidate = next(each for each in read_candidates(problem) if each.name == name)
    assert list(candidate.shapes) == [shape.label for shape in problem.shapes]
    built = build_candidate(problem, winners, candidate)
    assert [finding for finding in lint_source(built.assembly.source, Path(f"{name}.py")) if finding.fatal] == []
