"""A user's mistake is one line on standard error that names it, and exit code 2; never a traceback."""

from __future__ import annotations

import os

import pytest
import torch
from cli_problem import ENTRY, WINNERS, furnish
from scripted_bench import InProcess

from harness.cli.main import run
from harness.evaluation import evaluate as evaluate_module
from harness.evaluation import merge_check


@pytest.fixture(autouse=True)
def here(affine, monkeypatch, tmp_path):
    """The furnished affine problem as the working directory, without a GPU."""
    furnish(affine)
    (tmp_path / "a_file").write_text("")
    (affine.root / "a_file").write_text("")
    monkeypatch.chdir(affine.root)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(evaluate_module, "Bench", InProcess)
    monkeypatch.setattr(merge_check, "Bench", InProcess)
    return affine.root


@pytest.fixture
def refused(capsys):
    """Run a command that must be refused; returns its one line."""

    def run_and_read(*arguments: str, code: int = 2) -> str:
        assert run(list(arguments)) == code
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1, captured.err
        assert captured.err.startswith("error: ")
        assert "Traceback" not in captured.err
        return captured.err.removeprefix("error: ").rstrip("\n")

    return run_and_read


def test_an_unknown_command_is_answered_with_the_nearest(refused):
    assert refused("evaluate").startswith("unknown command 'evaluate' (accepted: eval, check, lint, inspect, build, ")
    assert refused("biuld").endswith("did you mean build?")


@pytest.mark.parametrize("command", ["eval", "check"])
def test_an_unknown_shape_is_answered_with_the_nearest(refused, command):
    message = refused(command, "any_rows", "--shapes", "16x23")
    assert message.startswith("unknown shape '16x23' (accepted: S1, 4x8, S2, 16x8, S3, 16x32)")
    assert message.endswith("did you mean 16x32?")


@pytest.mark.parametrize("command", ["eval", "check"])
def test_a_shape_that_the_file_does_not_take_is_answered_with_those_it_takes(refused, command):
    message = refused(command, "narrow_rows", "--shapes", "S3")
    assert message.startswith("unknown shape for narrow_rows '16x32' (accepted: S1, 4x8, S2, 16x8)")


def test_shapes_that_only_one_of_two_files_takes_are_refused(refused):
    message = refused("ab", "narrow_rows", "any_rows", "--shapes", "16x32")
    assert message.startswith("unknown shape for both files '16x32' (accepted: 4x8, 16x8)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["eval", "--mode", "tests"],
            "unknown mode 'tests' (accepted: test, benchmark, leaderboard, profile); did you",
        ),
        (["eval", "--device", "gpu"], "unknown device 'gpu' (accepted: auto, cuda, hip, cpu); did you mean cpu?"),
        (["check", "any_rows", "--probe", "lnt"], "unknown probe 'lnt' (accepted: lint, "),
        (
            ["build", "--target", "sm90"],
            "unknown target 'sm90' (accepted: gfx950, sm_90, portable); did you mean sm_90?",
        ),
        (
            ["eval", "any_row"],
            "unknown variant 'any_row' (accepted: any_rows, dispatch, narrow_rows); did you mean any_",
        ),
        (["new", "faster", "--from", "any"], "unknown variant 'any' (accepted: any_rows, dispatch, narrow_rows)"),
        (["ab", "any_rows", "narrow"], "unknown variant 'narrow' (accepted: any_rows, dispatch, narrow_rows)"),
    ],
)
def test_every_unknown_name_is_answered_with_the_accepted_ones(refused, arguments, message):
    assert refused(*arguments).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval", "--frobnicate"], "No such option"),
        (["eval", "--seed", "secret"], "'secret' is not a valid integer"),
        (["eval", "--limit", "long"], "'long' is not a valid float"),
        (["eval", "--limit", "-1"], "Invalid value for '--limit': -1.0 is not in the range x>0"),
        (["eval", "--limit", "0"], "Invalid value for '--limit': 0.0 is not in the range x>0"),
        (["eval", "--clear", "much"], "--clear much: expected a number of bytes or 'official'"),
        (["eval", "--clear", "4096"], "--clear 4096: 4096 bytes may leave inputs in the last-level cache"),
        (["eval", "--kv", "keys=fp8"], "--kv keys=fp8: expected a format, or keys=FORMAT,values=FORMAT"),
        (["eval", "a.py", "b.py"], "unexpected extra argument"),
        (["check"], "Missing argument 'FILES...'"),
        (["lint"], "Missing argument 'FILES...'"),
        (["ab", "any_rows"], "Missing argument 'B'"),
        (["new", "faster"], "Missing option '--from'"),
        (["new", "Faster!", "--from", "any_rows"], "'Faster!' is no variant name"),
    ],
)
def test_wrong_usage_says_what_is_expected_and_where_to_read_on(refused, arguments, message):
    refusal = refused(*arguments)
    assert message in refusal


