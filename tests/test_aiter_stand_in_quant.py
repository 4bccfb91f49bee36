"""aiter's rounding helpers in the stand-in: fp8 with one scale, and MXFP4, to the bit where the rule is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.aiter_stand_in import fp4_utils, quant
from harness.aiter_stand_in.checks import StandInError
from reference import dequantize_mxfp4, quantize_mxfp4

FP8 = torch.float8_e4m3fn
BF16 = torch.bfloat16


def normal(*shape: int, seed: int = 0, factor: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * factor).to(BF16)


def by_torch(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return quant.per_tensor_quant(x, quant_dtype=FP8)


def by_hip(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return quant.per_tensor_quant_hip(x, quant_dtype=FP8)


def by_triton(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return quant.per_tensor_quant_triton(x, quant_dtype=FP8)


FAMILIES = [by_torch, by_hip, by_triton]


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8)


@pytest.mark.parametrize("rounding", FAMILIES)
@pytest.mark.parametrize("factor", [1.0, 1000.0, 1e-20])
def test_the_largest_value_becomes_the_largest_fp8_number(rounding: Callable, factor: float) -> None:
    x = normal(3, 16, 576, factor=factor)
    rounded, scale = rounding(x)
    assert rounded.shape == x.shape and rounded.dtype == FP8
    assert scale.shape == (1,) and scale.dtype == torch.float32
    assert rounded.float().abs().max() == 448
    # e4m3 has 4 bits: half a unit of the value, or half of its smallest number, 2^-10.
    difference = (rounded.float() * scale - x.float()).abs()
    assert (difference <= (x.float().abs() * 2**-4).clamp(min=1.001 * 2**-10 * scale.item())).all()


def test_the_hip_kernel_multiplies_by_the_float32_reciprocals_of_448_and_of_the_scale() -> None:
    x = normal(64, 576, seed=1)
    rounded, scale = by_hip(x)
    wanted = x.abs().max().float() * torch.tensor(1 / 448)
    assert scale.item() == wanted.item()
    assert torch.equal(as_bytes(rounded), as_bytes((x.float() * (1 / wanted)).to(FP8)))


def test_the_torch_helper_divides() -> None:
    x = normal(64, 576, seed=2)
    rounded, scale = by_torch(x)
    assert scale.item() == (x.abs().max().float() / 448).item()
    assert torch.equal(as_bytes(rounded), as_bytes((x.float() / scale).to(FP8)))


@pytest.mark.parametrize("rounding", [by_hip, by_triton])
def test_a_given_scale_is_used_as_it_is(rounding: Callable) -> None:
    x, scale = normal(8, 576), torch.tensor([0.125])
    family = quant.per_tensor_quant_hip if rounding is by_hip else quant.per_tensor_quant_triton
    rounded, given = family(x, scale, quant_dtype=FP8)
    assert torch.equal(as_bytes(rounded), as_bytes((x.float() * 8).to(FP8)))
    assert given.item() == 0.125


def test_the_triton_helper_keeps_a_larger_scale_that_its_buffer_held_before() -> None:
    # Its atomic maximum starts from what is there: whoever does not clear the buffer gets the largest scale ever.
    large, small = normal(4, 576, factor=4), normal(4, 576)
    rounded, scale = torch.empty(4, 576, dtype=FP8), torch.zeros(1)
    quant.dynamic_per_tensor_quant_fp8_i8(rounded, large, scale)
    kept = scale.item()
    quant.dynamic_per_tensor_quant_fp8_i8(rounded, small, scale)
    assert scale.item() == kept > small.abs().max().item() / 448
    assert torch.equal(as_bytes(rounded), as_bytes((small.float() * (1 / scale)).to(FP8)))


def test_the_hip_helper_clears_its_scale_first() -> None:
    scale = torch.tensor([1e6])
    quant.dynamic_per_tensor_quant(torch.empty(4, 576, dtype=FP8), normal(4, 576), scale)
    assert scale.item() < 0.02


@pytest.mark.parametrize("rounding", FAMILIES)
def test_zeros_become_nan_as_in_aiter(rounding: Callable) -> None:
    rounded, scale = rounding(torch.zeros(2, 576, dtype=BF16))
    assert scale.item() == 0
    assert rounded.float().isnan().all()


def rows_apart() -> torch.Tensor:
    return normal(4, 600)[:, :576]


QUANT_REFUSALS: dict[str, tuple[Callable[[], object], str]] = {
    "int8": (lambda: quant.per_tensor_quant(normal(2, 8)), r"quant_dtype is torch.int8; .* aiter.dtypes.fp8 only"),
    "int8, HIP": (lambda: quant.per_tensor_quant_hip(normal(2, 8)), "quant_dtype is torch.int8"),
    "int8, Triton": (lambda: quant.per_tensor_quant_triton(normal(2, 8)), "quant_dtype is torch.int8"),
    "rows counted on the device": (
        lambda: quant.per_tensor_quant_hip(normal(2, 8), quant_dtype=FP8, num_rows=torch.ones(1)),
        "num_rows is not supported",
    ),
    "float32 in the HIP kernel": (
        lambda: quant.dynamic_per_tensor_quant(torch.empty(2, 8, dtype=FP8), torch.ones(2, 8), torch.zeros(1)),
        "input is float32, expected bfloat16 or float16",
    ),
    "rows apart in the HIP kernel": (
        lambda: quant.dynamic_per_tensor_quant(torch.empty(4, 576, dtype=FP8), rows_apart(), torch.zeros(1)),
        "input is not contiguous",
    ),
    "another size": (
        lambda: quant.dynamic_per_tensor_quant(torch.empty(2, 7, dtype=FP8), normal(2, 8), torch.zeros(1)),
        "out has 14 values, expected 16",
    ),
    "a scale for each row": (
        lambda: quant.dynamic_per_tensor_quant(torch.empty(2, 8, dtype=FP8), normal(2, 8), torch.zeros(2)),
        "scale has 2 elements, expected 1",
    ),
    "a scale too small": (
        lambda: quant.static_per_tensor_quant(torch.empty(2, 8, dtype=FP8), normal(2, 8), torch.tensor([1e-6])),
        "values over 448 times the scale: .* not known",
    ),
    "rows apart by different steps": (
        lambda: quant.dynamic_per_tensor_quant_fp8_i8(torch.empty(4, 576, dtype=FP8), rows_apart(), torch.zeros(1)),
        "the rows of qx are 576 apart, those of x_in 600",
    ),
    "three dimensions in the Triton kernel": (
        lambda: quant.dynamic_per_tensor_quant_fp8_i8(torch.empty(2, 2, 8, dtype=FP8), normal(2, 2, 8), torch.zeros(1)),
        r"x_in has shape \(2, 2, 8\), expected \(any, any\)",
    ),
    "columns apart": (
        lambda: quant.static_per_tensor_quant_fp8_i8(torch.empty(8, 4, dtype=FP8), normal(4, 8).T, torch.ones(1)),
        "last dimension of x_in or qx is not contiguous",
    ),
    "a scale buffer of NaN": (
        lambda: quant.dynamic_per_tensor_quant_fp8_i8(
            torch.empty(2, 8, dtype=FP8), normal(2, 8), torch.tensor([float("nan")])
        ),
        "scale_out holds NaN",
    ),
    "no values": (
        lambda: quant.dynamic_per_tensor_quant(torch.empty(0, 8, dtype=FP8), normal(0, 8), torch.zeros(1)),
        "input is empty",
    ),
    "MXFP4 of a width that is no multiple of 32": (
        lambda: fp4_utils.dynamic_mxfp4_quant(normal(2, 48)),
        "x has 48 columns, expected a multiple of 32",
    ),
    "MXFP4 for matrix kernels": (
        lambda: fp4_utils.dynamic_mxfp4_quant(normal(2, 64), shuffle=True),
        "shuffle=True: .* not known",
    ),
    "MXFP4 of three dimensions": (
        lambda: fp4_utils.dynamic_mxfp4_quant(normal(2, 2, 64)),
        r"x has shape \(2, 2, 64\)",
    ),
    "MXFP4 values of another dtype": (lambda: fp4_utils.mxfp4_to_f32(torch.ones(2, 2)), "x is float32"),
    "scales of another dtype": (lambda: fp4_utils.e8m0_to_f32(torch.ones(2)), "scale_e8m0_biased is float32"),
}


@pytest.mark.parametrize(("call", "message"), QUANT_REFUSALS.values(), ids=QUANT_REFUSALS.keys())
def test_the_helpers_refuse(call: Callable[[], object], message: str) -> None:
    with pytest.raises(StandInError, match=message):
        call()


def test_a_strided_tensor_is_rounded_in_place_of_its_rows() -> None:
    wide = torch.zeros(4, 600, dtype=FP8)
    scale = torch.zeros(1)
    quant.dynamic_per_tensor_quant_fp8_i8(wide[:, :576], rows_apart(), scale)
    assert torch.equal(as_bytes(wide[:, :576]), as_bytes((rows_apart().float() * (1 / scale)).to(FP8)))
    assert (as_bytes(wide[:, 576:]) == 0).all()


# --- MXFP4 ---

# Seen from aiter f3be04a12a's own kernel: largest value of a block, scale byte.
SCALE_BYTES = {1: 125, 1.74: 125, 1.75: 126, 3.4: 126, 3.5: 127, 6.99: 127, 7: 128, 448: 134, 0: 0, float("inf"): 254}
# At scale 1, ties away from zero.
ELEMENTS = {0.25: 0.5, 0.75: 1.0, 1.25: 1.5, 1.75: 2.0, 2.5: 3.0, 3.5: 4.0, 5.0: 6.0, -2.5: -3.0, 0.24: 0.0, 4.9: 4.0}


def test_the_scale_of_a_block_is_aiters() -> None:
    x = torch.zeros(len(SCALE_BYTES), 32)
    x[:, 7] = torch.tensor(list(SCALE_BYTES))
    _, scales = fp4_utils.dynamic_mxfp4_quant(x)
    assert as_bytes(scales)[: len(SCALE_BYTES), 0].tolist() == list(SCALE_BYTES.values())


def test_elements_round_to_the_nearest_with_ties_away_from_zero() -> None:
    x = torch.zeros(1, 32)
    x[0, : len(ELEMENTS)] = torch.tensor(list(ELEMENTS))
    x[0, -1] = 4.0
    packed, scales = fp4_utils.dynamic_mxfp4_quant(x)
    assert as_bytes(scales)[0, 0] == 127
    assert fp4_utils.mxfp4_to_f32(packed)[0, : len(ELEMENTS)].tolist() == list(ELEMENTS.values())


def test_bytes_equal_those_of_aiters_kernel() -> None:
    torch.manual_seed(1)
    packed, scales = fp4_utils.dynamic_mxfp4_quant(torch.randn(2, 64).bfloat16())
    assert as_bytes(packed)[0, :8].tolist() == [189, 219, 168, 220, 27, 155, 89, 33]
    assert as_bytes(scales)[0, :2].tolist() == [126, 126]


@pytest.mark.parametrize("factor", [1.0, 1e-30, 1e30])
def test_it_is_the_problems_own_quantisation(factor: float) -> None:
    x = normal(300, 576, factor=factor)
    x[5] = 0
    packed, scales = fp4_utils.dynamic_mxfp4_quant(x)
    expected, expected_scales = quantize_mxfp4(x.view(300, 1, 576))
    assert scales.shape == expected_scales.shape == (512, 24)
    assert torch.equal(as_bytes(packed), as_bytes(expected).view(300, 288))
    assert torch.equal(as_bytes(scales)[:300], as_bytes(expected_scales)[:300])


def test_results_do_not_depend_on_how_rows_are_cut_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(70, 64)
    whole = fp4_utils.dynamic_mxfp4_quant(x)
    monkeypatch.setattr(fp4_utils, "MAX_VALUES_AT_ONCE", 64 * 3)
    cut = fp4_utils.dynamic_mxfp4_quant(x)
    assert torch.equal(as_bytes(whole[0]), as_bytes(cut[0]))
    assert torch.equal(as_bytes(whole[1])[:70], as_bytes(cut[1])[:70])


def test_the_way_back_gives_the_values_and_the_scales() -> None:
    codes = torch.tensor([[0x10, 0x32, 0x54, 0x76, 0x98, 0xFE]], dtype=torch.uint8)
    values = fp4_utils.mxfp4_to_f32(codes)
    assert values.tolist() == [[0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -4, -6]]
    assert torch.signbit(values)[0, 8], "-0 keeps its sign"
    scales = fp4_utils.e8m0_to_f32(torch.tensor([0, 1, 127, 254, 255], dtype=torch.uint8))
    assert scales[:4].tolist() == [2.0**-127, 2.0**-126, 1.0, 2.0**127] and scales[4].isnan()
    packed, block_scales = quantize_mxfp4(normal(2, 1, 64))
    both = (
        fp4_utils.mxfp4_to_f32(packed.view(2, 32)).view(2, 2, 32)
        * fp4_utils.e8m0_to_f32(block_scales[:2, :2])[..., None]
    )
    assert torch.equal(both.view(2, 64), dequantize_mxfp4(packed.view(2, 32), block_scales, torch.float32))
