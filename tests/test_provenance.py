"""Where a measurement comes from: clocks as the tools print them, and the commit of the problem folder."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from scripted_bench import FAKE_GPU

from harness.targets import device_clocks as device_clocks_module
from harness.targets.device_clocks import DeviceClocks, parse_nvidia_smi, read_device_clocks
from harness.targets.machine import open_machine
from harness.targets.provenance import commit_of, provenance


@pytest.mark.parametrize(
    ("text", "clocks"),
    [
        ("1980, 3201, 41, 118.65\n", DeviceClocks(1980.0, 3201.0, 41.0, 118.65)),
        ("345, 2619, 30, [N/A]\n", DeviceClocks(345.0, 2619.0, 30.0, None)),
        ("1980, 3201\n", None),
        ("", None),
    ],
)
def test_clocks_are_read_from_nvidia_smi(text, clocks):
    assert parse_nvidia_smi(text) == clocks


def test_clocks_are_asked_of_the_first_gpu(monkeypatch):
    asked = []

    def run(command, **options):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, stdout="1980, 3201, 41, 118.65\n")

    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(device_clocks_module.subprocess, "run", run)
    assert read_device_clocks(FAKE_GPU).compute_mhz == 1980.0
    assert asked[0][:2] == ["nvidia-smi", "--id=0"]


@pytest.mark.parametrize(
    "error", [FileNotFoundError("nvidia-smi"), subprocess.CalledProcessError(9, []), subprocess.TimeoutExpired([], 10)]
)
def test_a_tool_that_fails_leaves_the_clocks_unknown(monkeypatch, error):
    def run(command, **options):
        raise error

    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(device_clocks_module.subprocess, "run", run)
    assert read_device_clocks(FAKE_GPU) is None


def test_without_a_gpu_there_are_no_clocks():
    assert read_device_clocks(open_machine("cpu")) is None


def test_the_commit_says_whether_tracked_files_differ_from_it(tmp_path):
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert commit_of(tmp_path) is None
    git("init", "-q")
    (tmp_path / "task.yml").write_text("one\n")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    commit = git("rev-parse", "HEAD")
    (tmp_path / "untracked").write_text("")
    assert commit_of(tmp_path) == commit
    (tmp_path / "task.yml").write_text("two\n")
    assert commit_of(tmp_path) == f"{commit}+changes"


def test_the_provenance_names_the_machine_and_both_readings_of_its_clocks(tmp_path, monkeypatch):
    later = DeviceClocks(1755.0, 3201.0, 60.0, 600.0)
    monkeypatch.setattr("harness.targets.provenance.read_device_clocks", lambda machine: later)
    before = DeviceClocks(1980.0, 3201.0, 41.0, 118.65)
    origin = provenance(FAKE_GPU, tmp_path, before)
    assert (origin.device, origin.target, origin.commit) == ("Scripted GPU", "sm_90", None)
    assert (origin.clocks_before, origin.clocks_after) == (before, later)