@pytest.mark.parametrize("command", [["eval"], ["check"], ["lint"], ["ab", "any_rows"], ["new", "faster", "--from"]])
def test_a_missing_file_is_named(refused, command):
    assert refused(*command, "absent.py").startswith("no such file: absent.py")


def test_a_missing_submission_is_named(refused, here):
    (here / "submission.py").unlink()
    assert refused("eval").startswith(f"no such file: {here / 'submission.py'}")


@pytest.mark.parametrize("command", [["eval"], ["check"], ["ab", "any_rows"], ["new", "faster", "--from"]])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import torch\n\ndef custom_kernel(data:\n    pass\n", "broken.py:3: syntax error: "),
        ("x = 1\n", "broken.py: defines no custom_kernel(data) at module level"),
        ("VARIANT = dict()\n" + ENTRY, "broken.py:1: VARIANT must be a literal dictionary"),
    ],
    ids=["syntax", "entry", "declaration"],
)
def test_a_broken_submission_is_named_with_its_line(refused, here, command, text, message):
    (here / "broken.py").write_text(text)
    assert refused(*command, "broken.py").startswith(message)


def test_a_syntax_error_is_a_finding_of_lint(here, capsys):
    (here / "broken.py").write_text("import torch\n\ndef custom_kernel(data:\n    pass\n")
    assert run(["lint", "broken.py"]) == 1
    captured = capsys.readouterr()
    assert "broken.py:3: refused [syntax-error] syntax error: " in captured.out
    assert captured.err == ""


def test_a_declaration_that_the_problem_cannot_read_is_refused(refused, here):
    (here / "truth.py").write_text(
        (here / "truth.py").read_text().replace("return 1e-6", "return {'f32': 1e-6}[declaration['rounding']]")
    )
    (here / "odd.py").write_text("VARIANT = {'rounding': ['f32']}\n" + ENTRY)
    assert refused("eval", "odd.py").startswith("odd.py: VARIANT: ")


OUTPUTS = {
    "eval json": ["eval", "any_rows", "--json", "{}"],
    "eval out": ["eval", "any_rows", "--out", "{}"],
    "check json": ["check", "any_rows", "--json", "{}"],
    "lint json": ["lint", "submission.py", "--json", "{}"],
    "build": ["build", "--target", "portable", "--output", "{}"],
    "build json": ["build", "--target", "portable", "--no-verify", "--json", "{}"],
    "variants json": ["variants", "--json", "{}"],
    "doctor json": ["doctor", "--json", "{}"],
    "ab json": ["ab", "any_rows", "narrow_rows", "--json", "{}"],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(refused, here, name):
    in_a_file = here / "a_file" / "result"
    arguments = [argument.format(in_a_file) for argument in OUTPUTS[name]]
    assert refused(*arguments) == f"cannot write {in_a_file}: {here / 'a_file'} is not a folder"
    a_folder = here / "variants"
    arguments = [argument.format(a_folder) for argument in OUTPUTS[name]]
    assert refused(*arguments) == f"cannot write {a_folder}: it is a folder"


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_read_only_folder_is_refused_before_any_work(refused, here, monkeypatch, name):
    # The superuser may write anywhere: what the system would say to others is said here for everybody.
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(here))
    arguments = [argument.format(here / "result.txt") for argument in OUTPUTS[name]]
    assert refused(*arguments) == f"cannot write {here / 'result.txt'}: {here} is read-only"
    assert not (here / "result.txt").exists()


