"""The evaluator keeps the platform's contract: arguments, case file, result lines and exit codes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from scripted_bench import FAKE_GPU, ScriptedBench, right

from harness.evaluation import evaluate as evaluate_module
from harness.evaluation import popcorn
from harness.evaluation.child import SubmissionError

REPOSITORY = Path(__file__).parents[1]
KERNEL = "def custom_kernel(data):\n    x, config = data\n    return x * config['slope'] + 1\n"
FIRST, SECOND = "rows: 4; columns: 8; seed: 11", "rows: 16; columns: 8; seed: 12"


@dataclass
class Ran:
    """One run: its exit code, its result lines, and what came on the two outputs."""

    code: int
    lines: list[str]
    stdout: str
    stderr: str


@pytest.fixture
def folder(affine, monkeypatch) -> Path:
    """The affine problem as the working directory, with a submission and a case file."""
    (affine.root / "submission.py").write_text(KERNEL)
    (affine.root / "cases.txt").write_text(f"{FIRST}\n{SECOND}\n")
    monkeypatch.chdir(affine.root)
    return affine.root


@pytest.fixture
def run(folder, monkeypatch, capsys) -> Callable[..., Ran]:
    """Run the evaluator's main function with a pipe of its own."""

    def evaluated(*arguments: str, seed: str | None = None, bench: ScriptedBench | None = None) -> Ran:
        if bench is not None:
            monkeypatch.setattr(evaluate_module, "Bench", lambda folder, machine: bench)
            monkeypatch.setattr(evaluate_module, "open_machine", lambda device: FAKE_GPU)
        reading, writing = os.pipe()
        monkeypatch.setenv("POPCORN_FD", str(writing))
        if seed is not None:
            monkeypatch.setenv("POPCORN_SEED", seed)
        code = popcorn.main(list(arguments))
        if code in (popcorn.EXIT_USAGE, popcorn.EXIT_BAD_CASE):
            os.close(writing)  # nothing was to be written, so it is still open
        with os.fdopen(reading) as pipe:
            lines = pipe.read().splitlines()
        printed = capsys.readouterr()
        return Ran(code, lines, printed.out, printed.err)

    return evaluated


def test_tests_that_pass_end_with_0_and_a_flood_of_output_does_not_block(folder):
    flood = "import sys\nfor _ in range(40):\n    print('x' * 50000)\n    sys.stderr.write('y' * 50000)\n"
    (folder / "submission.py").write_text(flood + KERNEL)
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, str(REPOSITORY / "eval.py"), "test", "cases.txt"],
        env={**os.environ, "POPCORN_FD": str(writing), "POPCORN_SEED": "7"},
        pass_fds=[writing],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    stdout, stderr = process.communicate(timeout=60)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    assert process.returncode == 0, stderr
    assert lines == [
        "test-count: 2",
        f"test.0.spec: {FIRST}",
        "test.0.status: pass",
        f"test.1.spec: {SECOND}",
        "test.1.status: pass",
        "check: pass",
    ]
    # 2 MB were printed on each side: what is kept is passed on, with a word on the rest.
    for text, letter in ((stdout, "x"), (stderr, "y")):
        assert letter * 1000 in text
        assert "more bytes" in text
        assert len(text) < 200_000


def test_a_failed_test_has_its_message_on_one_line_and_ends_with_112(run):
    ran = run("test", "cases.txt", bench=ScriptedBench(kernel=lambda data: right(data) + 9 * (len(data[0]) == 4)))
    assert ran.code == 112
    assert ran.lines == [
        "test-count: 2",
        f"test.0.spec: {FIRST}",
        "test.0.status: fail",
        "test.0.error: mismatch found!\\nsecond line",
        f"test.1.spec: {SECOND}",
        "test.1.status: pass",
        "check: fail",
    ]


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard"])
def test_benchmarks_give_the_platforms_figures(run, mode):
    ran = run(mode, "cases.txt", bench=ScriptedBench(times_ns=itertools.cycle([1000.0, 1000.5])))
    assert ran.code == 0
    # A warm-up of three (1000, 1000.5, 1000), then three runs a case, the first of which are 1000.5, 1000, 1000.5.
    keys = [line.partition(": ")[0] for line in ran.lines]
    names = ("spec", "runs", "mean", "std", "err", "best", "worst")
    assert keys == ["benchmark-count", *(f"benchmark.{i}.{name}" for i in (0, 1) for name in names), "check"]
    values = dict(line.split(": ", 1) for line in ran.lines)
    assert values["benchmark-count"] == "2"
    assert values["benchmark.0.spec"] == FIRST
    assert values["benchmark.0.runs"] == "3"
    assert (values["benchmark.0.best"], values["benchmark.0.worst"]) == ("1000.0", "1000.5")
    # A float64 mean of three: additions and a division of 1.1e-16 each.
    assert float(values["benchmark.0.mean"]) == pytest.approx(3001.0 / 3, rel=1e-15)
    assert values["check"] == "pass"


def test_a_failed_leaderboard_run_ends_with_112_and_still_gives_the_other_cases(run):
    bench = ScriptedBench(times_ns=itertools.repeat(5.0))
    bench.kernel = lambda data: right(data) + 9 * (len(data[0]) == 4)
    ran = run("leaderboard", "cases.txt", bench=bench)
    assert ran.code == 112
    assert "benchmark.0.status: fail" in ran.lines
    assert "benchmark.0.error: mismatch found!\\nsecond line" in ran.lines
    assert "benchmark.1.mean: 5.0" in ran.lines
    assert ran.lines[-1] == "check: fail"


