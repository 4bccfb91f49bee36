"""What `import aiter` gives where the stand-in is installed: the functions that MLA submissions call, in plain torch.

This is not aiter. Signatures are those of aiter f3be04a12a (2026-03-04); results are computed by torch.
"""

from __future__ import annotations

from harness.aiter_stand_in import dtypes, mla
from harness.aiter_stand_in.checks import StandInError
from harness.aiter_stand_in.metadata import get_mla_metadata_info_v1, get_mla_metadata_v1
from harness.aiter_stand_in.quant import (
    dynamic_per_tensor_quant,
    per_tensor_quant,
    per_tensor_quant_hip,
    static_per_tensor_quant,
)
from harness.aiter_stand_in.reduce import mla_reduce_v1
from harness.aiter_stand_in.stage1 import mla_decode_stage1_asm_fwd

__harness_stand_in__ = True
__version__ = "stand-in for aiter f3be04a12a (plain torch, not aiter)"
__all__ = [
    "StandInError",
    "dtypes",
    "dynamic_per_tensor_quant",
    "get_mla_metadata_info_v1",
    "get_mla_metadata_v1",
    "mla",
    "mla_decode_stage1_asm_fwd",
    "mla_reduce_v1",
    "per_tensor_quant",
    "per_tensor_quant_hip",
    "static_per_tensor_quant",
]


def __getattr__(name: str) -> object:
    raise AttributeError(f"the aiter stand-in has no '{name}' (it offers: {', '.join(__all__)})")
