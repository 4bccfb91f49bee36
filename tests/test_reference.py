"""The problem's inputs, quantisation and check, against golden values of the platform's aiter."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import reference
import truth


def scale_byte(amax: float) -> int:
    block = torch.zeros(1, 1, 32)
    block[0, 0, 5] = amax
    return int(reference.quantize_mxfp4(block)[1].view(torch.uint8)[0, 0])


@pytest.mark.parametrize(
    ("amax", "byte"),
    [
        (1, 125), (1.74, 125), (1.75, 126), (3.4, 126), (3.5, 127),
        (6.99, 127), (7, 128), (448, 134), (0, 0), (math.inf, 254),
    ],
)  # fmt: skip
def test_the_mxfp4_scale_byte_equals_aiters(amax, byte):
    assert scale_byte(amax) == byte


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (0.25, 0.5), (0.75, 1), (1.25, 1.5), (1.75, 2), (2.5, 3), (3.5, 4),
        (5, 6), (-2.5, -3), (0.24, 0), (6, 6), (-0.25, -0.5),
    ],
)  # fmt: skip
def test_mxfp4_elements_round_ties_away_from_zero(value, rounded):
    block = torch.zeros(1, 1, 32, dtype=torch.bfloat16)
    block[0, 0, 0], block[0, 0, 31] = value, 6.0  # amax 6 keeps the scale at 1
    packed, scales = reference.quantize_mxfp4(block)
    assert int(scales.view(torch.uint8)[0, 0]) == 127
    assert reference.dequantize_mxfp4(packed[0], scales, torch.float32)[0, 0] == rounded


def test_mxfp4_of_a_known_draw_equals_aiters_bytes():
    torch.manual_seed(1)
    packed, scales = reference.quantize_mxfp4(torch.randn(2, 64).bfloat16().view(1, 2, 64))
    assert packed.view(torch.uint8)[0, 0, :8].tolist() == [189, 219, 168, 220, 27, 155, 89, 33]
    assert scales.view(torch.uint8)[0, :2].tolist() == [126, 126]


def test_mxfp4_unpacks_the_low_nibble_first():
    packed = torch.tensor([[0x10, 0x32, 0x54, 0x76] + [0] * 12], dtype=torch.uint8)
    values = reference.dequantize_mxfp4(packed, torch.full((1, 1), 127, dtype=torch.uint8), torch.float32)
    assert values[0, :8].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def test_mxfp4_scales_zero_is_the_smallest_power_and_255_is_nan():
    packed = torch.full((2, 16), 0x22, dtype=torch.uint8)
    values = reference.dequantize_mxfp4(packed, torch.tensor([[0], [255]], dtype=torch.uint8), torch.float64)
    assert (values[0] == 2.0**-127).all()
    assert values[1].isnan().all()


def test_mxfp4_scales_are_padded_to_256_rows_and_8_columns_with_zero_columns():
    data = reference.generate_input(batchsize=3, qseqlen=1, kvseqlen=100, seed=5)
    packed, scales = data[1]["mxfp4"]
    assert packed.shape == (300, 1, 288)
    assert scales.shape == (512, 24)
    assert (scales.view(torch.uint8)[:300, 18:] == 0).all()
    assert (scales.view(torch.uint8)[:300, :18] > 0).all()


def test_generate_input_has_the_platforms_shapes_types_and_order_of_draws():
    q, kv_data, qo_indptr, kv_indptr, config = reference.generate_input(batchsize=2, qseqlen=3, kvseqlen=7, seed=9)
    generator = torch.Generator(device=q.device).manual_seed(9)
    expected_q = torch.randn((6, 16, 576), dtype=torch.bfloat16, device=q.device, generator=generator)
    expected_kv = torch.randn((14, 1, 576), dtype=torch.bfloat16, device=q.device, generator=generator)
    assert torch.equal(q, expected_q)
    assert torch.equal(kv_data["bf16"], expected_kv)
    fp8, scale = kv_data["fp8"]
    assert (fp8.dtype, scale.dtype, tuple(scale.shape)) == (reference.fp8_dtype(), torch.float32, (1,))
    # The platform divides in bf16, so the scale is a bf16 number.
    assert scale.item() == (expected_kv.abs().amax() / 448).item()
    assert torch.equal(fp8.float(), (expected_kv / scale.bfloat16()).clamp(-448, 448).to(fp8.dtype).float())
    assert qo_indptr.tolist() == [0, 3, 6]
    assert kv_indptr.tolist() == [0, 7, 14]
    assert (qo_indptr.dtype, kv_indptr.dtype) == (torch.int32, torch.int32)
    assert config == {
        "batch_size": 2, "num_heads": 16, "num_kv_heads": 1, "qk_head_dim": 576, "kv_lora_rank": 512,
        "qk_rope_head_dim": 64, "v_head_dim": 512, "q_seq_len": 3, "kv_seq_len": 7, "sm_scale": 1 / math.sqrt(576),
    }  # fmt: skip


@pytest.fixture(scope="module")
def case():
    data = reference.generate_input(batchsize=2, qseqlen=1, kvseqlen=1024, seed=4220)
    return data, reference.ref_kernel(data)


def test_the_reference_is_within_its_own_fp8_arithmetic_of_the_truth(case):
    data, output = case
    expected = truth.truth(data, {"kv": "fp8"})
    error = (output.double() - expected).norm() / expected.norm()
    # q, P and KV in e4m3 lose about 0.03 against the truth of the fp8 KV; exact arithmetic would lose 0.002.
    assert 0.01 < error < 0.045


def test_the_check_passes_the_reference_itself_with_the_largest_error(case):
    data, output = case
    assert reference.check_implementation(data, output) == (True, "Maximum error: 0.0")


def test_the_check_passes_five_percent_of_mismatches_with_a_warning_and_no_more(case):
    data, output = case
    flat = output.clone().view(-1)
    few = int(flat.numel() * 0.049)
    flat[:few] += 9.0
    passed, message = reference.check_implementation(data, flat.view_as(output))
    assert passed
    assert message.startswith("warning: mismatch_ratio=0.04")
    assert message.endswith("(<= tol_err_ratio=0.05) with rtol=0.1, atol=0.1")
    flat[: int(flat.numel() * 0.051)] = 99.0
    passed, message = reference.check_implementation(data, flat.view_as(output))
    assert not passed
    first, second, *_, last = message.split("\\n")
    count = int(flat.numel() * 0.051)
    assert first == f"Number of mismatched elements: {count}"
    assert second.startswith("ERROR at (0, 0, 0): 99.0 ")
    assert last == f"... and {count - 5} more mismatched elements."


def test_the_check_counts_nan_only_where_the_reference_has_none(case):
    data, output = case
    bad = output.clone()
    bad.view(-1)[: int(bad.numel() * 0.04)] = float("nan")
    assert reference.check_implementation(data, bad)[0]
    bad.view(-1)[: int(bad.numel() * 0.06)] = float("nan")
    assert not reference.check_implementation(data, bad)[0]


def test_the_check_names_a_wrong_shape(case):
    data, output = case
    assert reference.check_implementation(data, output[:1]) == (False, "SIZE MISMATCH")


def test_the_check_lets_zeros_pass_at_8192_keys_as_the_platform_does():
    data = reference.generate_input(batchsize=1, qseqlen=1, kvseqlen=8192, seed=1)
    zeros = torch.zeros((1, 16, 512), dtype=torch.bfloat16)
    assert reference.check_implementation(data, zeros)[0]


def test_the_truth_of_several_queries_is_causal_from_the_end():
    data = reference.generate_input(batchsize=1, qseqlen=3, kvseqlen=5, seed=2)
    q, kv_data, _, _, config = data
    keys = kv_data["bf16"][:, 0].double()
    for query, seen in enumerate((3, 4, 5)):
        weights = torch.softmax(q[query].double() @ keys[:seen].T * config["sm_scale"], dim=-1)
        expected = weights @ keys[:seen, :512]
        # float64 both: only the order of summation differs.
        assert torch.allclose(truth.truth(data, {"kv": "bf16"})[query], expected, rtol=1e-12, atol=1e-12)


def test_the_truth_reads_the_format_that_is_declared():
    data = reference.generate_input(batchsize=1, qseqlen=1, kvseqlen=64, seed=3)
    outputs = {name: truth.truth(data, {"kv": name}) for name in truth.KV_FORMATS}
    norm = outputs["bf16"].norm()
    assert 0 < (outputs["fp8"] - outputs["bf16"]).norm() / norm < 0.1
    assert 0.02 < (outputs["mxfp4"] - outputs["bf16"]).norm() / norm < 0.5
    mixed = truth.truth(data, {"kv": {"keys": "fp8", "values": "bf16"}})
    assert all(not torch.equal(mixed, other) for other in outputs.values())


@pytest.mark.parametrize("declaration", [{"kv": "fp9"}, {"kv": {"keys": "fp8"}}, {"kv": "fp8", "rounding": "f8"}])
def test_an_unknown_declaration_is_refused_by_name(declaration):
    data = reference.generate_input(batchsize=1, qseqlen=1, kvseqlen=8, seed=3)
    with pytest.raises(ValueError, match=r"fp9|None|f8"):
        truth.limit(declaration)
        truth.truth(data, declaration)
