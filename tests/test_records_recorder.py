"""A run is written down while it goes on, from any thread, and what cannot be written never ends the run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from assembly_cases.problem_folder import make_problem
from test_records_pick import ENTRY
from test_records_store import opened

from harness.checking.verdict import ExactVerdict, OfficialVerdict
from harness.evaluation.check import ShapeCheck
from harness.evaluation.result import CaseResult
from harness.problem.problem import Problem
from harness.records.recorder import recording
from harness.records.store import FILE
from harness.targets.machine import open_machine
from harness.timing.statistics import statistics_of

OFFICIAL, EXACT = OfficialVerdict("pass", "", 0.0), ExactVerdict("pass", "", 0.01, 0.02, 0.05, "fp8", "variant")


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    return make_problem(tmp_path, {"a": ENTRY.format("a")})


def a_shape(label: str) -> ShapeCheck:
    return ShapeCheck(f"S{label}", label, OFFICIAL, EXACT, {}, None, False, "")


def test_shapes_that_end_in_several_threads_are_all_kept(problem: Problem) -> None:
    said: list[str] = []
    with recording(problem, open_machine("cpu"), "check", said.append) as recorder, ThreadPoolExecutor(8) as pool:
        variant = problem.variant("a")
        list(pool.map(lambda label: recorder.shape(variant, a_shape(str(label))), range(60)))
    assert said == []
    with opened(problem.root) as store:
        (run,) = store.runs()
        cases = store.records_of(run.id)
    assert run.finished
    assert sorted(case.position for case in cases) == list(range(1, 61))
    assert {case.shape for case in cases} == {str(label) for label in range(60)}


def test_a_timed_case_keeps_every_sample_and_a_single_runs_missing_figures_stay_missing(problem: Problem) -> None:
    result = CaseResult("S1", "n: 1; seed: 1", "pass", OFFICIAL, EXACT, timing=statistics_of([5.0]), samples_ns=(5.0,))
    with recording(problem, open_machine("cpu"), "eval", pytest.fail, "benchmark", {"seed": 3, "kv": None}) as recorder:
        recorder.case(problem.variant("a"), result, "1")
    with opened(problem.root) as store:
        ((run, case),) = store.cases(samples=True)
    assert (run.mode, run.options, case.file) == ("benchmark", {"seed": 3}, "variants/a.py")
    assert (case.mean_ns, case.runs, case.samples_ns) == (5.0, 1, (5.0,))
    assert (case.std_ns, case.err_ns, case.floor_ns) == (None, None, None)


def test_a_run_that_is_cut_short_keeps_its_cases_and_is_not_finished(problem: Problem) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        recording(problem, open_machine("cpu"), "check", pytest.fail) as recorder,
    ):
        recorder.shape(problem.variant("a"), a_shape("1"))
        raise KeyboardInterrupt
    with opened(problem.root) as store:
        ((run, case),) = store.cases()
    assert (run.finished, case.shape) == (False, "1")


def test_a_run_without_a_case_leaves_no_record(problem: Problem) -> None:
    with recording(problem, open_machine("cpu"), "eval", pytest.fail):
        pass
    with opened(problem.root) as store:
        assert list(store.runs()) == []


def test_where_no_record_can_be_kept_the_run_goes_on_with_one_line(problem: Problem) -> None:
    (problem.root / FILE.parent).write_text("a file where the folder should be")
    said: list[str] = []
    with recording(problem, open_machine("cpu"), "check", said.append) as recorder:
        recorder.shape(problem.variant("a"), a_shape("1"))
        assert recorder.run_id is None
    (line,) = said
    assert line.startswith("this run is not recorded: records cannot be kept in ")


def test_a_store_that_fails_in_the_middle_is_told_once(problem: Problem) -> None:
    said: list[str] = []
    with recording(problem, open_machine("cpu"), "check", said.append) as recorder:
        recorder.shape(problem.variant("a"), a_shape("1"))
        with opened(problem.root) as other:
            other._connection.execute("DROP TABLE case_record")
        for label in "23":
            recorder.shape(problem.variant("a"), a_shape(label))
    assert len(said) == 1
    assert "not recorded any further" in said[0]
