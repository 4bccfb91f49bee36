"""A case under a profiler: which tool is refused and why, and what the tool's process is given. No GPU is needed.

A small program stands in for ncu: it runs the application that it is given, as ncu does, and writes a raw CSV page.
"""

from __future__ import annotations

import os
import stat
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cli_problem import furnish
from scripted_bench import FAKE_GPU, InProcess

from harness.cli.main import run
from harness.errors import MissingCapability, UnknownName, WorkerFailed
from harness.evaluation import evaluate as evaluate_module
from harness.evaluation.evaluate import Request, evaluate
from harness.evaluation.profile_driver import WARM_CALLS, read_inputs, write_inputs
from harness.evaluation.profile_run import counters, find_program
from harness.evaluation.protocol import Deadline, DeadlinePassed
from harness.evaluation.run_folder import run_folder
from harness.targets.machine import open_machine

HIP = replace(FAKE_GPU, kind="hip", target="gfx950")
CPU = open_machine("cpu")
CALLS = """
from pathlib import Path

def custom_kernel(data):
    x, config = data
    with Path("calls.txt").open("a") as file:
        file.write(f"{config['slope']} {x.sum().item():.4f}\\n")
    return x * config["slope"] + 1
"""
NCU = """
import subprocess, sys
options = sys.argv[1:]
log = options[options.index("--log-file") + 1]
application = options[options.index("--log-file") + 2 :]
assert options[options.index("--profile-from-start") + 1] == "off"
code = subprocess.run(application).returncode
rows = ['"ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum"', '"","","ns","byte"']
if code == 0:
    rows.append('"0","decode","2000","4,000,000"')
open(log, "w").write("==PROF== Connected\\n" + "\\n".join(rows) + "\\n")
sys.exit(code)
"""


