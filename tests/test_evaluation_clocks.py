"""Two clocks, empty calls and the byte floor of an evaluation: shown with scripted times, without a GPU."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
from scripted_bench import FAKE_GPU, ScriptedBench, right

from harness.errors import MissingCapability, WorkerFailed
from harness.evaluation import evaluate as evaluate_module
from harness.evaluation import protocol
from harness.evaluation.evaluate import EMPTY_CALLS, Request, evaluate
from harness.evaluation.protocol import DeadlinePassed
from harness.report.json_report import evaluation_json
from harness.report.tables import clock_lines, plain_table
from harness.targets.machine import open_machine
from harness.timing.clear import LEAST_CLEAR_BYTES, OFFICIAL_CLEAR_BYTES, refuse_small_clear
from harness.timing.clocks import ByteFloor, EmptyTimes

KERNEL = "def custom_kernel(data):\n    return data\n"
# The affine problem's truth says 8 bytes a value: 4x8, 16x8 and 16x32 values.
BYTES = [256, 1024, 4096]
CLOCK_KEYS = ["queued_median", "exposed_median", "exposed_runs", "bytes_needed", "floor_ns", "floor_share"]
EMPTY_KEYS = ["empty_queued_ns", "empty_queued_launch_ns", "empty_exposed_ns", "empty_exposed_launch_ns"]


@pytest.fixture
def run(affine, submit, monkeypatch):
    """Evaluate with a scripted bench on a machine that claims a GPU."""

    def evaluated(bench: ScriptedBench, mode: str = "benchmark", machine=FAKE_GPU, **request):
        monkeypatch.setattr(evaluate_module, "Bench", lambda folder, machine: bench)
        return evaluate(affine, submit(KERNEL), Request(mode, **request), machine=machine)

    return evaluated


def steady() -> ScriptedBench:
    return ScriptedBench(times_ns=itertools.repeat(100.0))


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard"])
def test_each_case_has_thirty_calls_on_the_exposed_clock_after_its_queued_ones(run, mode):
    bench = steady()
    result = run(bench, mode)
    assert result.passed
    assert [len(case.exposed_ns) for case in result.cases] == [30] * 3
    assert [case.exposed_median_ns for case in result.cases] == [200.0] * 3
    assert [case.queued_median_ns for case in result.cases] == [100.0] * 3
    # The exposed clock changes neither the platform's samples nor its score.
    assert [case.samples_ns for case in result.cases] == [(100.0,) * 3] * 3
    assert result.score_ns == pytest.approx(100.0)


def test_long_calls_are_exposed_at_least_three_times_and_then_for_a_second_at_most(run):
    result = run(ScriptedBench(times_ns=itertools.repeat(100.0), exposed_ns=itertools.repeat(0.4e9)))
    assert [len(case.exposed_ns) for case in result.cases] == [3] * 3


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard"])
def test_a_wrong_output_on_the_exposed_clock_fails_the_case_and_leaves_no_time(run, mode):
    bench = steady()

    def wrong_once(data):
        bench.kernel = right
        return right(data) * 1.01

    def spoil(number: int) -> None:
        bench.kernel = wrong_once if number == 5 else right

    bench.on_exposed = spoil
    first, *others = run(bench, mode).cases
    assert first.status == "fail"
    assert first.reason.startswith("a timed call was wrong; exact: error 0.01")
    assert (first.timing, first.queued_median_ns, first.exposed_median_ns, first.floor_share) == (None,) * 4
    assert [case.status for case in others] == ["pass", "pass"]


def test_a_child_that_dies_on_the_exposed_clock_fails_the_case(run):
    bench = steady()

    def die(number: int) -> None:
        if number == 2:
            raise WorkerFailed("crashed: SIGSEGV")

    bench.on_exposed = die
    first = run(bench).cases[0]
    assert (first.status, first.reason) == ("fail", "crashed: SIGSEGV")


def test_a_limit_that_comes_after_the_queued_loop_leaves_the_case_passed_without_an_exposed_time(run, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(protocol, "time", SimpleNamespace(monotonic=lambda: clock.now))
    bench = steady()

    def cut(number: int) -> None:
        clock.now = 1000.0
        raise DeadlinePassed("no answer in time")

    bench.on_exposed = cut
    first, second, _ = run(bench, limit_s=900.0).cases
    assert (first.status, first.timing.runs, first.exposed_ns, first.exposed_median_ns) == ("pass", 3, (), None)
    assert second.reason == "the limit of time came before this case"


def test_a_stand_in_that_is_first_used_on_the_exposed_clock_leaves_no_time_of_either(run):
    bench = steady()
    bench.stood_in = lambda: bench.exposed_calls >= 2
    result = run(bench)
    assert result.passed
    assert all((case.timing, case.samples_ns, case.exposed_ns) == (None, (), ()) for case in result.cases)


def test_empty_calls_of_both_clocks_are_measured_once_and_shown_beside_the_times(run):
    bench = steady()
    result = run(bench)
    assert bench.empty_calls == 4 * EMPTY_CALLS
    assert result.empty == EmptyTimes(queued=1.0, queued_launch=3.0, exposed=5.0, exposed_launch=7.0)
    document = evaluation_json(result)
    assert [document[key] for key in EMPTY_KEYS] == [1.0, 3.0, 5.0, 7.0]
    # Beside the times and never subtracted.
    assert document["cases"][0]["queued_median"] == 100.0
    assert clock_lines(result)[0] == (
        "empty calls, not subtracted: queued 1.00 ns, with one trivial kernel 3.00 ns; "
        "exposed 5.00 ns, with one 7.00 ns"
    )


def test_a_child_that_dies_in_an_empty_call_costs_no_case_its_time(run, monkeypatch):
    bench = steady()

    def die(*positional, **named):
        raise WorkerFailed("crashed: SIGSEGV")

    monkeypatch.setattr(bench, "empty", die)
    result = run(bench)
    assert result.passed
    assert result.empty is None
    assert clock_lines(result)[0].startswith("floor:")


def test_the_floor_is_the_bytes_of_the_declared_inputs_at_the_measured_bandwidth(run):
    result = run(steady())
    # The scripted GPU reads a byte in a picosecond.
    assert [case.floor for case in result.cases] == [ByteFloor(count, 1e12) for count in BYTES]
    assert [case.floor.floor_ns for case in result.cases] == pytest.approx([0.256, 1.024, 4.096])
    assert [case.floor_share for case in result.cases] == pytest.approx([0.00256, 0.01024, 0.04096])
    document = evaluation_json(result)
    assert document["bandwidth"] == 1e12
    assert document["clear_bytes"] == 8 << 30
    assert [case["bytes_needed"] for case in document["cases"]] == BYTES
    assert document["cases"][2]["floor_share"] == pytest.approx(0.04096)
    header, *rows = plain_table(result).splitlines()[1:]
    assert header.split()[-5:] == ["exposed", "floor", "of", "floor", "note"]
    assert rows[2].split()[-4:] == ["4.10", "ns", "4.1", "%"]


def test_a_problem_that_does_not_say_what_a_kernel_must_move_has_no_floor(run, affine):
    text = (affine.root / "truth.py").read_text()
    begin, end = text.index("def bytes_needed"), text.index("def truth")
    (affine.root / "truth.py").write_text(text[:begin] + text[end:])
    result = run(steady())
    assert result.passed
    assert [(case.floor, case.floor_share) for case in result.cases] == [(None, None)] * 3
    assert "floor" not in plain_table(result)
    assert evaluation_json(result)["bandwidth"] is None


def test_on_the_cpu_every_figure_of_time_is_null_and_nothing_is_measured(run):
    bench = steady()
    document = evaluation_json(run(bench, machine=open_machine("cpu")))
    assert document["check"] == "pass"
    assert (bench.timed_calls, bench.exposed_calls, bench.empty_calls) == (0, 0, 0)
    assert [document[key] for key in ["bandwidth", "clear_bytes", *EMPTY_KEYS]] == [None] * 6
    assert all(case[key] is None for case in document["cases"] for key in CLOCK_KEYS)


def test_the_official_clear_is_refused_where_it_does_not_fit(run, monkeypatch):
    machine = replace(FAKE_GPU, gpu="Small GPU")
    monkeypatch.setattr(evaluate_module, "free_memory", lambda: OFFICIAL_CLEAR_BYTES - 1)
    with pytest.raises(
        MissingCapability, match=r"--clear official writes 67\.1 GB at once, and Small GPU has 67\.1 GB"
    ):
        run(steady(), machine=machine, clear_bytes=None)
    # Nothing is cleared where nothing is timed.
    assert run(steady(), "test", machine=machine, clear_bytes=None).passed
    monkeypatch.setattr(evaluate_module, "free_memory", lambda: OFFICIAL_CLEAR_BYTES)
    assert run(steady(), machine=machine, clear_bytes=None).clear_bytes == OFFICIAL_CLEAR_BYTES


@pytest.mark.parametrize(("size", "refused"), [(0, True), (LEAST_CLEAR_BYTES - 1, True), (LEAST_CLEAR_BYTES, False)])
def test_a_clear_that_leaves_the_cache_warm_is_refused(size, refused):
    assert (refuse_small_clear(size) is not None) == refused