def test_a_new_variant_in_a_folder_that_cannot_be_written_is_refused(refused, here):
    (here / "variants").rename(here / "moved")
    (here / "variants").write_text("a file where the folder should be")
    message = refused("new", "faster", "--from", "moved/any_rows.py")
    assert message.startswith("cannot write ")
    assert "faster.py" in message


def test_a_comparison_without_a_gpu_is_refused(refused):
    message = refused("ab", "any_rows", "narrow_rows", "--shapes", "S1")
    assert message == "ab times kernels and needs a GPU; without one, `harness check` compares correctness"


@pytest.mark.parametrize("device", ["cuda", "hip"])
@pytest.mark.parametrize("command", [["eval", "any_rows"], ["check", "any_rows"], ["build", "--target", "portable"]])
def test_a_device_that_is_not_here_is_refused(refused, command, device):
    message = refused(*command, "--device", device)
    assert message.startswith(f"--device {device}: this machine has no such GPU (found: cpu)")


COMMANDS_WITH_A_PROBLEM = [
    ["eval", "submission.py"],
    ["check", "submission.py"],
    ["build", "--no-verify", "--target", "portable"],
    ["variants"],
    ["new", "faster", "--from", "any_rows"],
    ["ab", "any_rows", "narrow_rows"],
]


@pytest.mark.parametrize("command", COMMANDS_WITH_A_PROBLEM, ids=lambda command: command[0])
def test_a_broken_task_is_named_with_its_line(refused, here, command):
    (here / "task.yml").write_text("lang: py\n\tfiles: []\n")
    message = refused(*command)
    assert message.startswith(f"{here / 'task.yml'}:2: not valid YAML: ")


@pytest.mark.parametrize("command", COMMANDS_WITH_A_PROBLEM, ids=lambda command: command[0])
def test_a_folder_without_a_task_is_named(refused, here, tmp_path, command):
    (tmp_path / "empty").mkdir()
    message = refused(*command, "--problem", str(tmp_path / "empty"))
    assert message == f"no such file: {tmp_path / 'empty' / 'task.yml'}; a problem folder holds a task.yml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[platform\n", "variants/winners.toml:1: not valid TOML: "),
        (WINNERS.replace("any_rows", "any_row"), "unknown variant in variants/winners.toml:6 'any_row'"),
        (WINNERS.replace('"16x32"', '"16x33"'), "unknown shape in variants/winners.toml:11 '16x33'"),
        (WINNERS.replace("[portable", "[portabel"), "unknown table in variants/winners.toml:"),
        (WINNERS.replace(', why = "for a test"', ""), 'variants/winners.toml:9: "4x8" has no why'),
        (None, "no such file: variants/winners.toml"),
    ],
    ids=["toml", "variant", "shape", "target", "why", "missing"],
)
@pytest.mark.parametrize("command", [["build", "--target", "portable"], ["variants"]], ids=["build", "variants"])
def test_a_broken_winners_file_is_named_with_its_line(refused, here, command, text, message):
    path = here / "variants" / "winners.toml"
    path.unlink() if text is None else path.write_text(text)
    assert refused(*command).startswith(message)


def test_a_target_without_winners_is_refused(refused):
    assert refused("build", "--target", "sm_90").startswith("variants/winners.toml: no winners for target sm_90")


def test_an_error_of_several_lines_is_still_one_line(refused, here):
    (here / "reference.py").write_text("raise ValueError('first\\nsecond\\r\\nthird')\n")
    message = refused("eval", "any_rows")
    assert message.endswith("reference.py: cannot be imported: ValueError: first second third")


def test_a_seed_that_generate_input_cannot_take_is_refused(refused):
    assert refused("eval", "any_rows", "--seed", "1000000000000").startswith("generate_input fails on 'rows: 4; ")


def test_debug_shows_the_traceback_before_the_line(capsys):
    assert run(["--debug", "eval", "absent.py"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert any("FileProblem" in line for line in lines[1:-1])
    assert lines[-1] == "error: no such file: absent.py"


def test_a_failed_verdict_is_no_error(here, capsys):
    (here / "wrong.py").write_text(ENTRY.replace("+ 1", "+ 9"))
    assert run(["eval", "wrong.py"]) == 1
    captured = capsys.readouterr()
    assert "official: mismatch found!" in captured.out
    assert "error:" not in captured.err