def program(folder: Path, name: str, source: str) -> str:
    """An executable Python program in a folder of its own, put first on PATH by the caller."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(source)}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("profiler", "machine", "reason"),
    [
        ("ncu", CPU, r"--profiler ncu needs an NVIDIA GPU \(here: cpu \(interpreted\)\)"),
        ("ncu", HIP, r"--profiler ncu needs an NVIDIA GPU \(here: hip\)"),
        ("rocprof", FAKE_GPU, r"--profiler rocprof needs an AMD GPU \(here: cuda\)"),
        ("ncu", FAKE_GPU, r"no ncu on PATH; it comes with the CUDA toolkit"),
        ("rocprof", HIP, r"no rocprofv3 on PATH; it comes with ROCm"),
    ],
)
def test_a_tool_that_cannot_run_here_is_refused_with_how_to_get_it(monkeypatch, tmp_path, profiler, machine, reason):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingCapability, match=reason) as caught:
        find_program(profiler, machine)
    assert "torch" in str(caught.value)


def test_torchs_profiler_needs_no_program_and_an_unknown_one_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("torch", CPU) is None
    with pytest.raises(UnknownName, match="unknown profiler 'nsys'"):
        find_program("nsys", FAKE_GPU)


def test_inputs_come_back_as_they_were_written(tmp_path):
    packed = torch.arange(6, dtype=torch.uint8).view(2, 3)
    strided = torch.arange(12, dtype=torch.bfloat16).view(3, 4).T
    data = (strided, {"fp8": (packed.view(torch.float8_e4m3fn), torch.ones(1))}, 3, "text", None)
    write_inputs(tmp_path / "inputs", data, (4, 1))
    read, key = read_inputs(tmp_path / "inputs")
    assert key == (4, 1)
    assert read[0].equal(strided)
    assert read[0].stride() == strided.stride()
    assert read[1]["fp8"][0].view(torch.uint8).equal(packed)
    assert read[2:] == (3, "text", None)


def test_the_application_warms_up_and_calls_once_more_on_the_inputs_it_was_given(affine, submit, tmp_path):
    path = program(tmp_path / "bin", "ncu", NCU)
    data = (torch.ones(2, 2), {"slope": 2.0})
    with run_folder(affine, submit(CALLS)) as folder:
        kernels = counters("ncu", path, folder, CPU, data, None, Deadline.after(60))
        calls = (folder.path / "calls.txt").read_text().splitlines()
    assert calls == ["2.0 4.0000"] * (WARM_CALLS + 1)
    assert [(kernel.kernel, kernel.duration_ns, kernel.dram_read_bytes) for kernel in kernels] == [("decode", 2e3, 4e6)]


def test_a_merged_file_is_profiled_through_its_entry_for_the_shape(affine, submit, tmp_path):
    source = CALLS + "\n\ndef entry_for(key):\n    return lambda data: custom_kernel((data[0], {'slope': key[0]}))\n"
    path = program(tmp_path / "bin", "ncu", NCU)
    with run_folder(affine, submit(source)) as folder:
        counters("ncu", path, folder, CPU, (torch.ones(1), {"slope": 2.0}), (16, 32), Deadline.after(60))
        assert set((folder.path / "calls.txt").read_text().splitlines()) == {"16 1.0000"}


def test_a_submission_that_raises_under_the_profiler_fails_the_case_with_its_last_line(affine, submit, tmp_path):
    path = program(tmp_path / "bin", "ncu", NCU)
    raising = submit("def custom_kernel(data):\n    raise ValueError('too tired')\n")
    with run_folder(affine, raising) as folder, pytest.raises(WorkerFailed, match=r"exit code 1.*too tired"):
        counters("ncu", path, folder, CPU, (torch.ones(1),), None, Deadline.after(60))


def test_permission_that_is_only_printed_is_recognised_too(affine, submit, tmp_path):
    source = "import sys\nprint('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission')\nsys.exit(1)\n"
    path = program(tmp_path / "bin", "ncu", source)
    with run_folder(affine, submit(CALLS)) as folder, pytest.raises(MissingCapability, match="ERR_NVGPUCTRPERM"):
        counters("ncu", path, folder, CPU, (torch.ones(1),), None, Deadline.after(60))


def test_a_profiler_that_hangs_is_ended_with_all_it_started(affine, submit, tmp_path):
    source = """
        import os, subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open(os.environ["PID_FILE"], "w").write(str(child.pid))
        time.sleep(600)
    """
    path, pid_file = program(tmp_path / "bin", "ncu", source), tmp_path / "pid"
    os.environ["PID_FILE"] = str(pid_file)
    try:
        with run_folder(affine, submit(CALLS)) as folder, pytest.raises(DeadlinePassed, match="did not end in time"):
            counters("ncu", path, folder, CPU, (torch.ones(1),), None, Deadline.after(3))
    finally:
        del os.environ["PID_FILE"]
    pid = int(pid_file.read_text())
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_profile_mode_judges_the_case_and_shows_the_tools_table(affine, submit, tmp_path, monkeypatch):
    program(tmp_path / "bin", "ncu", NCU)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(evaluate_module, "Bench", InProcess)
    monkeypatch.chdir(tmp_path)  # the submission of these tests writes in the working folder, in process the user's
    # The driver's process sees no GPU: what it runs on the inputs is the same.
    result = evaluate(affine, submit(CALLS), Request("profile", profiler="ncu", shapes="S1"), machine=FAKE_GPU)
    (case,) = result.cases
    assert case.status == "pass", case.reason
    assert case.profile.startswith("One call after warm-up, under ncu")
    assert "decode" in case.profile


def test_the_command_refuses_a_profiler_outside_profile_mode(affine, capsys, monkeypatch):
    furnish(affine)
    monkeypatch.chdir(affine.root)
    assert run(["eval", "any_rows", "--profiler", "ncu"]) == 2
    assert "--profiler ncu is for --mode profile, not --mode test" in capsys.readouterr().err
