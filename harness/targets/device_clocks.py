"""The clock rates, temperature and power of the GPU at this moment: what a time depends on besides the kernel."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

from harness.targets.machine import Machine

_QUERY = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")
_LIMIT_S = 10.0


@dataclass(frozen=True)
class DeviceClocks:
    """compute_mhz, memory_mhz: of the multiprocessors and the memory. temperature_c in °C, power_w in watts.

    A figure that the tool does not give is None.
    """

    compute_mhz: float | None
    memory_mhz: float | None
    temperature_c: float | None
    power_w: float | None


def read_device_clocks(machine: Machine) -> DeviceClocks | None:
    """The first GPU's clocks now; None where no GPU is, or nothing here can read them.

    NVIDIA: nvidia-smi, which comes with the driver. AMD: torch, where its amdsmi binding is installed.
    """
    if machine.kind == "cuda":
        return _from_nvidia_smi()
    return _from_torch() if machine.kind == "hip" else None


def _from_nvidia_smi() -> DeviceClocks | None:
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_nvidia_smi(finished.stdout)


def parse_nvidia_smi(text: str) -> DeviceClocks | None:
    """Read one line of the query's figures, `1980, 3201, 41, 118.65`; `[N/A]` is a figure that is not there.

    Source of the format: `nvidia-smi --help-query-gpu`.
    """
    lines = text.strip().splitlines()
    fields = lines[0].split(",") if lines else []
    return DeviceClocks(*(_figure(field) for field in fields)) if len(fields) == len(_QUERY) else None


def _figure(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _from_torch() -> DeviceClocks | None:
    import torch

    try:
        return DeviceClocks(
            float(torch.cuda.clock_rate()), None, float(torch.cuda.temperature()), torch.cuda.power_draw() / 1000
        )
    except Exception:
        # Without amdsmi torch raises what its version happens to raise; no figure of ours depends on it.
        return None
