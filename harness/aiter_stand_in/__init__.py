"""A stand-in for the few functions of AMD's aiter that MLA submissions call, where aiter itself cannot run.

Plain torch on CPU or CUDA tensors, with the signatures, argument checks, schedules and roundings of aiter
f3be04a12a on an MI355X: for checking results, never for timing. `install()` makes `import aiter` find it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import torch

from harness.aiter_stand_in import api, modules
from harness.errors import HarnessError

__all__ = ["NOTICE", "api", "install", "is_stand_in", "modules", "real_aiter"]

NOTICE = "Results come from a stand-in for aiter in plain torch, not from aiter itself; it is never timed."


def install() -> ModuleType:
    """Make imports of aiter and of `modules.MODULES` find the stand-in; returns it. Doing it twice is harmless.

    `aiter.dtypes` is an attribute, as in aiter itself, which has no module of that name to import.
    Raises HarnessError where the real aiter is usable, or where another module is already imported as `aiter`.
    """
    present = sys.modules.get("aiter")
    if is_stand_in(present):
        return api
    if real_aiter() is not None:
        raise HarnessError("aiter is usable on this machine; its stand-in is only for machines without it")
    if present is not None:
        raise HarnessError(f"{present!r} is already imported as aiter; start a fresh process to use its stand-in")
    modules.register()
    return api


def is_stand_in(module: ModuleType | None) -> bool:
    """Whether `module` belongs to the stand-in."""
    return getattr(module, "__harness_stand_in__", False) is True


def real_aiter() -> ModuleType | None:
    """AMD's aiter, imported, or None where it is missing or unusable (no ROCm torch, or its import fails)."""
    if torch.version.hip is None or is_stand_in(sys.modules.get("aiter")):
        return None
    before = set(sys.modules)
    try:
        module = importlib.import_module("aiter")
    except Exception:
        # Its import looks for ROCm, a GPU and a compiler, and fails in many ways; half-loaded parts must not stay.
        for name in set(sys.modules) - before:
            if name == "aiter" or name.startswith("aiter."):
                del sys.modules[name]
        return None
    return module if hasattr(module, "mla_decode_stage1_asm_fwd") else None
