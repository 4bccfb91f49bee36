"""Shapes have names and labels, are chosen by either, and an unknown one is answered with the nearest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import BrokenSubmission, BrokenTask, FileProblem, UnknownName
from harness.problem.case import parse_case_line
from harness.problem.problem import Problem, open_problem


def with_benchmarks(problem: Problem, *lines: str) -> Problem:
    task = replace(problem.task, benchmarks=tuple(parse_case_line(line) for line in lines))
    return Problem(problem.root, task)


def test_shapes_are_numbered_in_the_order_of_the_benchmarks_and_labelled_by_what_varies(affine):
    shapes = affine.shapes
    assert [(shape.name, shape.label, shape.key) for shape in shapes] == [
        ("S1", "4x8", (4, 8)),
        ("S2", "16x8", (16, 8)),
        ("S3", "16x32", (16, 32)),
    ]
    assert [shape.case.arguments["seed"] for shape in shapes] == [11, 12, 13]


def test_an_argument_that_is_the_same_everywhere_is_in_the_key_and_not_in_the_label(affine):
    problem = with_benchmarks(
        affine, "rows: 4; depth: 1; columns: 8; seed: 1", "rows: 5; depth: 1; columns: 8; seed: 1"
    )
    assert [(shape.label, shape.key) for shape in problem.shapes] == [("4", (4, 1, 8)), ("5", (5, 1, 8))]


def test_a_single_benchmark_is_labelled_by_all_of_its_arguments(affine):
    assert [shape.label for shape in with_benchmarks(affine, "rows: 4; columns: 8; seed: 1").shapes] == ["4x8"]


def test_two_seeds_of_one_shape_are_one_shape(affine):
    problem = with_benchmarks(affine, "rows: 4; seed: 1", "rows: 4; seed: 2", "rows: 5; seed: 3")
    assert [(shape.name, shape.label, shape.case.arguments["seed"]) for shape in problem.shapes] == [
        ("S1", "4", 1),
        ("S2", "5", 3),
    ]


def test_without_benchmarks_the_tests_give_the_shapes(affine):
    assert [shape.label for shape in with_benchmarks(affine).shapes] == ["4x8"]


@pytest.mark.parametrize("text", ["S2", "s2", "16x8", "16X8", " S2 "])
def test_a_shape_is_found_by_name_or_label_in_any_case(affine, text):
    assert affine.shape(text).name == "S2"


@pytest.mark.parametrize(("given", "suggested"), [("S9", "S1"), ("16x9", "16x8"), ("16-32", "16x32"), ("4*8", "4x8")])
def test_an_unknown_shape_is_answered_with_the_nearest_and_all_of_them(affine, given, suggested):
    with pytest.raises(UnknownName) as caught:
        affine.shape(given)
    message = str(caught.value)
    assert message.startswith(f"unknown shape '{given}' (accepted: S1, 4x8, S2, 16x8, S3, 16x32)")
    assert message.endswith("?")
    # Several may be equally near (S1, S2, S3): the one suggested is at least of that form.
    assert message.rpartition("did you mean ")[2].rstrip("?")[: len(suggested) - 1] == suggested[:-1]


def test_a_name_like_nothing_gets_no_suggestion(affine):
    with pytest.raises(UnknownName) as caught:
        affine.shape("zzzz")
    assert "did you mean" not in str(caught.value)


def test_a_list_of_shapes_is_taken_in_the_problems_order_and_each_once(affine):
    assert [shape.name for shape in affine.select_shapes("16x32, S1,s1")] == ["S1", "S3"]
    assert affine.select_shapes(None) == affine.shapes
    assert affine.select_shapes("") == affine.shapes


@pytest.mark.parametrize("text", [",", " ", " , ,"])
def test_a_list_that_names_nothing_is_refused_and_does_not_mean_no_shape(affine, text):
    with pytest.raises(UnknownName, match="unknown shape"):
        affine.select_shapes(text)


def test_the_shape_of_a_case_ignores_its_seed_and_the_order_of_its_arguments(affine):
    assert affine.shape_of(parse_case_line("columns: 8; seed: 99; rows: 16")) is affine.shapes[1]
    assert affine.shape_of(parse_case_line("rows: 16; columns: 9; seed: 99")) is None


def test_a_variant_is_found_by_name_and_by_path(affine):
    affine.variants_folder.mkdir(exist_ok=True)
    path = affine.variants_folder / "quick.py"
    path.write_text("def custom_kernel(data): return data\n")
    assert affine.variant("quick").path == path
    assert affine.variant(str(path)).name == "quick"
    assert affine.variant_paths() == {"quick": path}


def test_an_unknown_variant_is_answered_with_the_nearest(affine):
    affine.variants_folder.mkdir(exist_ok=True)
    for name in ("fast_rows", "slow_rows"):
        (affine.variants_folder / f"{name}.py").write_text("def custom_kernel(data): return data\n")
    with pytest.raises(UnknownName, match=r"unknown variant 'fastrows' .*did you mean fast_rows\?"):
        affine.variant("fastrows")


def test_a_path_that_cannot_be_a_submission_is_refused(affine, tmp_path):
    with pytest.raises(FileProblem, match="no such file"):
        affine.variant(str(tmp_path / "missing.py"))
    with pytest.raises(FileProblem, match="is a folder; expected a Python file"):
        affine.variant(str(tmp_path))
    notes = tmp_path / "notes.txt"
    notes.write_text("def custom_kernel(data): return data\n")
    with pytest.raises(BrokenSubmission, match=r"not a Python file; the platform takes one file named \*\.py"):
        affine.variant(str(notes))


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileProblem, match=r"no such folder: .*nowhere; a problem folder holds task\.yml"):
        open_problem(tmp_path / "nowhere")


def test_a_module_that_the_problem_lacks_is_named(affine):
    with pytest.raises(FileProblem, match=r"the problem folder needs absent\.py"):
        affine.load_module("absent")


@pytest.mark.parametrize("text", ["1 / 0", "import nonexistent_module", "def broken(:"])
def test_a_module_that_cannot_be_imported_is_a_broken_problem(affine, text):
    (affine.root / "reference.py").write_text(text + "\n")
    with pytest.raises(BrokenTask, match=r"reference\.py: cannot be imported: \w+Error: "):
        affine.load_module("reference")


def test_a_module_comes_from_where_task_yml_says(affine, tmp_path):
    elsewhere = tmp_path / "shared_reference.py"
    elsewhere.write_text("MARK = 'elsewhere'\n")
    task = replace(affine.task, files={**affine.task.files, "reference.py": elsewhere})
    assert Problem(affine.root, task).load_module("reference").MARK == "elsewhere"


def test_two_problems_in_one_process_keep_their_modules_apart(tmp_path):
    roots = []
    for name in ("first", "second"):
        root = tmp_path / name
        root.mkdir()
        (root / "task.yml").write_text((Path(__file__).parent / "problems" / "affine" / "task.yml").read_text())
        (root / "reference.py").write_text(f"NAME = {name!r}\n")
        (root / "truth.py").write_text("from reference import NAME\n")
        roots.append(open_problem(root))
    for problem in (*roots, *roots):
        assert problem.root.name == problem.load_module("truth").NAME
        assert problem.root.name == problem.load_module("reference").NAME
