"""The README's main command, on a copy of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository's files, tracked or new, without what git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    target = tmp_path / "clone"
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    return target


def test_make_submit_builds_verifies_and_reproduces_the_committed_submission(copy: Path):
    committed = (copy / "submission.py").read_bytes()
    (copy / "submission.py").unlink()
    ready = copy / ".ready"
    ready.touch()  # this environment stands in for .venv; setting up another is not what is tested
    result = subprocess.run(
        ["make", "submit", f"READY={ready}", f"HARNESS={sys.executable} -m harness"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    built = (copy / "submission.py").read_bytes()
    assert built == committed, "submission.py is not what variants/ and winners.toml give: run make submit"
    assert result.stdout.count(" yes ") == 8, "every shape is bitwise equal to its variant alone"
    assert "NO" not in result.stdout.replace("NOTICE", "")
    assert "Wrote" in result.stdout
    if "cpu (interpreted)" in result.stdout:
        assert "correctness only. Nothing here was timed." in result.stdout
        assert "stand-in" in result.stdout
