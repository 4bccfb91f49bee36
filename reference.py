"""Inputs, reference and check of `amd-mixed-mla`, with the platform's names and arithmetic.

Runs on CUDA, ROCm and the CPU. The reference is aiter's a8w8 persistent decode where aiter is the real one,
and elsewhere the same arithmetic in torch (`harness.aiter_stand_in`).
Source of the contract: gpu-mode/reference-kernels, problems/amd_202602/mixed-mla and utils.py (2026).
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import torch

from harness.aiter_stand_in import api as stand_in
from harness.aiter_stand_in import real_aiter
from task import (
    KV_LORA_RANK,
    NUM_HEADS,
    NUM_KV_HEADS,
    QK_HEAD_DIM,
    QK_ROPE_HEAD_DIM,
    SM_SCALE,
    V_HEAD_DIM,
    input_t,
    output_t,
)

PAGE_SIZE = 1
NUM_KV_SPLITS = 32
KV_GRANULARITY = 16
RTOL = ATOL = 0.1
# The share of mismatched values that the platform still lets pass, with a warning.
MISMATCH_RATIO = 0.05
MXFP4_BLOCK = 32
# Rows that one step of the MXFP4 quantisation takes: bounds its float32 temporaries to about 150 MB each.
_ROWS_PER_STEP = 1 << 16


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fp8_dtype(device: torch.device | str | None = None) -> torch.dtype:
    """The e4m3 type that aiter uses on this device: `fnuz` on gfx942, `fn` everywhere else."""
    device = torch.device(device) if device is not None else _device()
    if device.type == "cuda" and torch.version.hip is not None:
        architecture = torch.cuda.get_device_properties(device).gcnArchName
        if architecture.startswith("gfx942"):
            return torch.float8_e4m3fnuz
    return torch.float8_e4m3fn


# aiter's names for the packed types: torch's own where this torch has them, bytes otherwise.
FP4X2_DTYPE = getattr(torch, "float4_e2m1fn_x2", torch.uint8)
E8M0_DTYPE = getattr(torch, "float8_e8m0fnu", torch.uint8)


def quantize_fp8(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Per-tensor FP8: `scale = max|x| / 448`, in the tensor's own precision (bf16) as on the platform.

    tensor: any shape, bfloat16. Returns (e4m3 tensor of that shape, float32 scale of shape (1,)).
    """
    dtype = fp8_dtype(tensor.device)
    largest = torch.finfo(dtype).max
    scale = tensor.abs().amax().clamp(min=1e-12) / largest
    quantized = (tensor / scale).clamp(min=-largest, max=largest).to(dtype)
    return quantized, scale.to(torch.float32).reshape(1)


