"""task.yml is read strictly: what the platform refuses is refused here, by key, with what is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import BrokenTask, FileProblem
from harness.problem.case import parse_case_line
from harness.problem.task_file import read_task_file

SMALL: dict[str, Any] = {
    "files": [{"name": "submission.py", "source": "@SUBMISSION@"}, {"name": "eval.py", "source": "../eval.py"}],
    "lang": "py",
    "config": {"main": "eval.py"},
    "description": "text",
}


def written(tmp_path: Path, **changes: Any) -> Path:
    """A small task.yml with these keys changed; None leaves a key out."""
    task = {key: value for key, value in {**SMALL, **changes}.items() if value is not None}
    path = tmp_path / "task.yml"
    path.write_text(yaml.safe_dump(task, sort_keys=False))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(BrokenTask) as caught:
        read_task_file(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


def test_a_small_task_has_the_platforms_defaults(tmp_path):
    task = read_task_file(written(tmp_path))
    assert (task.main, task.description, task.tests, task.benchmarks) == ("eval.py", "text", (), ())
    assert (task.test_timeout_s, task.benchmark_timeout_s, task.ranked_timeout_s) == (180, 180, 180)
    assert (task.ranking_by, task.seed, task.gpus) == ("last", None, ())


@pytest.mark.parametrize("key", ["files", "lang", "config", "description"])
def test_each_required_key_is_missed_by_name(tmp_path, key):
    message = refusal(written(tmp_path, **{key: None}))
    assert message == f": '{key}' is missing (required: files, lang, config, description)"


@pytest.mark.parametrize("key", ["test", "timeout", "Files", "benchmark"])
def test_an_unknown_key_is_an_error_that_lists_the_accepted_ones(tmp_path, key):
    message = refusal(written(tmp_path, **{key: 1}))
    assert f"unknown key '{key}'" in message
    assert all(name in message for name in ("files", "tests", "benchmarks", "ranking_by", "multi_gpu"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("templates", {"Python": "template.py"}),
        ("gpus", ["MI355X"]),
        ("libraries", []),
        ("tests", []),
        ("benchmarks", []),
        ("test_timeout", 5),
        ("benchmark_timeout", 5),
        ("ranked_timeout", 5),
        ("ranking_by", "mean"),
        ("seed", 4),
        ("multi_gpu", False),
    ],
)
def test_each_optional_key_of_the_platform_is_accepted(tmp_path, key, value):
    assert read_task_file(written(tmp_path, **{key: value})).main == "eval.py"


def test_optional_keys_are_read(tmp_path):
    path = written(
        tmp_path,
        gpus=["MI355X", "H100"],
        tests=[{"rows": 4, "kind": "plain", "seed": 1}],
        benchmarks=[{"rows": 8}, {"rows": 9}],
        test_timeout=900,
        benchmark_timeout=901,
        ranked_timeout=1200.5,
        ranking_by="geom",
        seed=42,
    )
    task = read_task_file(path)
    assert task.gpus == ("MI355X", "H100")
    assert task.tests[0].arguments == {"rows": 4, "kind": "plain", "seed": 1}
    assert [case.spec for case in task.benchmarks] == ["rows: 8", "rows: 9"]
    assert [task.timeout_s(mode) for mode in ("test", "benchmark", "profile", "leaderboard")] == [900, 901, 901, 1200.5]
    assert (task.ranking_by, task.seed) == ("geom", 42)


def test_case_lines_are_written_in_the_order_of_the_file_as_the_platform_writes_them(tmp_path):
    task = read_task_file(written(tmp_path, tests=[{"batchsize": 4, "qseqlen": 1, "kvseqlen": 1024, "seed": 4220}]))
    assert task.tests[0].spec == "batchsize: 4; qseqlen: 1; kvseqlen: 1024; seed: 4220"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"lang": "cu"}, "lang 'cu' is not supported (accepted: py)"),
        ({"multi_gpu": True}, "multi_gpu problems are not supported"),
        ({"ranking_by": "median"}, "ranking_by 'median' (accepted: last, mean, geom)"),
        ({"config": "eval.py"}, "config must be a mapping with exactly 'main'"),
        ({"config": {"main": "eval.py", "sources": []}}, "config must be a mapping with exactly 'main'"),
        ({"files": {"submission.py": "@SUBMISSION@"}}, "'files' must be a list of name and source"),
        ({"files": [{"name": "submission.py"}]}, "needs a name and a source"),
        ({"files": ["submission.py"]}, "needs a name and a source"),
        ({"files": [{"name": "a.py", "source": "a.py"}]}, "none of 'files' has the source @SUBMISSION@"),
        ({"tests": {"rows": 4}}, "'tests' must be a list of mappings"),
        ({"benchmarks": [4]}, "'benchmarks' must be a list of mappings"),
        ({"tests": [{"rows": 4.5}]}, "rows: 4.5 is not an integer, boolean or word"),
        ({"tests": [{"rows": [4]}]}, "rows: [4] is not an integer, boolean or word"),
        ({"tests": [{"rows": "two words"}]}, "in 'tests', invalid test case: 'rows: two words'"),
        ({"tests": [{"rows": ""}]}, "in 'tests', invalid test case: 'rows: '"),
        ({"tests": [{"the-rows": 4}]}, "in 'tests', invalid test case: 'the-rows: 4'"),
        ({"tests": [{4: 4}]}, "4: 4 is not"),
        ({"tests": [{}]}, "in 'tests', invalid test case: ''"),
        ({"test_timeout": 0}, "test_timeout must be a positive number of seconds, not 0"),
        ({"ranked_timeout": "long"}, "ranked_timeout must be a positive number of seconds, not 'long'"),
        ({"benchmark_timeout": True}, "benchmark_timeout must be a positive number of seconds, not True"),
        ({"benchmark_timeout": float("nan")}, "benchmark_timeout must be a positive number of seconds, not nan"),
    ],
)
def test_a_value_that_the_platform_does_not_take_is_refused(tmp_path, changes, why):
    assert why in refusal(written(tmp_path, **changes))


def test_values_are_what_the_evaluator_makes_of_the_case_line_and_not_what_yaml_makes_of_the_file(tmp_path):
    # The platform writes a YAML true as `True`, which its evaluator reads as a word; its boolean is the word `true`.
    task = read_task_file(written(tmp_path, tests=[{"a": True, "b": False, "c": "true", "d": "12"}]))
    assert task.tests[0].spec == "a: True; b: False; c: true; d: 12"
    assert task.tests[0].arguments == {"a": "True", "b": "False", "c": True, "d": 12}


def test_every_accepted_case_is_one_that_the_evaluator_can_read_back(tmp_path):
    path = written(tmp_path, tests=[{"rows": 4, "kind": "plain", "seed": -1}, {"_a1": "x_2"}])
    for case in read_task_file(path).tests:
        assert parse_case_line(case.spec).arguments == case.arguments


@pytest.mark.parametrize("text", ["", "- a list\n", "just text\n", "4\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text):
    (tmp_path / "task.yml").write_text(text)
    assert "expected a mapping with files, lang, config, description" in refusal(tmp_path / "task.yml")


def test_bad_yaml_is_refused_with_its_line(tmp_path):
    (tmp_path / "task.yml").write_text("files:\n  - {name: a, source: b}\nlang: [py\nconfig: {}\n")
    assert refusal(tmp_path / "task.yml").startswith(":4: not valid YAML: ")


def test_a_tab_in_the_indentation_is_refused_with_its_line(tmp_path):
    (tmp_path / "task.yml").write_text("files:\n\t- {name: a, source: b}\n")
    assert refusal(tmp_path / "task.yml").startswith(":2: not valid YAML: ")


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "task.yml").write_bytes(b"files: \xff\n")
    assert "cannot be read" in refusal(tmp_path / "task.yml")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: "\ufeff" + text.replace("\n", "\r\n").rstrip(),
    ],
    ids=["CRLF", "byte-order mark", "both and no final newline"],
)
def test_line_ends_a_byte_order_mark_and_a_missing_newline_change_nothing(tmp_path, change):
    path = written(tmp_path, tests=[{"rows": 4, "seed": 1}])
    plain = read_task_file(path)
    path.write_bytes(change(path.read_text()).encode())
    assert read_task_file(path) == plain


def test_sources_are_found_beside_the_task_and_in_parent_folders(tmp_path):
    folder = tmp_path / "problem"
    folder.mkdir()
    files = [
        {"name": "submission.py", "source": "@SUBMISSION@"},
        {"name": "utils.py", "source": "../utils.py"},
        {"name": "reference.py", "source": "reference.py"},
    ]
    task = read_task_file(written(folder, files=files))
    assert task.files == {
        "submission.py": None,
        "utils.py": tmp_path.resolve() / "utils.py",
        "reference.py": folder.resolve() / "reference.py",
    }


def test_a_missing_file_says_what_belongs_there(tmp_path):
    with pytest.raises(FileProblem, match=r"no such file: .*task\.yml; a problem folder holds a task\.yml"):
        read_task_file(tmp_path / "task.yml")


def test_the_repositorys_own_task_is_the_platforms(pytestconfig):
    task = read_task_file(pytestconfig.rootpath / "task.yml")
    # Source: gpu-mode/reference-kernels, problems/amd_202602/mixed-mla/task.yml (2026).
    tests = [(4, 1024, 4220), (32, 1024, 5412), (64, 8192, 1360), (256, 8192, 9826)]
    benchmarks = [
        (4, 1024, 4217), (4, 8192, 4220), (32, 1024, 5412), (32, 8192, 5415),
        (64, 1024, 1357), (64, 8192, 1360), (256, 1024, 9823), (256, 8192, 9826),
    ]  # fmt: skip

    def specs(rows):
        return [f"batchsize: {b}; qseqlen: 1; kvseqlen: {k}; seed: {s}" for b, k, s in rows]

    assert [case.spec for case in task.tests] == specs(tests)
    assert [case.spec for case in task.benchmarks] == specs(benchmarks)
    assert task.ranking_by == "geom"
    assert (task.test_timeout_s, task.benchmark_timeout_s, task.ranked_timeout_s) == (900, 900, 1200)