def test_profiles_are_reports_without_figures(run):
    ran = run("profile", "cases.txt", bench=ScriptedBench())
    assert ran.code == 0
    assert [line.partition(": ")[0] for line in ran.lines] == [
        "benchmark-count", "benchmark.0.spec", "benchmark.0.report", "benchmark.1.spec", "benchmark.1.report", "check",
    ]  # fmt: skip


def test_the_secret_seed_is_combined_with_each_cases_own_and_leaves_the_environment(run):
    bench = ScriptedBench()
    assert run("test", "cases.txt", seed="5", bench=bench).code == 0
    # 11 + 16·17/2 = 147, 12 + 17·18/2 = 165
    for (x, _), rows, seed in zip(bench.inputs, (4, 16), (147, 165), strict=True):
        assert x.equal(torch.randn((rows, 8), generator=torch.Generator().manual_seed(seed)))
    assert "POPCORN_SEED" not in os.environ
    assert "POPCORN_FD" not in os.environ


def test_every_finished_case_is_written_before_the_next_begins(folder, monkeypatch):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    seen: list[str] = []

    def look(data):
        try:
            seen.append(os.read(reading, 1 << 16).decode())
        except BlockingIOError:
            seen.append("")
        return right(data)

    monkeypatch.setattr(evaluate_module, "Bench", lambda folder, machine: ScriptedBench(kernel=look))
    monkeypatch.setattr(evaluate_module, "open_machine", lambda device: FAKE_GPU)
    monkeypatch.setenv("POPCORN_FD", str(writing))
    assert popcorn.main(["test", "cases.txt"]) == 0
    assert seen == ["test-count: 2\n", f"test.0.spec: {FIRST}\ntest.0.status: pass\n"]
    os.close(reading)


def test_more_result_lines_than_a_pipe_holds_are_written_while_they_are_read(run, folder):
    lines = [f"rows: 4; columns: 8; seed: {number}" for number in range(2000)]
    (folder / "cases.txt").write_text("\n".join(lines))
    reading, writing = os.pipe()
    text: list[str] = []

    def drain():
        with os.fdopen(reading) as pipe:
            text.append(pipe.read())

    reader = threading.Thread(target=drain)
    reader.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate_module, "Bench", lambda folder, machine: ScriptedBench())
        patch.setattr(evaluate_module, "open_machine", lambda device: FAKE_GPU)
        patch.setenv("POPCORN_FD", str(writing))
        assert popcorn.main(["test", "cases.txt"]) == 0
    reader.join(10)
    assert len(text[0]) > 64 << 10
    assert text[0].count("status: pass") == 2000


def test_a_task_whose_time_is_up_ends_with_114_and_its_lines_are_whole(run, folder):
    task = folder / "task.yml"
    # Less than the child's own start takes, so that the limit comes during the first case.
    task.write_text(task.read_text() + "test_timeout: 0.3\n")
    ran = run("test", "cases.txt")
    assert ran.code == 114
    assert ran.lines == [
        "test-count: 2",
        f"test.0.spec: {FIRST}",
        "test.0.status: fail",
        "test.0.error: the limit of time came during this case",
        f"test.1.spec: {SECOND}",
        "test.1.status: fail",
        "test.1.error: the limit of time came before this case",
        "check: fail",
    ]


@pytest.mark.parametrize("error", ["CUDA error: an illegal memory access", "HIP error: invalid device function"])
def test_an_error_of_the_gpu_ends_with_110(run, error):
    def fails(data):
        raise SubmissionError(f"RuntimeError: {error}")

    ran = run("test", "cases.txt", bench=ScriptedBench(kernel=fails))
    assert ran.code == 110
    assert f"test.0.error: RuntimeError: {error}" in ran.lines


@pytest.mark.parametrize("descriptor", [None, "", "three", "-1", "9999"])
def test_a_missing_descriptor_ends_with_111(folder, monkeypatch, descriptor):
    monkeypatch.delenv("POPCORN_FD", raising=False)
    if descriptor is not None:
        monkeypatch.setenv("POPCORN_FD", descriptor)
    assert popcorn.main(["test", "cases.txt"]) == 111


@pytest.mark.parametrize(
    "arguments", [[], ["test"], ["tests", "cases.txt"], ["script", "cases.txt"], ["cases.txt", "test"]]
)
def test_bad_arguments_end_with_2(run, arguments):
    ran = run(*arguments)
    assert (ran.code, ran.lines) == (2, [])


@pytest.mark.parametrize("seed", ["secret", "1.5", "+", "0x10"])
def test_a_seed_that_is_no_integer_ends_with_2(run, seed):
    ran = run("test", "cases.txt", seed=seed)
    assert (ran.code, ran.lines) == (2, [])
    assert ran.stderr == f"POPCORN_SEED is no integer: '{seed}'\n"


@pytest.mark.parametrize("text", [b"rows: 4.5\n", b"rows: 4; seed: 1;\n", b"rows: 4; seed: 1\n\n\n", b"\xff\xfe\n"])
def test_a_bad_case_line_ends_with_113_before_anything_runs(run, folder, text):
    (folder / "cases.txt").write_bytes(text)
    ran = run("test", "cases.txt")
    assert (ran.code, ran.lines) == (113, [])
    assert ran.stderr.count("\n") == 1


def test_a_missing_case_file_ends_with_113(run):
    assert run("test", "absent.txt").code == 113


@pytest.mark.parametrize("text", ["def custom_kernel(:\n", "x = 1\n"])
def test_a_submission_that_cannot_be_read_ends_with_112_and_says_why(run, folder, text):
    (folder / "submission.py").write_text(text)
    ran = run("test", "cases.txt")
    assert ran.code == 112
    assert ran.lines == ["test-count: 2", "check: fail"]
    assert ran.stderr.startswith("submission.py:")
    assert ran.stderr.count("\n") == 1
