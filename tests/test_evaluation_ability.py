"""A file whose kernels cannot run on the device at hand is refused before anything starts, naming what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cli_problem import ENTRY, furnish
from scripted_bench import FAKE_GPU

from harness.cli.main import run
from harness.errors import MissingCapability
from harness.evaluation.ability import require_device
from harness.targets.machine import open_machine

ONLY_THERE = f'VARIANT = {{"shapes": "any", "targets": ["portable"], "runs_on": ["sm_99"]}}\n\n\n{ENTRY}'
MERGED = f'VARIANT = {{"shapes": {{"4x8": {{"runs_on": ["sm_99"]}}, "16x8": {{}}}}, "fallback": {{}}}}\n\n\n{ENTRY}'


@pytest.mark.parametrize("machine", [open_machine("cpu"), replace(FAKE_GPU, target="sm_80")], ids=["cpu", "sm_80"])
def test_another_device_is_named_with_the_one_that_it_takes(submit, machine):
    here = machine.target if machine.on_gpu else r"cpu \(interpreted\)"
    with pytest.raises(MissingCapability, match=rf"runs only on sm_99 for 4x8 \(here: {here}\)"):
        require_device(submit(ONLY_THERE), ["4x8"], machine)


def test_its_own_device_and_a_file_that_says_nothing_are_taken(submit):
    require_device(submit(ONLY_THERE), ["4x8", None], replace(FAKE_GPU, target="sm_99"))
    require_device(submit(ENTRY), ["4x8", None], open_machine("cpu"))


def test_a_merged_file_is_refused_for_the_shapes_alone_that_cannot_run(submit):
    merged = submit(MERGED)
    require_device(merged, ["16x8", None], open_machine("cpu"))
    with pytest.raises(MissingCapability, match="for 4x8 "):
        require_device(merged, ["4x8", "16x8"], open_machine("cpu"))


@pytest.mark.parametrize("command", [["eval", "only_there"], ["check", "only_there"]])
def test_the_commands_refuse_it_in_one_line(affine, capsys, monkeypatch, command):
    (furnish(affine) / "only_there.py").write_text(ONLY_THERE)
    monkeypatch.chdir(affine.root)
    assert run(command) == 2
    assert "only_there runs only on sm_99" in capsys.readouterr().err


def test_a_build_of_it_is_refused_with_the_way_around_the_run(affine, capsys, monkeypatch):
    folder = furnish(affine)
    (folder / "narrow_rows.py").write_text(ONLY_THERE)
    monkeypatch.chdir(affine.root)
    before = (affine.root / "submission.py").read_text()
    assert run(["build", "--target", "portable", "--output", "submission.py"]) == 2
    error = capsys.readouterr().err
    assert "runs only on sm_99 for 4x8, 16x8" in error
    assert "--no-verify" in error
    assert (affine.root / "submission.py").read_text() == before
    assert run(["build", "--target", "portable", "--output", "submission.py", "--no-verify"]) == 0
