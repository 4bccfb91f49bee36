"""Real children that stop in the middle, or say what no terminal takes: a failed case, and the rest goes on."""

from __future__ import annotations

import time

from harness.evaluation.evaluate import Request, evaluate
from harness.problem.case import parse_case_line
from harness.problem.problem import open_problem
from harness.report.wire import wire_text

RIGHT = "    return data[0] * data[1]['slope'] + 1\n"


def test_a_child_that_stops_itself_cannot_hang_the_writing_of_the_next_inputs(affine, submit):
    # Inputs of 8 MB do not fit a socket's buffer: without a deadline on sending, the harness would wait forever.
    (affine.root / "truth.py").unlink()
    task = affine.root / "task.yml"
    big = "{rows: 1024, columns: 2048, seed: %d}"
    cases = f"benchmarks:\n  - {big % 1}\n  - {big % 2}\n"
    task.write_text(task.read_text().partition("tests:")[0] + cases)
    source = (
        "import os, signal, threading\n"
        "def custom_kernel(data):\n"
        "    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGSTOP)).start()\n" + RIGHT
    )

    def wait_until_it_has_stopped(index, count, result, label):
        if result is not None:
            time.sleep(1.0)

    request = Request("benchmark", "cpu", call_limit_s=8.0)
    result = evaluate(open_problem(affine.root), submit(source), request, listener=wait_until_it_has_stopped)
    assert [case.status for case in result.cases] == ["pass", "fail"]
    assert result.cases[1].reason == "hung: no answer within 8 s"


MESSAGES = {
    8: r"'a \ud800 lone \udcff surrogate'",
    32: r"'first line\nsecond line [/red] [bold]'",
}


def test_messages_that_a_terminal_or_a_pipe_cannot_take_are_shown_all_the_same(affine, submit, capsys):
    from harness.cli.output import Output
    from harness.report.tables import print_evaluation

    source = (
        f"def custom_kernel(data):\n    raise ValueError({{8: {MESSAGES[8]}, 32: {MESSAGES[32]}}}[data[0].shape[1]])\n"
    )
    result = evaluate(affine, submit(source), Request("benchmark", "cpu", shapes="S1,S3"))
    surrogate, markup = result.cases
    assert surrogate.reason == "ValueError: a ? lone ? surrogate (line 2 of the submission)"
    assert markup.reason == "ValueError: first line (line 2 of the submission)"
    assert "second line [/red] [bold]" in markup.traceback
    wire_text(result).encode()
    print_evaluation(Output().console, result)
    assert "[/red] [bold]" in capsys.readouterr().out


ODD = {
    "{(1, 2): data[0]}": "TypeError: builtins.dict is no tensor",
    "namedtuple('P', 'x')(data[0])": "TypeError: submission.P is no tensor",
    "data[0].as_strided((4, 8), (1, 1))": "not contiguous",
    "data[0].to_sparse()": "RuntimeError",
    "data[0].to('meta')": "NotImplementedError",
}


def test_odd_outputs_fail_with_what_they_are_and_leave_the_child_alive(affine, submit):
    odd = ", ".join(f"lambda data: {text}" for text in ODD)
    source = (
        "import os\nfrom collections import namedtuple\n"
        f"print('process', os.getpid())\nTURNS = iter([{odd}])\n"
        "def right(data):\n" + RIGHT + "def custom_kernel(data):\n    return next(TURNS, right)(data)\n"
    )
    cases = [parse_case_line(f"rows: 4; columns: 8; seed: {seed}") for seed in range(len(ODD) + 1)]
    result = evaluate(affine, submit(source), Request("test", "cpu"), cases=cases)
    *failed, last = result.cases
    for case, reason in zip(failed, ODD.values(), strict=True):
        assert case.status == "fail"
        assert reason in case.reason
    assert last.status == "pass"
    assert result.stdout.count("process") == 1