def quantize_mxfp4(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """MXFP4 in blocks of 32 along the last dimension, bit for bit as the platform's aiter quantises.

    tensor: (B, M, N) bfloat16, N a multiple of 32. Returns
      packed: (B, M, N / 2), two e2m1 a byte, the even index in the low nibble;
      scales: (ceil(B·M / 256)·256, ceil(N / 256)·8) e8m0; rows past B·M are uninitialised, columns past
      N / 32 are zero.
    The scale's exponent is floor(log2(amax)) − 2 after rounding amax up where its mantissa is at least 1.75;
    elements round to the nearest e2m1 with ties away from zero and clamp at 6.
    Source: ROCm/aiter f3be04a12a, aiter/utility/fp4_utils.py.
    """
    batch, middle, width = tensor.shape
    if width % MXFP4_BLOCK:
        raise ValueError(f"quantize_mxfp4 takes a last dimension that is a multiple of {MXFP4_BLOCK}, got {width}")
    rows, blocks = batch * middle, width // MXFP4_BLOCK
    flat = tensor.reshape(rows, blocks, MXFP4_BLOCK)
    packed = torch.empty((rows, width // 2), dtype=torch.uint8, device=tensor.device)
    padded_rows, padded_blocks = -(-rows // 256) * 256, -(-blocks // 8) * 8
    scales = torch.empty((padded_rows, padded_blocks), dtype=torch.uint8, device=tensor.device)
    scales[:rows, blocks:] = 0
    for start in range(0, rows, _ROWS_PER_STEP):
        part = slice(start, min(start + _ROWS_PER_STEP, rows))
        packed[part], scales[part, :blocks] = _quantize_mxfp4_rows(flat[part].float())
    return packed.view(FP4X2_DTYPE).view(batch, middle, -1), scales.view(E8M0_DTYPE)


# A magnitude at or above the i-th boundary has at least code i + 1: e2m1 is 0, .5, 1, 1.5, 2, 3, 4, 6 and
# the boundaries lie half way, each belonging to the larger value (ties away from zero).
_E2M1_BOUNDARIES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
_E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@cache
def _boundaries(device: torch.device) -> torch.Tensor:
    # Kept: a copy from the host waits until the device is idle, and inputs are drawn before every timed call.
    return torch.tensor(_E2M1_BOUNDARIES, device=device)


def _quantize_mxfp4_rows(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, blocks, 32) float32 → packed (rows, blocks·16) uint8 and scale bytes (rows, blocks) uint8."""
    amax_bits = values.abs().amax(dim=-1).view(torch.int32)
    exponent = ((amax_bits + 0x200000) >> 23) & 0xFF
    scale_exponent = torch.where(exponent == 0xFF, 127, (exponent - 129).clamp(min=-127))
    # ldexp and not a multiplication by 2^-s: that power itself is not a normal float32 for every s.
    scaled = torch.ldexp(values.abs(), -scale_exponent.unsqueeze(-1))
    codes = torch.bucketize(scaled, _boundaries(values.device), right=True, out_int32=True).to(torch.uint8)
    codes |= torch.signbit(values).to(torch.uint8) << 3
    packed = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return packed.flatten(1), (scale_exponent + 127).to(torch.uint8)


def dequantize_mxfp4(packed: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Values of (rows, N / 2) packed e2m1 with (≥ rows, ≥ N / 32) e8m0 scales: (rows, N) in `dtype`.

    Padded scale rows and columns are ignored; scale byte 0 is 2⁻¹²⁷, byte 255 is NaN.
    """
    codes = packed.view(torch.uint8)
    rows, blocks = codes.shape[0], codes.shape[1] * 2 // MXFP4_BLOCK
    table = torch.tensor(_E2M1_VALUES + tuple(-value for value in _E2M1_VALUES), dtype=dtype, device=codes.device)
    nibbles = torch.stack((codes & 0xF, codes >> 4), dim=-1).flatten(1)
    values = table[nibbles.int()].view(rows, blocks, MXFP4_BLOCK)
    scale_bytes = scales.view(torch.uint8)[:rows, :blocks]
    factors = torch.exp2(scale_bytes.to(torch.float64) - 127)
    factors = torch.where(scale_bytes == 255, torch.nan, factors).to(dtype)
    return (values * factors.unsqueeze(-1)).view(rows, -1)


def generate_input(batchsize: int, qseqlen: int, kvseqlen: int, seed: int) -> input_t:
    """Unscaled normal inputs of one case, drawn on the device by a generator of its own: q first, then KV.

    The values differ between device types, as torch's generators do.
    """
    device = _device()
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)

    def normal(rows: int, heads: int) -> torch.Tensor:
        shape = (rows, heads, QK_HEAD_DIM)
        return torch.randn(shape, dtype=torch.bfloat16, device=device, generator=generator)

    q = normal(batchsize * qseqlen, NUM_HEADS)
    kv = normal(batchsize * kvseqlen, NUM_KV_HEADS)
    sequences = torch.arange(batchsize + 1, dtype=torch.int32, device=device)
    return pack_input(q, kv, sequences * qseqlen, sequences * kvseqlen, qseqlen, kvseqlen)


def pack_input(
    q: torch.Tensor,
    kv: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    q_seq_len: int,
    kv_seq_len: int,
    sm_scale: float = SM_SCALE,
) -> input_t:
    """The platform's input tuple for given q (total_q, 16, 576) and KV (total_kv, 1, 576), both bfloat16.

    q_seq_len and kv_seq_len are the largest of any sequence; the indptrs, (batch_size + 1,) int32, say the rest.
    """
    config = {
        "batch_size": kv_indptr.numel() - 1,
        "num_heads": NUM_HEADS,
        "num_kv_heads": NUM_KV_HEADS,
        "qk_head_dim": QK_HEAD_DIM,
        "kv_lora_rank": KV_LORA_RANK,
        "qk_rope_head_dim": QK_ROPE_HEAD_DIM,
        "v_head_dim": V_HEAD_DIM,
        "q_seq_len": q_seq_len,
        "kv_seq_len": kv_seq_len,
        "sm_scale": sm_scale,
    }
    kv_data = {"bf16": kv, "fp8": quantize_fp8(kv), "mxfp4": quantize_mxfp4(kv)}
    return (q, kv_data, qo_indptr, kv_indptr, config)


def _decode_with(aiter: ModuleType | Any, data: input_t) -> output_t:
    """aiter's a8w8 persistent decode: scheduled anew for this input, then stage 1, then the reduce."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    q_fp8, q_scale = quantize_fp8(q)
    kv_fp8, kv_scale = kv_data["fp8"]
    batch_size, q_seq_len = config["batch_size"], config["q_seq_len"]
    last_page_lens = (kv_indptr[1:] - kv_indptr[:-1]).to(torch.int32)
    information = aiter.get_mla_metadata_info_v1(
        batch_size,
        q_seq_len,
        NUM_HEADS,
        q_fp8.dtype,
        kv_fp8.dtype,
        is_sparse=False,
        fast_mode=False,
        num_kv_splits=NUM_KV_SPLITS,
        intra_batch_mode=True,
    )
    work_metadata, work_indptr, work_info, reduce_indptr, reduce_final_map, reduce_partial_map = (
        torch.empty(shape, dtype=dtype, device=q.device) for shape, dtype in information
    )
    aiter.get_mla_metadata_v1(
        qo_indptr,
        kv_indptr,
        last_page_lens,
        NUM_HEADS // NUM_KV_HEADS,
        NUM_KV_HEADS,
        True,
        work_metadata,
        work_info,
        work_indptr,
        reduce_indptr,
        reduce_final_map,
        reduce_partial_map,
        page_size=PAGE_SIZE,
        kv_granularity=KV_GRANULARITY,
        max_seqlen_qo=q_seq_len,
        uni_seqlen_qo=q_seq_len,
        fast_mode=False,
        max_split_per_batch=NUM_KV_SPLITS,
        intra_batch_mode=True,
        dtype_q=q_fp8.dtype,
        dtype_kv=kv_fp8.dtype,
    )
    output = torch.empty((q.shape[0], NUM_HEADS, V_HEAD_DIM), dtype=torch.bfloat16, device=q.device)
    aiter.mla.mla_decode_fwd(
        q_fp8,
        kv_fp8.view(-1, PAGE_SIZE, NUM_KV_HEADS, QK_HEAD_DIM),
        output,
        qo_indptr,
        kv_indptr,
        torch.arange(kv_fp8.shape[0], dtype=torch.int32, device=q.device),
        last_page_lens,
        q_seq_len,
        page_size=PAGE_SIZE,
        nhead_kv=NUM_KV_HEADS,
        sm_scale=config["sm_scale"],
        logit_cap=0.0,
        num_kv_splits=NUM_KV_SPLITS,
        q_scale=q_scale,
        kv_scale=kv_scale,
        intra_batch_mode=True,
        work_meta_data=work_metadata,
        work_indptr=work_indptr,
        work_info_set=work_info,
        reduce_indptr=reduce_indptr,
        reduce_final_map=reduce_final_map,
        reduce_partial_map=reduce_partial_map,
    )
    return output


def ref_kernel(data: input_t) -> output_t:
    """The platform's reference: q quantised per tensor, FP8 KV, 32 splits, granularity 16.

    Returns (total_q, 16, 512) bfloat16 on the inputs' device. The real aiter computes it on ROCm; everywhere
    else the stand-in does, with the same schedule and roundings.
    """
    on_gpu = data[0].device.type == "cuda"
    return _decode_with((real_aiter() if on_gpu else None) or stand_in, data)


def _strict_mismatches(output: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    far = (output.float() - expected.float()).abs() > ATOL + RTOL * expected.abs()
    for special in (torch.isnan, torch.isposinf, torch.isneginf):
        far = far | (special(output) ^ special(expected))
    return far


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """The platform's rule: (passed, message), with its wording.

    Every value within rtol = atol = 0.1 of `ref_kernel`'s passes; so do outputs of the right shape of which
    at most 5 % are outside, with a warning. The literal two characters `\\n` separate a message's lines.
    """
    passed, message, _ = check_with_ratio(data, output)
    return passed, message


@torch.no_grad()
def check_with_ratio(data: input_t, output: output_t) -> tuple[bool, str, float | None]:
    """`check_implementation`, and the share of values outside the tolerance (NaN included; None: wrong shape)."""
    expected = ref_kernel(data)
    if output.shape != expected.shape:
        return False, "SIZE MISMATCH", None
    wrong = _strict_mismatches(output, expected)
    count = int(wrong.count_nonzero())
    ratio = ((~torch.isclose(output, expected, rtol=RTOL, atol=ATOL)).sum() / output.numel()).item()
    if count == 0:
        return True, f"Maximum error: {(output.float() - expected.float()).abs().max()}", ratio
    if ratio <= MISMATCH_RATIO:
        limits = f"(<= tol_err_ratio={MISMATCH_RATIO}) with rtol={RTOL}, atol={ATOL}"
        return True, f"warning: mismatch_ratio={ratio:.6f} {limits}", ratio
    lines = [f"Number of mismatched elements: {count}"]
    for index in wrong.nonzero()[:5]:
        where = tuple(index.tolist())
        lines.append(f"ERROR at {where}: {output[where]} {expected[where]}")
    if count > 5:
        lines.append(f"... and {count - 5} more mismatched elements.")
    return False, "\\n".join(lines), ratio
