"""The names of `aiter.dtypes` at aiter f3be04a12a on gfx950 (source: aiter/utility/dtypes.py)."""

from __future__ import annotations

import torch

__harness_stand_in__ = True

i4x2 = getattr(torch, "int4", torch.uint8)
fp4x2 = getattr(torch, "float4_e2m1fn_x2", torch.uint8)
fp8 = torch.float8_e4m3fn
fp8_e8m0 = getattr(torch, "float8_e8m0fnu", torch.uint8)
fp16 = torch.float16
bf16 = torch.bfloat16
fp32 = torch.float32
u32 = torch.uint32
i32 = torch.int32
i16 = torch.int16
i8 = torch.int8

d_dtypes = {
    "fp8": fp8,
    "fp8_e8m0": fp8_e8m0,
    "fp16": fp16,
    "bf16": bf16,
    "fp32": fp32,
    "i4x2": i4x2,
    "fp4x2": fp4x2,
    "u32": u32,
    "i32": i32,
    "i16": i16,
    "i8": i8,
}

__all__ = sorted(["d_dtypes", *d_dtypes])


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"the aiter stand-in has no '{name}' in aiter.utility.dtypes (it offers: {', '.join(__all__)})"
    )
