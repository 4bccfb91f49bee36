"""The roundings of aiter's machine code that torch does not offer by name."""

from __future__ import annotations

from collections.abc import Callable

import torch

Rounding = Callable[[torch.Tensor], torch.Tensor]


def to_fp8_and_back(dtype: torch.dtype) -> Rounding:
    """Float32 rounded to an 8-bit float, to nearest with ties to even, as `v_cvt_pk_fp8_f32` does."""
    return lambda values: values.to(dtype).to(torch.float32)


def to_bfloat16(values: torch.Tensor) -> torch.Tensor:
    """Float32 to bfloat16, to nearest with ties away from zero (the kernels add half a unit to the bits)."""
    bits = (values.contiguous().view(torch.int32) + 0x8000) >> 16
    rounded = bits.to(torch.int16).view(torch.bfloat16)
    return torch.where(torch.isnan(values), torch.full_like(rounded, float("nan")), rounded)


def to_bfloat16_and_back(values: torch.Tensor) -> torch.Tensor:
    """Float32 rounded as `to_bfloat16` does, kept in float32."""
    return to_bfloat16(values).to(torch.float32)
