"""Every command explains itself, and what needs no torch does not import it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness import __version__
from harness.cli.main import COMMANDS, run

REPOSITORY = Path(__file__).parents[1]
OPTIONS = {
    "eval": "--mode --device --shapes --seed --clear --out --limit --kv --rounding --problem --json",
    "check": "--probe --shapes --device --seed --kv --rounding --problem --json",
    "lint": "--json",
    "inspect": "--target --diff --estimate --shapes --problem --json",
    "build": "--target --output --verify --no-verify --force --device --problem --json",
    "candidates": "--verify --no-verify --inspect --no-inspect --device --problem --json",
    "ab": "--shapes --blocks --processes --delta --seed --device --problem --json",
    "variants": "--problem --json",
    "pick": "--target --apply --problem --json",
    "history": "--shape --limit --problem --json",
    "report": "--output --problem",
    "records": "export import",
    "new": "--from --problem",
    "doctor": "--json",
}
LATE = ("torch", "triton", "numpy", "scipy")


def test_every_command_is_listed_with_one_line(capsys):
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2]
    assert [line.split()[0] for line in listed.splitlines()] == list(COMMANDS)
    assert all(len(line.split()) > 3 for line in listed.splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_help_names_its_options(capsys, name):
    assert run([name, "--help"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"Usage: harness {name} ")
    assert captured.err == ""
    for option in OPTIONS[name].split():
        assert option in captured.out.replace(",", " ").replace("/", " ").split()


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_both_spellings_of_help_work(capsys, flag):
    assert run(["lint", flag]) == 0
    assert "Usage: harness lint" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"harness, version {__version__}\n"


def test_no_command_at_all_prints_the_help(capsys):
    assert run([]) == 0
    alone = capsys.readouterr()
    assert run(["--help"]) == 0
    assert capsys.readouterr() == alone


def imported_by(tmp_path: Path, *commands: list[str]) -> list[str]:
    """The late modules that are imported once these commands have run, in one fresh interpreter."""
    script = (
        "import sys\nfrom harness.cli.main import run\n"
        f"codes = [run(arguments) for arguments in {list(commands)!r}]\n"
        f"print(codes, [name for name in {LATE!r} if name in sys.modules], file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    codes, _, names = result.stderr.strip().splitlines()[-1].partition("] ")
    assert codes == "[" + ", ".join("0" * len(commands)), result.stderr
    return names.strip("[]").replace("'", "").split(", ") if names != "[]" else []


def test_help_lint_variants_and_build_do_not_import_torch(tmp_path):
    commands = [
        ["--help"],
        *([name, "--help"] for name in COMMANDS),
        ["lint", "variants/portable.py"],
        ["variants"],
        ["build", "--no-verify", "--target", "portable", "--output", str(tmp_path / "merged.py")],
    ]
    assert imported_by(tmp_path, *commands) == []


def test_a_command_that_does_import_torch_is_seen_to(tmp_path):
    assert "torch" in imported_by(tmp_path, ["doctor"])
