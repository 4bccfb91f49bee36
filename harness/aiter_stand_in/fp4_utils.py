"""`aiter.utility.fp4_utils` of the stand-in: MXFP4 to and fro, bit for bit as aiter f3be04a12a has it.

Source of the rules: aiter/utility/fp4_utils.py there. A block is 32 values along the last dimension with one e8m0
scale; a value is e2m1 (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives), two a byte, the even index in the low nibble.
"""

from __future__ import annotations

import torch

from harness.aiter_stand_in import dtypes
from harness.aiter_stand_in.checks import Checks

__harness_stand_in__ = True
__all__ = ["dynamic_mxfp4_quant", "e8m0_to_f32", "mxfp4_to_f32"]

BLOCK = 32

# The scale tensor's rows and columns are rounded up to these (dynamic_mxfp4_quant).
SCALE_ROWS_MULTIPLE = 256
SCALE_COLUMNS_MULTIPLE = 8

# Values rounded at a time: 2^24 in float32 and a few copies are some 300 MB.
MAX_VALUES_AT_ONCE = 2**24

E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@torch.no_grad()
def dynamic_mxfp4_quant(
    x: torch.Tensor, scaling_mode: str = "even", shuffle: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, width) bf16, fp16 or fp32 to (rows, width / 2) fp4x2 and its e8m0 scales.

    Scales: (rows rounded up to 256, blocks rounded up to 8); rows past the last are uninitialised, columns past the
    last block are 0. Elements round to the nearest e2m1 with ties away from zero and clamp at 6; a largest value
    whose mantissa is at least 1.75 takes the next exponent. Whatever `scaling_mode` says the rule is the same.
    Elements under 2^-32 of their block's scale are 0 here; the kernel shifts by more bits than there are for them.
    Raises TypeError and StandInError: shuffle=True and a width that is no multiple of 32 are not known here.
    """
    checks = Checks.on_device_of("dynamic_mxfp4_quant", "x", x)
    checks.tensor("x", x, (torch.bfloat16, torch.float16, torch.float32), (None, None), contiguous=False)
    checks.that(not shuffle, "shuffle=True: the layout for matrix kernels is not known to the stand-in")
    rows, width = x.shape
    checks.that(width % BLOCK == 0, f"x has {width} columns, expected a multiple of {BLOCK}")
    blocks = width // BLOCK
    packed = torch.empty((rows, width // 2), dtype=torch.uint8, device=x.device)
    scales = torch.empty(
        (_rounded_up(rows, SCALE_ROWS_MULTIPLE), _rounded_up(blocks, SCALE_COLUMNS_MULTIPLE)),
        dtype=torch.uint8,
        device=x.device,
    )
    scales[:rows, blocks:] = 0
    step = max(1, MAX_VALUES_AT_ONCE // width)
    for start in range(0, rows, step):
        part = slice(start, min(start + step, rows))
        packed[part], scales[part, :blocks] = _quantised(x[part].float().reshape(-1, blocks, BLOCK))
    return packed.view(dtypes.fp4x2), scales.view(dtypes.fp8_e8m0)


def _quantised(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, blocks, 32) float32 to (rows, blocks · 16) packed bytes and (rows, blocks) scale bytes."""
    largest = values.abs().amax(dim=-1).view(torch.int32)
    exponent = ((largest + 0x200000) >> 23) & 0xFF
    # The largest value gets the exponent 2 of e2m1's 4 and 6; infinity counts as the largest exponent there is.
    scale_byte = torch.where(exponent == 0xFF, 254, (exponent - 2).clamp(min=0))
    # ldexp: 2^127 times a subnormal is exact, where a product with a float32 power would not be for every exponent.
    magnitude = torch.ldexp(values.abs(), (127 - scale_byte)[..., None])
    # Half a step away from zero: below 2 the step is 0.5, below 4 it is 1, above 2.
    step = torch.where(magnitude < 2, 0.5, torch.where(magnitude < 4, 1.0, 2.0))
    rounded = (torch.floor(magnitude / step + 0.5) * step).clamp(max=6.0).nan_to_num(6.0)
    codes = _code_of(rounded) | (torch.signbit(values).to(torch.uint8) << 3)
    packed = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return packed.flatten(1), scale_byte.to(torch.uint8)


def _code_of(magnitude: torch.Tensor) -> torch.Tensor:
    """The three bits of an e2m1 magnitude."""
    return torch.bucketize(magnitude, torch.tensor(E2M1_VALUES, device=magnitude.device)).to(torch.uint8)


@torch.no_grad()
def mxfp4_to_f32(x: torch.Tensor) -> torch.Tensor:
    """(…, width / 2) fp4x2 or uint8 to (…, width) float32, without the scales. Raises TypeError and StandInError."""
    checks = Checks.on_device_of("mxfp4_to_f32", "x", x)
    checks.tensor("x", x, (dtypes.fp4x2, torch.uint8), x.shape, contiguous=False)
    codes = x.view(torch.uint8)
    table = torch.tensor(E2M1_VALUES + tuple(-value for value in E2M1_VALUES), device=x.device)
    return table[torch.stack((codes & 0xF, codes >> 4), dim=-1).int()].flatten(-2)


@torch.no_grad()
def e8m0_to_f32(scale_e8m0_biased: torch.Tensor) -> torch.Tensor:
    """e8m0 or uint8 scales of any shape to float32: 2^(byte − 127), 255 is NaN. Raises TypeError and StandInError."""
    checks = Checks.on_device_of("e8m0_to_f32", "scale_e8m0_biased", scale_e8m0_biased)
    checks.tensor(
        "scale_e8m0_biased",
        scale_e8m0_biased,
        (dtypes.fp8_e8m0, torch.uint8),
        scale_e8m0_biased.shape,
        contiguous=False,
    )
    exponents = scale_e8m0_biased.view(torch.uint8).int()
    # 2^-127 is a subnormal float32, which only its bits give.
    bits = torch.where(exponents == 0, 0x00400000, exponents << 23)
    return torch.where(exponents == 255, 0x7F800001, bits).to(torch.int32).view(torch.float32)


def _rounded_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def __getattr__(name: str) -> object:
    offers = ", ".join(__all__)
    raise AttributeError(f"the aiter stand-in has no '{name}' in aiter.utility.fp4_utils (it offers: {offers})")
