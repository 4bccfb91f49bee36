#!POPCORN leaderboard amd-mixed-mla
#!POPCORN gpu MI355X
"""FP8 split-KV decode in Triton for 32 sequences of 1024 keys.

Stage 1: one program per (sequence, split) walks its share of the keys in tiles, with an online softmax. Scores are
computed transposed, tokens as rows: the tokens then spread over the warps, while with the 16 heads as rows every warp
would repeat the same rows (on gfx950 that costs twice the matrix instructions, and spills at 128 tokens).
A tile of KV is read once: all 576 dims serve as keys, and the first 512 of the same tile as values.
Stage 2: the splits of a head are merged one after another by their log-sum-exp.

Rounding: q is split into two e4m3 terms with a power-of-two scale for each head, which is exact; softmax weights go to
e4m3 as multiples of 2^-8 of the running maximum; sums in float32; partial results in float16, in units of the stored
KV (at most 448). Relative error against the attention of the same FP8 KV: about 0.02, from the weights; with q in one
term it was 0.031, and 0.05 in the worst head of a short sequence. Takes q_seq_len 1 and ragged kv_indptr.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

VARIANT = {
    "shapes": ["32x1024"],
    "targets": ["gfx950", "sm_90"],
    "kv": "fp8",
    "rounding": "fp8",
    "q_seq_len": [1],
    "ragged": True,
    "triton": ">=3.5",
}

HEADS = tl.constexpr(16)
NOPE = tl.constexpr(512)  # key dims that are values too
ROPE = tl.constexpr(64)  # key dims behind them
ROW = tl.constexpr(576)  # bytes of one token's FP8 row
LSE_FLOOR = tl.constexpr(-1e30)  # stands for minus infinity where a difference is taken; no keys then give zeros
LN2 = tl.constexpr(0.6931471805599453)
LOG2E = 1.4426950408889634

# The largest weight of a tile becomes 2^8, below e4m3's 448: weights down to 2^-18 = 4e-6 of it stay above zero.
WEIGHT_BITS = tl.constexpr(8.0)


class SplitPlan(NamedTuple):
    """How the work is cut.

    splits: parts of each sequence, a power of two. tile: tokens a step of stage 1. warps, stages: Triton's num_warps
    and num_stages of stage 1. merge_dims: output dims of one program of stage 2. merge_warps: its num_warps.
    """

    splits: int
    tile: int
    warps: int
    stages: int
    merge_dims: int
    merge_warps: int


PLANS_32X1024 = {
    # 8 splits of one 128-token tile: 256 programs, one for each compute unit of gfx950.
    # Tiles of 128 tokens, 8 warps: the largest without a spill on gfx950 (256 tokens spill 100 registers).
    # Merge: 256 dims by one warp.
    "gfx950": SplitPlan(splits=8, tile=128, warps=8, stages=2, merge_dims=256, merge_warps=1),
    "sm_90": SplitPlan(splits=4, tile=64, warps=4, stages=3, merge_dims=256, merge_warps=1),
}


@triton.jit
def power_of_two_gain(nope, rope):
    """For each head, the power of two that brings its largest value into [128, 256), and its inverse.

    nope: (HEADS, NOPE) float32. rope: (HEADS, ROPE) float32. Nothing is clipped at e4m3's 448 and small queries keep
    their digits. Below 2^-100 the gain stays, so an all-zero head is finite; scores from there are zero.
    """
    largest = tl.maximum(tl.max(tl.abs(nope), 1), tl.max(tl.abs(rope), 1))
    exponent = tl.maximum(largest.to(tl.int32, bitcast=True) >> 23, 27)
    gain = ((261 - exponent) << 23).to(tl.float32, bitcast=True)
    undo = ((exponent - 7) << 23).to(tl.float32, bitcast=True)
    return gain, undo


@triton.jit
def split_in_two(values, gain):
    """Two e4m3 terms, transposed, whose sum is values · gain.

    values: (HEADS, dims) float32 with bfloat16's 8 significant bits. The first term keeps the leading 4 of them and
    the second the other 4, so the sum is exact down to 2^-10 of the head's largest value, and off by 2^-17 below.
    """
    scaled = values * gain[:, None]
    high = (scaled.to(tl.int32, bitcast=True) & -1048576).to(tl.float32, bitcast=True)
    return tl.trans(high.to(tl.float8e4nv)), tl.trans((scaled - high).to(tl.float8e4nv))


@triton.jit
def attend_split_fp8(
    q_ptr, kv_ptr, kv_scale_ptr, kv_indptr_ptr, partial_ptr, lse_ptr, score_scale,
    SPLITS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Attention of one sequence's query to one split of its keys.

    q: (batch, HEADS, ROW) bfloat16. kv: (total_kv, ROW) e4m3. kv_scale: (1,) float32. kv_indptr: (batch + 1,) int32.
    partial: (batch, SPLITS, HEADS, NOPE) float16, normalised. lse: (batch, SPLITS, HEADS) float32, natural logarithm,
    minus infinity where the split holds no key. score_scale: sm_scale · log2(e). Grid: (batch, SPLITS).
    """
    sequence = tl.program_id(0)
    split = tl.program_id(1)
    begin = tl.load(kv_indptr_ptr + sequence)
    length = tl.load(kv_indptr_ptr + sequence + 1) - begin
    share = tl.cdiv(tl.cdiv(length, SPLITS), TILE) * TILE
    first = split * share
    count = tl.minimum(share, length - first)

    heads = tl.arange(0, HEADS)
    nope_dims = tl.arange(0, NOPE)
    rope_dims = tl.arange(0, ROPE)
    tokens = tl.arange(0, TILE)
    q_rows = q_ptr + (sequence * HEADS + heads)[:, None] * ROW
    q_nope = tl.load(q_rows + nope_dims[None, :]).to(tl.float32)
    q_rope = tl.load(q_rows + NOPE + rope_dims[None, :]).to(tl.float32)
    gain, undo = power_of_two_gain(q_nope, q_rope)
    q_nope_high, q_nope_low = split_in_two(q_nope, gain)
    q_rope_high, q_rope_low = split_in_two(q_rope, gain)
    to_log2 = undo * tl.load(kv_scale_ptr) * score_scale

    peak = tl.full([HEADS], float("-inf"), tl.float32)
    total = tl.zeros([HEADS], tl.float32)
    sums = tl.zeros([NOPE, HEADS], tl.float32)
    kv_rows = kv_ptr + (begin + first).to(tl.int64) * ROW
    for start in range(0, count, TILE):
        inside = start + tokens < count
        tile = kv_rows + (start + tokens)[:, None] * ROW
        nope = tl.load(tile + nope_dims[None, :], mask=inside[:, None], other=0.0)
        rope = tl.load(tile + NOPE + rope_dims[None, :], mask=inside[:, None], other=0.0)
        scores = tl.dot(nope, q_nope_high)
        scores = tl.dot(nope, q_nope_low, scores)
        scores = tl.dot(rope, q_rope_high, scores)
        scores = tl.dot(rope, q_rope_low, scores)
        scores = tl.where(inside[:, None], scores * to_log2[None, :], float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 0))
        weights = tl.exp2(scores - (new_peak - WEIGHT_BITS)[None, :]).to(tl.float8e4nv)
        fade = tl.exp2(peak - new_peak)
        # The rounded weights are summed, so that numerator and denominator round alike.
        total = total * fade + tl.sum(weights.to(tl.float32), 0)
        sums = tl.dot(tl.trans(nope), weights, sums * fade[None, :])
        peak = new_peak

    some = total > 0
    normal = sums * (1.0 / tl.where(some, total, 1.0))[None, :]
    lse = (peak - WEIGHT_BITS + tl.log2(tl.where(some, total, 1.0))) * LN2
    part = (sequence * SPLITS + split) * HEADS + heads
    tl.store(partial_ptr + part[None, :] * NOPE + nope_dims[:, None], normal.to(tl.float16))
    tl.store(lse_ptr + part, tl.where(some, lse, float("-inf")))


