"""Where figures come from: the device, its driver and clocks, the versions, and the commit of the problem folder."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.targets.device_clocks import DeviceClocks, read_device_clocks
from harness.targets.machine import Machine

_LIMIT_S = 10.0


@dataclass(frozen=True)
class Provenance:
    """What a measurement depends on, and where it can be found again.

    commit: of the problem folder, with `+changes` where tracked files differ from it; None outside git.
    clocks_before, clocks_after: the GPU's before and right after the measurement; None where nothing can read them.
    """

    device: str
    target: str
    driver: str
    python: str
    torch: str
    triton: str
    commit: str | None
    clocks_before: DeviceClocks | None
    clocks_after: DeviceClocks | None


def provenance(machine: Machine, root: Path, clocks_before: DeviceClocks | None) -> Provenance:
    """The provenance of a measurement that has just ended on this machine, in the problem folder `root`."""
    return Provenance(
        device=machine.gpu or machine.cpu,
        target=machine.target,
        driver=machine.driver,
        python=platform.python_version(),
        torch=machine.torch,
        triton=machine.triton,
        commit=commit_of(root),
        clocks_before=clocks_before,
        clocks_after=read_device_clocks(machine),
    )


def commit_of(root: Path) -> str | None:
    """The commit that is checked out in `root`, with `+changes` where tracked files differ; None outside git."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return None
    return commit + ("+changes" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        finished = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=_LIMIT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip()
