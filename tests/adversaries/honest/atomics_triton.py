"""Adds its splits into a zeroed float32 buffer with atomics of Triton."""

import torch
import triton
import triton.language as tl

HONEST = {
    "looks_like": "scratch that is not initialised, and results that differ in the last bit",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


@triton.jit
def add_split(weights_ptr, kv_ptr, sums_ptr, length, tile: tl.constexpr):
    """sums (16, 512) += weights (16, length) times one tile of the values; one program per tile, float32."""
    heads, dims = tl.arange(0, 16), tl.arange(0, 512)
    tokens = tl.program_id(0) * tile + tl.arange(0, tile)
    inside = tokens < length
    weights = tl.load(weights_ptr + heads[:, None] * length + tokens[None, :], mask=inside[None, :], other=0.0)
    values = tl.load(kv_ptr + tokens[:, None] * 576 + dims[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    partial = tl.dot(weights, values, input_precision="ieee")
    tl.atomic_add(sums_ptr + heads[:, None] * 512 + dims[None, :], partial)


def custom_kernel(data):
    q, kv_data, _, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    sums = torch.zeros((q.shape[0], 16, 512), dtype=torch.float32, device=q.device)
    tokens, tile = kv_indptr.tolist(), 32 if q.is_cuda else 512
    for sequence in range(len(tokens) - 1):
        codes = kv[tokens[sequence] : tokens[sequence + 1], 0]
        scores = q[sequence].float() @ codes.float().T * (config["sm_scale"] * kv_scale)
        weights, length = torch.softmax(scores, dim=-1).contiguous(), codes.shape[0]
        if length:
            add_split[(triton.cdiv(length, tile),)](weights, codes, sums[sequence], length, tile=tile, num_stages=1)
    return (sums * kv_scale).bfloat16()
