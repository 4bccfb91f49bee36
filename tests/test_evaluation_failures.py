"""Whatever a submission does in its process is that case's failure with a reason, and the other cases still run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness.evaluation.evaluate import Request, evaluate

HEAD = "import os, sys, time\nimport torch\n"
RIGHT = "    x, config = data\n    return x * config['slope'] + 1\n"


def on_wide(action: str) -> str:
    """A right submission that does `action` on the case with 32 columns only."""
    return f"{HEAD}def custom_kernel(data):\n    if data[0].shape[1] == 32:\n        {action}\n{RIGHT}"


def test_a_right_submission_passes_both_verdicts_without_timings_on_the_cpu(affine, submit):
    result = evaluate(affine, submit(f"{HEAD}def custom_kernel(data):\n{RIGHT}"), Request("benchmark", "cpu"))
    assert result.passed
    assert [case.official.status for case in result.cases] == ["pass"] * 3
    assert [case.exact.status for case in result.cases] == ["pass"] * 3
    assert all(case.timing is None and case.samples_ns == () for case in result.cases)
    assert result.score_ns is None
    assert any("interpreted" in note for note in result.notes)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("os.kill(os.getpid(), 11)", "crashed: SIGSEGV"),
        ("os._exit(0)", "exited with code 0"),
        ("os._exit(7)", "exited with code 7"),
        ("sys.exit(0)", "called sys.exit(0)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("1 / 0", "ZeroDivisionError: division by zero (line 5 of the submission)"),
        ("return data[0][:1]", "shape"),
        ("return data[0].double()", "dtype"),
        ("return 'text'", "expected a tensor"),
        ("return None", "expected a tensor"),
        ("return data[0] * 0", "exact"),
        ("return data[0] / 0", "NaN or Inf"),
        ("os.closerange(3, 100)", "before it answered"),
        ("[print('x' * 1000000) for _ in range(1000)]", "printed more than 16 MiB"),
        ("[os.write(2, b'x' * 1000000) for _ in range(1000)]", "printed more than 16 MiB"),
    ],
)  # fmt: skip
def test_a_bad_case_fails_with_its_reason_and_the_others_pass(affine, submit, action, reason):
    result = evaluate(affine, submit(on_wide(action)), Request("benchmark", "cpu"))
    assert [case.status for case in result.cases] == ["pass", "pass", "fail"]
    assert reason in result.cases[2].reason
    assert result.cases[2].reason


def test_a_case_after_a_crash_runs_in_a_fresh_process(affine, submit):
    source = f"{HEAD}def custom_kernel(data):\n    if data[0].shape == (4, 8):\n        os._exit(3)\n{RIGHT}"
    result = evaluate(affine, submit(source), Request("benchmark", "cpu"))
    # rows are sliced to 4 on the CPU, so the second case has the same shape and dies too; the third does not.
    assert [case.status for case in result.cases] == ["fail", "fail", "pass"]


def test_a_hang_is_cut_at_the_limit_of_a_call(affine, submit):
    began = time.monotonic()
    request = Request("benchmark", "cpu", call_limit_s=8.0)
    result = evaluate(affine, submit(on_wide("time.sleep(1000)")), request)
    assert [case.status for case in result.cases] == ["pass", "pass", "fail"]
    assert result.cases[2].reason == "hung: no answer within 8 s"
    assert time.monotonic() - began < 60


def test_the_limit_of_time_keeps_what_was_checked_before(affine, submit):
    result = evaluate(affine, submit(on_wide("time.sleep(1000)")), Request("benchmark", "cpu", limit_s=12.0))
    assert [case.status for case in result.cases] == ["pass", "pass", "fail"]
    assert "limit of time" in result.cases[2].reason
    assert any("limit of time" in note for note in result.notes)


def test_an_import_that_fails_fails_every_case_with_its_line(affine, submit):
    result = evaluate(
        affine, submit(f"{HEAD}import nonexistent_module\ndef custom_kernel(data):\n{RIGHT}"), Request("test", "cpu")
    )
    assert [case.status for case in result.cases] == ["fail"]
    assert "No module named 'nonexistent_module' (line 3" in result.cases[0].reason


def test_processes_that_a_submission_leaves_behind_are_ended(affine, submit, tmp_path):
    daemon = tmp_path / "daemon.pid"
    action = (
        "import subprocess; p = subprocess.Popen(['sleep', '1000'], start_new_session=True); "
        f"open({str(daemon)!r}, 'w').write(str(p.pid))"
    )
    evaluate(affine, submit(on_wide(action)), Request("benchmark", "cpu"))
    pid = int(daemon.read_text())
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]


def test_the_child_sees_no_seed_in_its_environment_or_arguments(affine, submit, monkeypatch):
    monkeypatch.setenv("POPCORN_SEED", "31337")
    monkeypatch.setenv("HARNESS_ANYTHING", "31337")
    leak = "any('31337' in v for v in os.environ.values()) or '31337' in ' '.join(sys.argv)"
    source = f"{HEAD}def custom_kernel(data):\n    assert not ({leak})\n{RIGHT}"
    assert evaluate(affine, submit(source), Request("test", "cpu", secret_seed=31337)).passed


def test_what_a_submission_prints_is_kept_and_bounded(affine, submit):
    source = f"{HEAD}def custom_kernel(data):\n    print('a' * 200000)\n{RIGHT}"
    result = evaluate(affine, submit(source), Request("test", "cpu"))
    assert result.passed
    assert result.stdout.startswith("aaaa")
    assert len(result.stdout) < 70_000
    assert "more bytes" in result.stdout


def test_the_run_folder_is_removed_and_a_left_build_lock_with_its_half_built_extension_too(affine, submit):
    action = (
        "d = os.path.join(os.environ['TORCH_EXTENSIONS_DIR'], 'ext'); os.makedirs(d, exist_ok=True); "
        "open(os.path.join(d, 'lock'), 'w').close(); open(os.path.join(d, 'half.o'), 'w').close(); os._exit(1)"
    )
    variant = submit(on_wide(action))
    evaluate(affine, variant, Request("benchmark", "cpu"))
    kept = affine.root / ".harness" / "extensions" / variant.source_hash[:16]
    assert kept.is_dir()
    assert list(kept.iterdir()) == []


def test_a_finished_extension_stays_for_the_next_run(affine, submit):
    source = (
        f"{HEAD}d = os.path.join(os.environ['TORCH_EXTENSIONS_DIR'], 'ext')\nos.makedirs(d, exist_ok=True)\n"
        f"open(os.path.join(d, 'ext.so'), 'w').close()\ndef custom_kernel(data):\n{RIGHT}"
    )
    variant = submit(source)
    evaluate(affine, variant, Request("test", "cpu"))
    kept = affine.root / ".harness" / "extensions" / variant.source_hash[:16]
    assert (kept / "ext" / "ext.so").is_file()


def test_a_read_only_problem_folder_still_evaluates(affine, submit):
    if os.geteuid() == 0:
        (affine.root / ".harness").write_text("a file where the folder should be")
    else:
        affine.root.chmod(0o555)
    try:
        assert evaluate(affine, submit(f"{HEAD}def custom_kernel(data):\n{RIGHT}"), Request("test", "cpu")).passed
    finally:
        affine.root.chmod(0o755)