@triton.jit
def merge_splits_in_series(
    partial_ptr, lse_ptr, kv_scale_ptr, out_ptr,
    SPLITS: tl.constexpr, DIMS: tl.constexpr,
):  # fmt: skip
    """One head's output: the splits one after another, with a running maximum of their lse.

    Shapes as in stage 1; out: (batch, HEADS, NOPE) bfloat16. Grid: (batch, HEADS, NOPE / DIMS).
    """
    sequence = tl.program_id(0)
    head = tl.program_id(1)
    dims = tl.program_id(2) * DIMS + tl.arange(0, DIMS)
    part = sequence * SPLITS * HEADS + head
    peak = LSE_FLOOR
    total = 0.0
    merged = tl.zeros([DIMS], tl.float32)
    for split in tl.static_range(SPLITS):
        lse = tl.load(lse_ptr + part + split * HEADS)
        partial = tl.load(partial_ptr + (part + split * HEADS) * NOPE + dims).to(tl.float32)
        new_peak = tl.maximum(peak, lse)
        fade = tl.exp(peak - new_peak)
        weight = tl.exp(lse - new_peak)
        merged = merged * fade + partial * weight
        total = total * fade + weight
        peak = new_peak
    merged = merged * (tl.load(kv_scale_ptr) / tl.where(total > 0, total, 1.0))
    tl.store(out_ptr + (sequence * HEADS + head) * NOPE + dims, merged.to(tl.bfloat16))


