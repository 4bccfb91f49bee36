"""Which cases a mode runs, on which inputs, and what its result says: on the CPU and with a scripted bench."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from scripted_bench import FAKE_GPU, ScriptedBench, right

from harness.errors import BrokenSubmission, BrokenTask, UnknownName
from harness.evaluation import evaluate as evaluate_module
from harness.evaluation.evaluate import Request, choose_cases, evaluate
from harness.problem.case import parse_case_line
from harness.problem.problem import Problem
from harness.targets.machine import open_machine

KERNEL = "def custom_kernel(data):\n    x, config = data\n    return x * config['slope'] + 1\n"
# A second problem over the same inputs, whose files may read x as it is or rounded to halves.
TWO_FORMATS = """
import torch


def candidates():
    return [{"kv": "exact"}, {"kv": "halves"}]


def describe(declaration):
    return declaration.get("kv", "exact")


def limit(declaration):
    return {"f32": 1e-6, "coarse": 0.5}[declaration.get("rounding", "f32")]


def output_shape(data):
    return tuple(data[0].shape)


def output_dtype(data):
    return torch.float32


def rows(output):
    return output


def row_name(index):
    return f"row {index}"


def slice_arguments(arguments):
    return dict(arguments), None


def bytes_needed(data, declaration):
    return data[0].numel() * 8


def truth(data, declaration):
    x, config = data
    return {"exact": x, "halves": (x * 2).round() / 2}[declaration.get("kv", "exact")].double() * config["slope"] + 1
