"""What the commands report: JSON with stable keys and nothing beside it, the platform's text, and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cli_problem import ENTRY, furnish
from scripted_bench import FAKE_GPU, InProcess

from harness.checking.probes import PROBE_NAMES
from harness.cli.main import run
from harness.evaluation import check as check_module
from harness.evaluation import evaluate as evaluate_module
from harness.evaluation import merge_check
from harness.problem.variant import read_variant
from harness.targets import machine as machine_module

TIMING_KEYS = ("runs", "mean", "std", "err", "best", "worst")


@pytest.fixture(autouse=True)
def here(affine, monkeypatch):
    """The furnished affine problem as the working directory, without a GPU."""
    furnish(affine)
    monkeypatch.chdir(affine.root)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return affine.root


@pytest.fixture
def in_process(monkeypatch):
    """Submissions run in this process."""
    for module in (evaluate_module, merge_check):
        monkeypatch.setattr(module, "Bench", InProcess)


@pytest.fixture
def document(capsys):
    """Run a command with `--json -`: its exit code, the JSON, and what people read on standard error."""

    def run_and_read(*arguments: str) -> tuple[int, dict, str]:
        code = run([*arguments, "--json", "-"])
        captured = capsys.readouterr()
        return code, json.loads(captured.out), captured.err

    return run_and_read


def test_eval_reports_every_case_without_timings_on_the_cpu(in_process, document):
    code, found, _ = document("eval", "any_rows", "--mode", "benchmark")
    assert code == 0
    assert found["file"] == str(Path("variants/any_rows.py").resolve())
    assert (found["mode"], found["check"]) == ("benchmark", "pass")
    assert (found["device"], found["score_ns"]) == ("cpu (interpreted)", None)
    assert [case["shape"] for case in found["cases"]] == ["S1", "S2", "S3"]
    for case in found["cases"]:
        assert {"spec", "status", "official", "exact", "error"} <= set(case)
        assert (case["status"], case["official"], case["exact"]) == ("pass", "pass", "pass")
        assert case["error"] < 1e-6
        assert [case[key] for key in TIMING_KEYS] == [None] * 6


def test_eval_reports_figures_in_nanoseconds_on_a_gpu(in_process, document, monkeypatch):
    monkeypatch.setattr(machine_module, "open_machine", lambda device: FAKE_GPU)
    code, found, _ = document("eval", "any_rows", "--mode", "leaderboard", "--shapes", "S1")
    (case,) = found["cases"]
    assert (code, found["device"], found["score_ns"]) == (0, "cuda", None)
    # Times of 90, 100 and 110 in turn, the warm-up's 100 before them: 100 more begin with 100.
    assert (case["runs"], case["best"], case["worst"]) == (100, 90.0, 110.0)
    assert case["mean"] == pytest.approx((33 * 90 + 34 * 100 + 33 * 110) / 100)


def test_eval_of_a_wrong_file_ends_with_1_and_says_why(in_process, document, here):
    (here / "wrong.py").write_text(ENTRY.replace("+ 1", "+ 9"))
    code, found, _ = document("eval", "wrong.py")
    assert (code, found["check"]) == (1, "fail")
    (case,) = found["cases"]
    assert (case["status"], case["official"], case["exact"]) == ("fail", "fail", "fail")
    assert case["reason"].startswith("official: mismatch found!")


def test_eval_takes_the_submission_of_the_nearest_problem_by_itself(in_process, document, here, monkeypatch):
    monkeypatch.chdir(here / "variants")
    _, found, _ = document("eval")
    assert found["file"] == str(here / "submission.py")


def test_a_problem_elsewhere_is_reached_by_its_folder(in_process, document, here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, found, _ = document("eval", "narrow_rows", "--problem", str(here))
    assert (code, len(found["cases"])) == (0, 2)


def test_a_seed_is_the_platforms_secret_one(in_process, document, monkeypatch):
    seen = []
    draw = evaluate_module.Referee.draw
    monkeypatch.setattr(evaluate_module.Referee, "draw", lambda self, case: seen.append(case) or draw(self, case))
    document("eval", "any_rows", "--seed", "5")
    assert [case.arguments["seed"] for case in seen] == [1 + 6 * 7 // 2]


@pytest.mark.parametrize(("text", "clear"), [(None, 8 << 30), ("official", None), ("512000000", 512_000_000)])
def test_the_clear_is_what_the_option_says(in_process, document, monkeypatch, text, clear):
    clears = []
    monkeypatch.setattr(machine_module, "open_machine", lambda device: FAKE_GPU)
    monkeypatch.setattr(evaluate_module, "free_memory", lambda: 141 << 30)
    plain = InProcess.time

    def noted(self, deadline, clear_bytes, *rest, **clock):
        clears.append(clear_bytes)
        return plain(self, deadline, clear_bytes, *rest, **clock)

    monkeypatch.setattr(InProcess, "time", noted)
    document("eval", "any_rows", "--mode", "benchmark", "--shapes", "S1", *(["--clear", text] if text else []))
    assert set(clears) == {clear}


def test_the_platforms_text_report_is_written_where_out_says(in_process, here, capsys):
    assert run(["eval", "any_rows", "--out", "reports/first.txt", "--json", "reports/first.json"]) == 0
    text = (here / "reports" / "first.txt").read_text(encoding="utf-8")
    assert "\nRunning on:\n* GPU: ``\n" in text
    assert text.endswith("\n\n## ✅ Passed 1/1 tests:\n```\n✅ rows: 4; columns: 8; seed: 1```")
    assert json.loads((here / "reports" / "first.json").read_text())["check"] == "pass"
    assert sorted(path.name for path in (here / "reports").iterdir()) == ["first.json", "first.txt"]
    assert "any_rows.py, mode test" in capsys.readouterr().out


def test_a_report_replaces_an_older_one_whole(in_process, here):
    (here / "report.txt").write_text("older " * 1000)
    assert run(["eval", "any_rows", "--out", "report.txt"]) == 0
    assert "older" not in (here / "report.txt").read_text()


def test_check_reports_verdicts_and_probes(document, monkeypatch):
    monkeypatch.setattr(check_module, "Bench", InProcess)
    code, found, _ = document("check", "narrow_rows", "--probe", "lint", "--shapes", "S2")
    assert (code, found["check"], found["device"]) == (0, "pass", "cpu (interpreted)")
    (case,) = found["cases"]
    assert (case["shape"], case["slice_of"], case["stand_in"]) == ("S2", "4 of 16 rows", False)
    assert case["official"]["status"] == "pass"
    assert "mismatch_ratio" in case["official"]
    assert case["exact"]["status"] == "pass"
    assert {"error", "worst_row", "limit"} <= set(case["exact"])
    assert set(case["probes"]) == {"lint"}
    assert set(case["probes"]["lint"]) == {"status", "detail"}


def test_check_of_several_files_is_a_list_and_one_bad_file_ends_with_1(document, monkeypatch, here):
    monkeypatch.setattr(check_module, "Bench", InProcess)
    (here / "wrong.py").write_text(ENTRY.replace("+ 1", "+ 9"))
    code, found, _ = document("check", "narrow_rows", "wrong.py", "--probe", "lint", "--shapes", "S1")
    assert code == 1
    assert [document["check"] for document in found] == ["pass", "fail"]


def test_check_of_a_real_child_asks_every_probe(document):
    code, found, _ = document("check", "any_rows", "--shapes", "S2", "--seed", "3")
    (case,) = found["cases"]
    assert list(case["probes"]) == list(PROBE_NAMES)
    assert {probe["status"] for probe in case["probes"].values()} <= {"pass", "not applicable"}
    assert case["probes"]["fresh-values"]["status"] == "pass"
    assert code == 0


def test_build_merges_verifies_and_writes(in_process, document, here):
    code, found, errors = document("build", "--target", "portable")
    assert code == 0
    output = here / "build" / "submission_portable.py"
    assert (found["target"], found["output"], found["written"]) == ("portable", str(output), True)
    assert found["bytes"] == output.stat().st_size
    assert found["fallback"] == "any_rows"
    assert {name: (shape["variant"], shape["why"]) for name, shape in found["shapes"].items()} == {
        "S1": ("narrow_rows", "for a test"),
        "S2": ("narrow_rows", "for a test"),
        "S3": ("any_rows", "for a test"),
    }
    assert all(
        shape["verified"]["equal"] and shape["verified"]["exact"] == "pass" for shape in found["shapes"].values()
    )
    assert "Wrote" in errors
    assert read_variant(output).is_merged


def test_build_without_verification_says_so(document, here):
    code, found, errors = document("build", "--target", "portable", "--no-verify", "--output", "merged.py")
    assert (code, found["output"]) == (0, "merged.py")
    assert {shape["verified"] for shape in found["shapes"].values()} == {None}
    assert "Not verified" in errors
    assert (here / "merged.py").is_file()


@pytest.mark.parametrize("force", [False, True])
def test_a_merge_of_a_wrong_variant_is_written_only_by_force_and_ends_with_1(in_process, document, here, force):
    path = here / "variants" / "any_rows.py"
    path.write_text(path.read_text().replace("+ 1", "+ 9"))
    code, found, errors = document("build", "--target", "portable", *(["--force"] if force else []))
    assert (code, found["written"]) == (1, force)
    assert (here / "build" / "submission_portable.py").exists() == force
    assert ("Did NOT write" in errors) != force
    assert found["shapes"]["S3"]["verified"]["reason"].startswith("official: mismatch found!")


def test_lint_reports_findings(document, here):
    (here / "refused.py").write_text("# a stream\n" + ENTRY)
    code, found, _ = document("lint", "refused.py")
    assert code == 1
    assert found["file"] == "refused.py"
    assert all(set(finding) == {"rule", "line", "message", "fatal"} for finding in found["findings"])
    assert any(finding["fatal"] and finding["line"] == 1 for finding in found["findings"])


def test_lint_of_several_files_is_a_list(document):
    code, found, _ = document("lint", "submission.py", "variants/any_rows.py")
    assert code == 0
    assert [result["file"] for result in found] == ["submission.py", "variants/any_rows.py"]


def test_variants_lists_the_candidates_and_where_they_win(document):
    code, found, _ = document("variants")
    assert code == 0
    assert found == {
        "variants": [
            {
                "name": "any_rows", "shapes": "any", "targets": ["portable"], "kv": None, "rounding": None,
                "last_verdict": None, "best": [], "winner_of": ["portable S3 fallback"],
            },
            {
                "name": "narrow_rows", "shapes": ["4x8", "16x8"], "targets": ["portable"], "kv": None,
                "rounding": None, "last_verdict": None, "best": [], "winner_of": ["portable S1 S2"],
            },
        ]
    }  # fmt: skip


def test_doctor_lists_capabilities(document):
    code, found, _ = document("doctor")
    assert code == 0
    assert {capability["name"] for capability in found["capabilities"]} >= {"Python", "torch", "Triton", "GPU", "aiter"}
    assert all(set(capability) == {"name", "status", "found", "advice"} for capability in found["capabilities"])


def test_new_copies_a_variant_and_says_what_is_next(here, capsys):
    assert run(["new", "faster", "--from", "narrow_rows"]) == 0
    path = here / "variants" / "faster.py"
    assert path.read_bytes() == (here / "variants" / "narrow_rows.py").read_bytes()
    assert "harness check variants/faster.py" in capsys.readouterr().out
    assert run(["new", "faster", "--from", "narrow_rows"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_new_writes_line_feeds_and_a_final_newline_whatever_it_copies(here):
    (here / "theirs.py").write_bytes("\ufeff# °\r\ndef custom_kernel(data):\r\n    return data".encode())
    assert run(["new", "copied", "--from", "theirs.py"]) == 0
    written = (here / "variants" / "copied.py").read_bytes()
    assert written == "# °\ndef custom_kernel(data):\n    return data\n".encode()


def test_the_whole_command_prints_only_json_on_standard_output(here):
    (here / "chatty.py").write_text("import os\nos.write(1, b'to the descriptor')\nprint('to the file')\n" + ENTRY)
    arguments = ["eval", str(here / "chatty.py"), "--problem", str(here), "--device", "cpu", "--json", "-"]
    repository = Path(__file__).parents[1]
    result = subprocess.run(
        [sys.executable, "-m", "harness", *arguments], cwd=repository, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["check"] == "pass"
    assert "mode test" in result.stderr