def split_plan(q: torch.Tensor, plans: dict[str, SplitPlan]) -> SplitPlan:
    """The plan of the device that holds q; a CPU (Triton's interpreter) runs the leaderboard's."""
    return plans["sm_90" if q.is_cuda and torch.version.hip is None else "gfx950"]


def check_fixed_shape(data, kv_seq_len: int) -> None:
    """Raise ValueError, naming what came, unless `data` is one query a sequence with this kv_seq_len and FP8 KV."""
    q, kv_data, _, kv_indptr, config = data
    kv = kv_data["fp8"][0]
    came = (config["q_seq_len"], config["kv_seq_len"], tuple(q.shape), q.dtype, tuple(kv.shape[1:]), kv.dtype)
    batch = kv_indptr.shape[0] - 1
    taken = (1, kv_seq_len, (batch, 16, 576), torch.bfloat16, (1, 576), torch.float8_e4m3fn)
    if came != taken or config["v_head_dim"] != 512:
        names = ("q_seq_len", "kv_seq_len", "q shape", "q dtype", "fp8 KV row", "fp8 KV dtype")
        wrong = [f"{n} {c} (takes {t})" for n, c, t in zip(names, came, taken, strict=True) if c != t]
        wrong = wrong or [f"v_head_dim {config['v_head_dim']} (takes 512)"]
        raise ValueError("this variant does not take the input: " + ", ".join(wrong) + "; use the portable variant")


def decode_fp8_in_series(data, plan: SplitPlan) -> torch.Tensor:
    """Both stages on the current device, without a synchronisation; scratch and output are new in every call.

    q: (batch, 16, 576) bfloat16. kv_data["fp8"]: (total_kv, 1, 576) e4m3 and (1,) float32. kv_indptr: (batch + 1,)
    int32. Returns (batch, 16, 512) bfloat16.
    """
    q, kv_data, _, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    q, kv, kv_indptr = q.contiguous(), kv.contiguous(), kv_indptr.contiguous()
    batch = q.shape[0]
    partial = torch.empty((batch, plan.splits, 16, 512), dtype=torch.float16, device=q.device)
    lse = torch.empty((batch, plan.splits, 16), dtype=torch.float32, device=q.device)
    out = torch.empty((batch, 16, 512), dtype=torch.bfloat16, device=q.device)
    attend_split_fp8[(batch, plan.splits)](
        q, kv, kv_scale, kv_indptr, partial, lse, config["sm_scale"] * LOG2E,
        SPLITS=plan.splits, TILE=plan.tile, num_warps=plan.warps, num_stages=plan.stages,
    )  # fmt: skip
    merge_splits_in_series[(batch, 16, 512 // plan.merge_dims)](
        partial, lse, kv_scale, out,
        SPLITS=plan.splits, DIMS=plan.merge_dims, num_warps=plan.merge_warps,
    )  # fmt: skip
    return out


def custom_kernel(data):
    """MLA decode of 32x1024: (q, kv_data, qo_indptr, kv_indptr, config) to (batch, 16, 512) bfloat16.

    Takes any batch of sequences of any length from 1 with config["kv_seq_len"] == 1024. Raises ValueError otherwise.
    """
    check_fixed_shape(data, kv_seq_len=1024)
    return decode_fp8_in_series(data, split_plan(data[0], PLANS_32X1024))
