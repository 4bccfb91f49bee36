"""Tries two tilings on its first call of a shape; each trial and the final run write the whole output."""

import torch
import triton
import triton.language as tl

HONEST = {
    "looks_like": "trial runs that fill holes of the output, and a slow first call",
    "needs": "cuda",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

CONFIGS = [triton.Config({"tile": tile}, num_warps=4, num_stages=1) for tile in (16, 32)]


@triton.autotune(configs=CONFIGS, key=["longest"])
@triton.jit
def decode(q_ptr, kv_ptr, scale_ptr, kv_indptr_ptr, out_ptr, sm_scale, longest, tile: tl.constexpr):
    """One program per sequence: all 16 heads over its keys in tiles; float32 throughout. longest: a key only."""
    sequence = tl.program_id(0)
    heads, nope, rope = tl.arange(0, 16), tl.arange(0, 512), tl.arange(0, 64) + 512
    q_rows = q_ptr + (sequence * 16 + heads)[:, None] * 576
    q_nope = tl.load(q_rows + nope[None, :]).to(tl.float32)
    q_rope = tl.load(q_rows + rope[None, :]).to(tl.float32)
    begin, end = tl.load(kv_indptr_ptr + sequence), tl.load(kv_indptr_ptr + sequence + 1)
    scale = tl.load(scale_ptr)
    peak = tl.full([16], float("-inf"), tl.float32)
    total = tl.zeros([16], tl.float32)
    partial = tl.zeros([16, 512], tl.float32)
    for start in range(begin, end, tile):
        tokens = start + tl.arange(0, tile)
        inside = tokens < end
        kv_rows = kv_ptr + tokens[:, None] * 576
        k_nope = tl.load(kv_rows + nope[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        k_rope = tl.load(kv_rows + rope[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        scores = tl.dot(q_nope, tl.trans(k_nope), input_precision="ieee")
        scores = tl.dot(q_rope, tl.trans(k_rope), scores, input_precision="ieee")
        scores = tl.where(inside[None, :], scores * (scale * sm_scale), float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.exp(scores - new_peak[:, None])
        fade = tl.exp(peak - new_peak)
        total = total * fade + tl.sum(weights, 1)
        partial = tl.dot(weights, k_nope, partial * fade[:, None], input_precision="ieee")
        peak = new_peak
    result = partial * (scale / tl.where(total > 0, total, 1.0))[:, None]
    tl.store(out_ptr + (sequence * 16 + heads)[:, None] * 512 + nope[None, :], result.to(tl.bfloat16))


def custom_kernel(data):
    q, kv_data, _, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    decode[(q.shape[0],)](q, kv, kv_scale, kv_indptr, out, config["sm_scale"], config["kv_seq_len"])
    return out
