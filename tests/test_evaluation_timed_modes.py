"""The timed loops obey the platform's rules: shown with scripted times and outputs, without a GPU."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from scripted_bench import FAKE_GPU, ScriptedBench, right

from harness.errors import MissingCapability, WorkerFailed
from harness.evaluation import evaluate as evaluate_module
from harness.evaluation import protocol
from harness.evaluation.child import SubmissionError
from harness.evaluation.evaluate import Request, evaluate
from harness.evaluation.protocol import DeadlinePassed
from harness.evaluation.referee import Referee
from harness.timing.clear import CLEAR_BYTES
from harness.timing.statistics import StopRule

KERNEL = "def custom_kernel(data):\n    return data\n"


class Clock:
    """A monotonic clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The clock of every deadline."""
    clock = Clock()
    monkeypatch.setattr(protocol, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


@pytest.fixture
def run(affine, submit, monkeypatch):
    """Evaluate with a scripted bench on a machine that claims a GPU."""

    def evaluated(bench: ScriptedBench, mode: str = "benchmark", problem=affine, **request):
        monkeypatch.setattr(evaluate_module, "Bench", lambda folder, machine: bench)
        return evaluate(problem, submit(KERNEL), Request(mode, **request), machine=FAKE_GPU)

    return evaluated


def steady(count: int, time_ns: float) -> list[float]:
    return [time_ns] * count


def test_steady_times_end_each_loop_at_the_third_run(run):
    bench = ScriptedBench(times_ns=steady(3, 1.0) + steady(3, 100.0) + steady(3, 200.0) + steady(3, 400.0))
    result = run(bench)
    assert result.passed
    assert [case.samples_ns for case in result.cases] == [(100.0,) * 3, (200.0,) * 3, (400.0,) * 3]
    assert [case.timing.mean for case in result.cases] == [100.0, 200.0, 400.0]
    # exp of a mean of three logs: a few roundings of 1.1e-16 on logs of about 5.
    assert result.score_ns == pytest.approx(200.0, rel=1e-14)


@pytest.mark.parametrize(("mode", "warm_up", "runs"), [("benchmark", 100, 1000), ("leaderboard", 100, 100)])
def test_noisy_times_are_repeated_up_to_the_modes_bound(run, mode, warm_up, runs):
    # 90, 100, 110, …: err/mean is 0.0026 after 1000 runs, over 0.001.
    bench = ScriptedBench()
    result = run(bench, mode)
    assert [case.timing.runs for case in result.cases] == [runs] * 3
    assert bench.timed_calls == warm_up + 3 * runs


@pytest.mark.parametrize(("mode", "bound_ns"), [("benchmark", 50e9), ("leaderboard", 30e9)])
def test_the_summed_time_ends_a_loop(run, mode, bound_ns):
    # Noisy, and 4.5 runs of it fill the bound: the fifth run goes over it.
    unit = bound_ns / 4.5
    warm_up = steady(3, 1.0)
    case = [unit * factor for factor in (0.9, 1.1, 0.9, 1.1, 1.0)]
    result = run(ScriptedBench(times_ns=[*warm_up, *case, *case, *case]), mode)
    assert [case.timing.runs for case in result.cases] == [5, 5, 5]


@pytest.mark.parametrize(("mode", "bound_ns"), [("benchmark", 0.1e9), ("leaderboard", 10e6)])
def test_the_warm_up_has_its_own_bound_and_is_not_reported(run, mode, bound_ns):
    unit = bound_ns / 4.5
    warm_up = [unit * factor for factor in (0.9, 1.1, 0.9, 1.1, 1.0)]
    bench = ScriptedBench(times_ns=[*warm_up, *steady(9, 7.0)])
    result = run(bench, mode)
    assert [case.samples_ns for case in result.cases] == [(7.0,) * 3] * 3
    assert bench.timed_calls == 5 + 9


def test_benchmark_mode_repeats_on_the_same_inputs(run, affine):
    bench = ScriptedBench(times_ns=steady(12, 5.0))
    run(bench)
    # The warm-up's inputs, then one put a case.
    assert len(bench.inputs) == 1 + 3


def test_leaderboard_mode_moves_the_seed_by_13_for_every_timed_call(run, affine, submit):
    bench = ScriptedBench(times_ns=steady(12, 5.0))
    assert run(bench, "leaderboard", secret_seed=3).passed
    referee = Referee(affine, submit(KERNEL), FAKE_GPU)
    expected = [affine.shapes[0].case.with_secret_seed(3)]  # the warm-up
    for shape in affine.shapes:
        first = shape.case.with_secret_seed(3)
        # The judged call and three on the queued clock; the exposed clock's calls take the last inputs again.
        expected += [first.with_seed_plus(13 * step) for step in range(1 + 3)]
    drawn = [referee.draw(case).data[0] for case in expected]
    assert len(bench.inputs) == len(drawn)
    assert all(given[0].equal(tensor) for given, tensor in zip(bench.inputs, drawn, strict=True))


@pytest.mark.parametrize("clear", [CLEAR_BYTES, 1 << 20, None])
def test_every_timed_call_of_both_clocks_follows_the_clear_that_was_asked_for(run, monkeypatch, clear):
    monkeypatch.setattr(evaluate_module, "free_memory", lambda: 141 << 30)
    bench = ScriptedBench(times_ns=steady(12, 5.0))
    run(bench, clear_bytes=clear)
    assert bench.clears == [clear] * (12 + 3 * 30)


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard"])
def test_a_wrong_timed_output_fails_the_case_and_has_no_timing(run, mode):
    bench = ScriptedBench()

    def wrong_once(data):
        bench.kernel = right
        return right(data) * 1.01

    def spoil(number: int) -> None:
        # The warm-up takes the first 100; the fifth measured call of the first case is wrong, and only it.
        bench.kernel = wrong_once if number == 105 else right

    bench.on_timed = spoil
    result = run(bench, mode)
    assert [case.status for case in result.cases] == ["fail", "pass", "pass"]
    first = result.cases[0]
    # The official rule's tolerance of 0.1 passes 1 %; the exact one does not.
    assert first.reason.startswith("a timed call was wrong; exact: error 0.01")
    assert first.timing is None
    assert len(first.samples_ns) == 4
    assert result.score_ns is None


def test_a_timed_output_that_the_official_rule_refuses_fails_the_leaderboard_mode(run):
    bench = ScriptedBench()
    bench.kernel = lambda data: right(data) + 9 * (bench.timed_calls >= 102)
    result = run(bench, "leaderboard")
    assert result.cases[0].official.status == "fail"
    assert result.cases[0].reason.startswith("a timed call was wrong; official: mismatch found!")


def test_a_case_that_is_wrong_at_first_is_not_timed(run):
    bench = ScriptedBench(kernel=lambda data: data[0])
    result = run(bench)
    assert [case.status for case in result.cases] == ["fail"] * 3
    assert [case.samples_ns for case in result.cases] == [()] * 3
    assert bench.timed_calls == 100  # the warm-up, whose outputs nobody judges


def test_what_a_submission_raises_in_a_timed_call_fails_the_case_and_keeps_its_samples(run):
    bench = ScriptedBench()

    def break_down(number: int) -> None:
        if number == 104:
            raise SubmissionError("ValueError: too tired", line=7)

    bench.on_timed = break_down
    first, second, third = run(bench).cases
    assert (first.status, first.reason) == ("fail", "ValueError: too tired (line 7 of the submission)")
    assert first.samples_ns == (100.0, 110.0, 90.0)
    assert (second.status, third.status) == ("pass", "pass")


def test_a_warm_up_that_fails_is_left_to_the_case_to_report(run):
    bench = ScriptedBench()

    def break_down(number: int) -> None:
        if number == 2:
            raise WorkerFailed("crashed: SIGSEGV")

    bench.on_timed = break_down
    assert run(bench).passed


def test_a_limit_in_the_middle_of_a_case_keeps_its_samples_and_fails_the_cases_after_it(run, clock):
    bench = ScriptedBench()

    def tick(number: int) -> None:
        clock.now += 1.0

    bench.on_timed = tick
    result = run(bench, limit_s=1150.0)
    first, second, third = result.cases
    # 100 for the warm-up, 1000 for the first case, and the second is stopped after the one that ends at 1150.
    assert (first.status, first.timing.runs) == ("pass", 1000)
    assert (second.status, second.timing.runs, len(second.samples_ns)) == ("pass", 50, 50)
    assert (third.status, third.reason) == ("fail", "the limit of time came before this case")
    assert third.timing is None
    assert result.score_ns is None
    assert any("limit of time ended this run" in note for note in result.notes)


def test_a_call_that_the_limit_cuts_is_left_out_of_the_samples(run, clock):
    bench = ScriptedBench()

    def hang(number: int) -> None:
        if number == 110:
            clock.now = 1000.0
            raise DeadlinePassed("no answer in time")

    bench.on_timed = hang
    result = run(bench, limit_s=900.0)
    assert (result.cases[0].status, len(result.cases[0].samples_ns)) == ("pass", 9)


def test_a_limit_before_the_first_sample_fails_the_case(run, clock):
    bench = ScriptedBench()

    def hang(number: int) -> None:
        if number == 101:
            clock.now = 1000.0
            raise DeadlinePassed("no answer in time")

    bench.on_timed = hang
    first = run(bench, limit_s=900.0).cases[0]
    assert (first.status, first.timing, first.reason) == ("fail", None, "the limit of time came during this case")


def test_a_timed_call_that_hangs_fails_the_case_and_is_no_limit_of_time(run, clock):
    bench = ScriptedBench()

    def hang(number: int) -> None:
        if number == 110:
            raise DeadlinePassed("no answer in time")

    bench.on_timed = hang
    first = run(bench, call_limit_s=5.0).cases[0]
    assert (first.status, first.reason) == ("fail", "hung: no answer within 5 s")


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard"])
def test_a_stand_in_is_never_timed(run, mode):
    bench = ScriptedBench(stood_in=lambda: True)
    result = run(bench, mode)
    assert result.passed
    assert bench.timed_calls == 0
    assert all(case.timing is None and case.samples_ns == () for case in result.cases)
    assert result.score_ns is None
    assert any("stand-in" in note for note in result.notes)


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard"])
@pytest.mark.parametrize("after", [1, 2, 105, 150])
def test_a_stand_in_that_is_first_used_in_a_later_call_leaves_no_timing_either(run, mode, after):
    bench = ScriptedBench()
    bench.stood_in = lambda: bench.timed_calls >= after
    result = run(bench, mode)
    assert result.passed
    assert all(case.timing is None and case.samples_ns == () for case in result.cases)
    assert bench.timed_calls == after  # it is noticed at once
    assert result.score_ns is None
    assert any("stand-in" in note for note in result.notes)


def test_test_and_profile_modes_time_nothing(run):
    for mode in ("test", "profile"):
        bench = ScriptedBench()
        result = run(bench, mode)
        assert result.passed
        assert bench.timed_calls == 0
        assert result.score_ns is None
        assert [case.profile for case in result.cases] == [None if mode == "test" else "the profiler's table"] * len(
            result.cases
        )


def test_there_is_no_score_when_some_benchmarks_were_left_out_or_failed(run):
    assert run(ScriptedBench(times_ns=itertools.repeat(5.0)), shapes="S1,S2").score_ns is None
    assert run(ScriptedBench(times_ns=itertools.repeat(5.0)), shapes="S1,S2,S3").score_ns == pytest.approx(5.0)
    wide_is_wrong = ScriptedBench(
        kernel=lambda data: right(data) + (data[0].shape[1] == 32), times_ns=itertools.repeat(5.0)
    )
    result = run(wide_is_wrong)
    assert [case.status for case in result.cases] == ["pass", "pass", "fail"]
    assert result.score_ns is None


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard"])
def test_processes_share_a_cases_timed_calls_and_their_samples_are_put_together(affine, submit, monkeypatch, mode):
    benches = [ScriptedBench(times_ns=itertools.repeat(time_ns)) for time_ns in (100.0, 102.0)]
    waiting, heard = list(benches), []
    monkeypatch.setattr(evaluate_module, "Bench", lambda folder, machine: waiting.pop(0))
    result = evaluate(
        affine,
        submit(KERNEL),
        Request(mode, processes=2),
        machine=FAKE_GPU,
        listener=lambda index, count, case, label: case is not None and heard.append(case),
    )
    assert result.passed
    # Equal times in each process: three runs are enough in both.
    assert [case.samples_ns for case in result.cases] == [(100.0,) * 3 + (102.0,) * 3] * 3
    assert [case.timing.mean for case in result.cases] == [pytest.approx(101.0)] * 3
    assert [len(case.exposed_ns) for case in result.cases] == [15 + 15] * 3
    assert heard == list(result.cases)


def test_a_case_that_fails_in_any_process_fails(affine, submit, monkeypatch):
    for wrong in range(2):
        benches = [ScriptedBench(times_ns=itertools.repeat(100.0)) for _ in range(2)]
        benches[wrong].kernel = lambda data: data[0] * 0
        monkeypatch.setattr(evaluate_module, "Bench", lambda folder, machine, waiting=benches: waiting.pop(0))
        result = evaluate(affine, submit(KERNEL), Request("benchmark", processes=2), machine=FAKE_GPU)
        assert [case.status for case in result.cases] == ["fail"] * 3


@pytest.mark.parametrize(("mode", "machine"), [("test", FAKE_GPU), ("benchmark", None)])
def test_several_processes_are_refused_where_nothing_is_timed(affine, submit, mode, machine):
    with pytest.raises(MissingCapability, match="--processes 3"):
        evaluate(affine, submit(KERNEL), Request(mode, processes=3), machine=machine)


def test_a_rule_that_is_shared_takes_about_as_many_runs_in_all():
    rule = StopRule(100, 10e6)
    assert rule.shared_by(1) == rule
    assert rule.shared_by(4) == StopRule(25, 2.5e6, 30e9, 0.002)


def test_what_a_run_took_is_told_by_its_parts(run):
    result = run(ScriptedBench(times_ns=steady(12, 5.0)))
    assert 0 <= result.first_calls_s + result.timed_calls_s <= result.duration_s
    assert result.own_s == pytest.approx(result.duration_s - result.first_calls_s - result.timed_calls_s)
