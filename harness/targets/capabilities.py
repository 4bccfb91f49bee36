"""What this machine can do, and for each missing thing how to get it."""

from __future__ import annotations

import importlib
import platform
import shutil
import sys
from dataclasses import dataclass
from typing import Literal

from harness.targets.machine import package_version


@dataclass(frozen=True)
class Capability:
    """One line of `harness doctor`. advice: how to get it, '' when it is there or nothing can be done."""

    name: str
    status: Literal["yes", "no"]
    found: str
    advice: str = ""


def capabilities() -> list[Capability]:
    """Every capability, in the order in which one would install them."""
    checks = (_python, _torch, _triton, _gpu, _aiter, _c_compiler, _gpu_compiler, _profilers)
    return [check() for check in checks]


def _python() -> Capability:
    fits = (3, 10) <= sys.version_info[:2] <= (3, 13)
    advice = "" if fits else "use Python 3.10 to 3.13"
    return Capability("Python", "yes" if fits else "no", platform.python_version(), advice)


def _torch() -> Capability:
    try:
        torch = importlib.import_module("torch")
    except Exception as error:
        return Capability("torch", "no", f"{type(error).__name__}: {error}", "make setup installs a CPU build")
    builds = (("ROCm", torch.version.hip), ("CUDA", torch.version.cuda))
    build = next((f"{name} {version}" for name, version in builds if version), "CPU")
    return Capability("torch", "yes", f"{torch.__version__} ({build})")


def _triton() -> Capability:
    version = package_version("triton")
    if version is None:
        return Capability("Triton", "no", "not installed", "make setup, or pip install 'triton>=3.5'")
    return Capability("Triton", "yes", version)


def _gpu() -> Capability:
    try:
        torch = importlib.import_module("torch")
        present = torch.cuda.is_available()
    except Exception:
        present = False
    if not present:
        advice = "none needed for correctness: kernels are interpreted on the CPU; timings need a CUDA or ROCm device"
        return Capability("GPU", "no", "none that torch can use", advice)
    count = torch.cuda.device_count()
    return Capability("GPU", "yes", f"{count} × {torch.cuda.get_device_name()}")


def _aiter() -> Capability:
    from harness.aiter_stand_in import real_aiter

    try:
        module = real_aiter()
    except ImportError:
        module = None
    if module is None:
        advice = "needs ROCm; elsewhere a stand-in in plain torch checks aiter variants for correctness, untimed"
        return Capability("aiter", "no", "not importable here", advice)
    return Capability("aiter", "yes", str(getattr(module, "__version__", "version unknown")))


def _c_compiler() -> Capability:
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return Capability("C compiler", "yes", path)
    return Capability("C compiler", "no", "no cc, gcc or clang", "install one: Triton and extensions need it")


def _gpu_compiler() -> Capability:
    found = [path for name in ("nvcc", "hipcc") if (path := shutil.which(name))]
    if found:
        return Capability("GPU compiler", "yes", ", ".join(found))
    return Capability("GPU compiler", "no", "no nvcc or hipcc", "only inline CUDA or HIP extensions need one")


def _profilers() -> Capability:
    found = [path for name in ("ncu", "rocprofv3") if (path := shutil.which(name))]
    if found:
        return Capability("profilers", "yes", ", ".join(found))
    advice = "`harness eval --mode profile` uses torch's own; counters need ncu (CUDA toolkit) or rocprofv3 (ROCm)"
    return Capability("profilers", "no", "no ncu or rocprofv3", advice)
