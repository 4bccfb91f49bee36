"""Runs one case of a submission under ncu or rocprofv3, in a process of its own, and reads what the tool saw."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from harness.errors import MissingCapability, UnknownName, WorkerFailed
from harness.evaluation.child import child_environment
from harness.evaluation.process_tree import end_tree
from harness.evaluation.protocol import Deadline, DeadlinePassed
from harness.evaluation.run_folder import RunFolder
from harness.profiling import ncu, rocprof
from harness.profiling.kernel_profile import KernelProfile, profile_table
from harness.targets.machine import Machine

Profiler = Literal["torch", "ncu", "rocprof"]
PROFILERS: tuple[Profiler, ...] = ("torch", "ncu", "rocprof")
_KIND = {"ncu": "cuda", "rocprof": "hip"}
_TOOLS = {"ncu": ncu, "rocprof": rocprof}
_LAST_BYTES = 4000

# Inputs, a merged file's key, and the limit: the table of one call.
Profile = Callable[[Any, tuple[Any, ...] | None, Deadline], str]


def find_program(profiler: str, machine: Machine) -> str | None:
    """The tool's path; None for torch's own profiler, which needs none.

    Raises UnknownName, and MissingCapability where this machine has no such GPU or the tool is not installed.
    """
    if profiler not in PROFILERS:
        raise UnknownName("profiler", profiler, PROFILERS)
    if profiler == "torch":
        return None
    tool = _TOOLS[profiler]
    if machine.kind != _KIND[profiler]:
        vendor = "NVIDIA" if profiler == "ncu" else "AMD"
        raise MissingCapability(f"--profiler {profiler} needs an {vendor} GPU (here: {machine.kind}); use torch")
    path = shutil.which(tool.PROGRAM)
    if path is None:
        raise MissingCapability(f"--profiler {profiler}: no {tool.PROGRAM} on PATH; {tool.ADVICE}; or use torch")
    return path


def profile_under(profiler: str, program: str, folder: RunFolder, machine: Machine) -> Profile:
    """What profiles calls of the submission in `folder` with this tool."""

    def profile(data: Any, key: tuple[Any, ...] | None, deadline: Deadline) -> str:
        kernels = counters(profiler, program, folder, machine, data, key, deadline)
        return f"{_heading(profiler)}\n\n{profile_table(kernels)}"

    return profile


def _heading(profiler: str) -> str:
    if profiler == "ncu":
        return "One call after warm-up, under ncu: cold caches, clocks as they are; kernels run one by one."
    return "One call after warm-up, under rocprofv3: caches as the call before left them; kernels run one by one."


def counters(
    profiler: str,
    program: str,
    folder: RunFolder,
    machine: Machine,
    data: Any,
    key: tuple[Any, ...] | None,
    deadline: Deadline,
) -> list[KernelProfile]:
    """The kernels of one call, with their counters.

    Raises MissingCapability where the tool may not read them, DeadlinePassed when it does not end in time, and
    WorkerFailed when it or the submission fails; nothing of the run is left behind.
    """
    from harness.evaluation.profile_driver import write_inputs

    with tempfile.TemporaryDirectory(prefix="harness-profile-") as name:
        place = Path(name)
        write_inputs(place / "inputs", data, key)
        application = [sys.executable, "-m", "harness.evaluation.profile_driver", str(place / "inputs")]
        if profiler == "ncu":
            output = place / "ncu.csv"
            command = ncu.command(program, machine.target, output, [*application, "range"])
        else:
            output = place / "rocprof"
            command = rocprof.command(program, output, [*application, "kernel"])
        code, said = _run(command, folder, machine, place, deadline)
        kernels = _read(profiler, output, code, said)
    return kernels


def _read(profiler: str, output: Path, code: int, said: str) -> list[KernelProfile]:
    try:
        return _TOOLS[profiler].read_output(output)
    except WorkerFailed as error:
        if ncu.NO_PERMISSION in said:
            output.write_text(said, encoding="utf-8")
            return ncu.read_output(output)
        last = said.strip().splitlines()[-1:] or [str(error)]
        raise WorkerFailed(f"{error} (exit code {code}; last line: {last[0][:200]})" if code else str(error)) from None


def _run(command: list[str], folder: RunFolder, machine: Machine, place: Path, deadline: Deadline) -> tuple[int, str]:
    """The exit code, and the end of what was printed."""
    mark = f"SUBMISSION_RUN={secrets.token_hex(8)}"
    # A comma must not become a decimal point in the figures.
    environment = {**child_environment(folder, mark, interpret=not machine.on_gpu), "LC_ALL": "C"}
    with (place / "printed").open("w+b") as printed:
        process = subprocess.Popen(
            command,
            cwd=folder.path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=deadline.remaining_s)
        except subprocess.TimeoutExpired:
            raise DeadlinePassed("the profiler did not end in time") from None
        finally:
            end_tree(process.pid, mark)
            process.wait()
        end = printed.seek(0, 2)
        printed.seek(max(0, end - _LAST_BYTES))
        return code, printed.read().decode("utf-8", "replace")