"""


def halves(data):
    x, config = data
    return (x * 2).round() / 2 * config["slope"] + 1


@pytest.fixture
def run(affine, submit, monkeypatch):
    """Evaluate with a scripted bench."""

    def evaluated(bench, source=KERNEL, mode="test", problem=affine, machine=FAKE_GPU, **request):
        monkeypatch.setattr(evaluate_module, "Bench", lambda folder, machine: bench)
        return evaluate(problem, submit(source), Request(mode, **request), machine=machine)

    return evaluated


@pytest.fixture
def two_formats(affine):
    (affine.root / "truth.py").write_text(TWO_FORMATS)
    # The official rule of this one compares with the exact input only to 0.1, which halves would fail.
    reference = affine.root / "reference.py"
    reference.write_text(reference.read_text().replace("rtol=0.1, atol=0.1", "rtol=1, atol=1"))
    return affine


def with_task(problem: Problem, **changes) -> Problem:
    return Problem(problem.root, replace(problem.task, **changes))


def specs(cases) -> list[str]:
    return [case.spec for case in cases]


S1, S2, S3 = "rows: 4; columns: 8; seed: 11", "rows: 16; columns: 8; seed: 12", "rows: 16; columns: 32; seed: 13"
TEST = "rows: 4; columns: 8; seed: 1"


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard", "profile"])
def test_a_mode_runs_the_tests_or_the_benchmarks_in_their_order(affine, submit, mode):
    variant = submit(KERNEL)
    assert specs(choose_cases(affine, variant, "test", None)) == [TEST]
    assert specs(choose_cases(affine, variant, mode, None)) == [S1, S2, S3]


def test_a_shape_without_a_test_lends_its_benchmark_when_shapes_are_asked_for(affine, submit):
    assert specs(choose_cases(affine, submit(KERNEL), "test", "S1,16x32")) == [TEST, S3]
    assert specs(choose_cases(affine, submit(KERNEL), "benchmark", "16x32,S1")) == [S1, S3]


def test_a_file_for_some_shapes_runs_only_these(affine, submit):
    variant = submit("VARIANT = {'shapes': ['16x8', '16x32']}\n" + KERNEL)
    assert specs(choose_cases(affine, variant, "benchmark", None)) == [S2, S3]
    assert specs(choose_cases(affine, variant, "test", None)) == [S2, S3]
    assert specs(choose_cases(affine, variant, "benchmark", "S3")) == [S3]


def test_a_shape_that_the_file_does_not_take_is_refused_with_those_it_takes(affine, submit):
    variant = submit("VARIANT = {'shapes': ['16x8']}\n" + KERNEL, "narrow")
    with pytest.raises(UnknownName) as caught:
        choose_cases(affine, variant, "benchmark", "S2,S3")
    assert str(caught.value).startswith("unknown shape for narrow '16x32' (accepted: S2, 16x8)")


@pytest.mark.parametrize("shapes", ["['4x9']", "[]"])
def test_a_file_for_no_shape_of_the_problem_is_refused(affine, submit, shapes):
    with pytest.raises(BrokenSubmission, match=r"names no shape of this problem \(4x8, 16x8, 16x32\)"):
        choose_cases(affine, submit(f"VARIANT = {{'shapes': {shapes}}}\n{KERNEL}"), "test", None)


def test_ranking_by_the_last_runs_only_the_last_benchmark(affine, submit):
    problem = with_task(affine, ranking_by="last")
    assert specs(choose_cases(problem, submit(KERNEL), "benchmark", None)) == [S3]
    assert specs(choose_cases(problem, submit(KERNEL), "test", None)) == [TEST]


def test_ranking_by_the_last_scores_only_the_last_benchmark(affine, run):
    problem = with_task(affine, ranking_by="last")
    result = run(ScriptedBench(times_ns=[5.0] * 6), mode="benchmark", problem=problem)
    assert (specs(result.cases), result.score_ns) == ([S3], 5.0)
    # Another shape, asked for by name, is timed but is not what the platform ranks.
    result = run(ScriptedBench(times_ns=[5.0] * 6), mode="benchmark", problem=problem, shapes="S1")
    assert (specs(result.cases), result.score_ns) == ([S1], None)
    assert result.cases[0].timing.mean == 5.0


def test_a_problem_without_tests_lends_its_benchmarks_and_without_either_is_broken(affine, submit):
    assert specs(choose_cases(with_task(affine, tests=()), submit(KERNEL), "test", None)) == [S1, S2, S3]
    assert specs(choose_cases(with_task(affine, benchmarks=()), submit(KERNEL), "benchmark", None)) == [TEST]
    with pytest.raises(BrokenTask, match=r"task\.yml: neither tests nor benchmarks"):
        choose_cases(with_task(affine, tests=(), benchmarks=()), submit(KERNEL), "test", None)


def test_an_unknown_mode_is_refused_before_anything_runs(run):
    bench = ScriptedBench()
    with pytest.raises(UnknownName, match=r"unknown mode 'bench' .*did you mean benchmark\?"):
        run(bench, mode="bench")
    assert bench.inputs == []


def test_a_secret_seed_is_combined_with_each_cases_own_and_the_line_keeps_the_public_one(run, affine):
    bench = ScriptedBench()
    result = run(bench, mode="profile", secret_seed=5)
    assert specs(result.cases) == [S1, S2, S3]
    # 11 + 16·17/2, 12 + 17·18/2, 13 + 18·19/2
    for data, line in zip(bench.inputs, ("4 8 147", "16 8 165", "16 32 184"), strict=True):
        rows, columns, seed = map(int, line.split())
        assert data[0].equal(torch.randn((rows, columns), generator=torch.Generator().manual_seed(seed)))


def test_each_case_has_its_shapes_name_and_a_case_without_one_its_line(affine, submit, monkeypatch):
    monkeypatch.setattr(evaluate_module, "Bench", lambda folder, machine: ScriptedBench())
    cases = [parse_case_line("rows: 16; columns: 8; seed: 99"), parse_case_line("rows: 3; columns: 8; seed: 1")]
    result = evaluate(affine, submit(KERNEL), Request("test"), cases=cases, machine=FAKE_GPU)
    assert [case.shape for case in result.cases] == ["S2", "rows: 3; columns: 8; seed: 1"]


def test_the_listener_hears_the_beginning_and_the_end_of_every_case(affine, submit, monkeypatch):
    monkeypatch.setattr(evaluate_module, "Bench", lambda folder, machine: ScriptedBench())
    heard = []

    def listen(index, count, result, label):
        heard.append((index, count, result and result.status, label))

    evaluate(affine, submit(KERNEL), Request("profile", shapes="S1,S2"), machine=FAKE_GPU, listener=listen)
    assert heard == [(0, 2, None, "4x8"), (0, 2, "pass", "4x8"), (1, 2, None, "16x8"), (1, 2, "pass", "16x8")]


def test_a_slice_is_run_on_the_cpu_only_and_is_said(run):
    whole = ScriptedBench()
    result = run(whole, mode="profile")
    assert [case.slice_of for case in result.cases] == [None] * 3
    assert [data[0].shape[0] for data in whole.inputs] == [4, 16, 16]
    assert whole.keys == [None] * 3
    sliced = ScriptedBench()
    result = run(sliced, mode="profile", machine=open_machine("cpu"))
    assert [case.slice_of for case in result.cases] == [None, "4 of 16 rows", "4 of 16 rows"]
    assert [data[0].shape[0] for data in sliced.inputs] == [4, 4, 4]
    # A slice has another shape than the case, so a merged file's own entry for the shape is asked for by key.
    assert sliced.keys == [None, (16, 8), (16, 32)]
    assert any("a slice (4 of 16 rows)" in note for note in result.notes)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (lambda data: right(data).index_fill(0, torch.tensor([2]), float("nan")), "are NaN or Inf"),
        (lambda data: right(data).index_fill(1, torch.tensor([0]), float("inf")), "are NaN or Inf"),
        (lambda data: right(data).half(), "dtype is float16, expected float32"),
        (lambda data: right(data)[:, :-1], "shape is (4, 7), expected (4, 8)"),
        (lambda data: right(data).t().contiguous().t(), "not contiguous"),
        (lambda data: (right(data),), "the output is a tuple, expected a tensor"),
        (lambda data: right(data) + torch.arange(4.0).eq(3)[:, None] * 1e-4, "(row 3)"),
    ],
)
def test_an_output_of_the_wrong_kind_or_value_fails_with_what_is_wrong(run, kernel, reason):
    result = run(ScriptedBench(kernel=kernel))
    assert result.cases[0].status == "fail"
    assert reason in result.cases[0].reason


def test_a_problem_without_a_truth_has_the_official_verdict_only(run, affine):
    (affine.root / "truth.py").unlink()
    result = run(ScriptedBench(kernel=lambda data: right(data) + 0.05))
    assert (result.cases[0].status, result.cases[0].exact.status) == ("pass", "not checked")
    assert (
        run(ScriptedBench(kernel=lambda data: right(data) + 9)).cases[0].reason
        == "official: mismatch found!\\nsecond line"
    )


def test_a_declared_format_is_what_the_output_is_held_to(run, two_formats):
    for kernel, kv, status in [
        (right, "exact", "pass"),
        (halves, "halves", "pass"),
        (halves, "exact", "fail"),
        (right, "halves", "fail"),
    ]:
        case = run(ScriptedBench(kernel=kernel), f"VARIANT = {{'kv': '{kv}'}}\n{KERNEL}").cases[0]
        assert (case.status, case.exact.reads, case.exact.declared_by) == (status, kv, "variant")


def test_what_a_file_does_not_declare_is_found_by_the_best_fit_and_said(run, two_formats):
    result = run(ScriptedBench(kernel=halves))
    exact = result.cases[0].exact
    assert (exact.status, exact.reads, exact.declared_by) == ("pass", "halves", "best fit")
    assert any("its output fits halves best" in note for note in result.notes)


def test_an_option_says_it_for_a_file_that_declares_nothing(run, two_formats):
    result = run(ScriptedBench(kernel=halves), declaration={"kv": "exact"})
    exact = result.cases[0].exact
    assert (exact.status, exact.reads, exact.declared_by) == ("fail", "exact", "option")
    assert run(ScriptedBench(kernel=halves), declaration={"kv": "exact", "rounding": "coarse"}).passed


def test_a_merged_files_shapes_are_held_each_to_its_own_declaration(run, two_formats):
    merged = "VARIANT = {'shapes': {'4x8': {'kv': 'exact'}, '16x8': {'kv': 'halves'}}, 'fallback': {'kv': 'exact'}}\n"
    result = run(ScriptedBench(kernel=halves), merged + KERNEL, mode="profile")
    assert [case.exact.reads for case in result.cases] == ["exact", "halves", "exact"]
    assert [case.status for case in result.cases] == ["fail", "pass", "fail"]


def test_a_declaration_that_the_problem_cannot_read_is_refused_before_anything_runs(run, two_formats):
    bench = ScriptedBench()
    with pytest.raises(BrokenSubmission, match=r"candidate\.py: VARIANT: 'f8'"):
        run(bench, "VARIANT = {'rounding': 'f8'}\n" + KERNEL)
    assert bench.inputs == []


def test_inputs_that_cannot_be_drawn_are_a_broken_task_and_no_traceback(run, affine):
    with pytest.raises(BrokenTask, match=r"generate_input fails on 'rows: 4; columns: 8; seed: 1': \w+: "):
        run(ScriptedBench(), secret_seed=10**12)  # far over the 64 bits of a generator's seed


def test_a_merged_files_own_entry_runs_the_slice_of_its_shape(affine, submit):
    source = (
        "import torch\nVARIANT = {'shapes': {'16x8': {}, '16x32': {}}, 'fallback': {}}\n"
        "def _right(data):\n    return data[0] * data[1]['slope'] + 1\n"
        "def _wrong(data):\n    return data[0]\n"
        "def entry_for(key):\n    assert type(key) is tuple\n    return {(16, 8): _right}.get(key, _wrong)\n"
        "def custom_kernel(data):\n    return _right(data) if data[0].shape[0] == 4 else _wrong(data)\n"
    )
    result = evaluate(affine, submit(source), Request("benchmark", "cpu"))
    # S1 runs whole through custom_kernel, S2 and S3 in slices through their own entries, of which S3's is wrong.
    assert [case.status for case in result.cases] == ["pass", "pass", "fail"]


def test_profile_mode_gives_the_profilers_table_of_each_case(affine, submit):
    result = evaluate(affine, submit(KERNEL), Request("profile", "cpu", shapes="S1"))
    assert result.passed
    assert "aten::mul" in result.cases[0].profile
    assert "Self CPU" in result.cases[0].profile
    assert result.cases[0].timing is None
