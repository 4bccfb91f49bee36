#!POPCORN leaderboard amd-mixed-mla
#!POPCORN gpu MI355X
"""FP8 split-KV decode in Triton for gfx950 that reads each KV byte once, for any batch and length.

Stage 1: one program per (sequence, split). A tile of tokens is loaded once, all 576 dims as keys, and the first 512 of
the same tile, transposed, as values. Scores are computed with the tokens as rows, so that the tile is the large operand
of the matrix instruction. Stage 2: the splits of a head are merged by their log-sum-exp; left out without a split.

What gfx950 asks for, read from the code that Triton 3.6 makes for it (times there are not known):
- The matrix instruction takes 128 dims at once, and the rope part has 64. Its tile is laid beside itself and meets the
  two terms of q there, one behind the other: one instruction instead of eight smaller ones.
- The tile's address is a scalar that moves on and a constant offset for each lane, which lets Triton use buffer loads:
  the mask costs a select, not a branch around each load.
- The sum of the weights stays per token until the end: a sum over the tokens in each step costs 26 lane shuffles.
- Programs are dealt to the 8 XCDs in turn, each with an L2 of its own. All programs of a sequence, in both stages, get
  numbers that lead to the same XCD, so that the merge finds the partial results in its L2.
- 128 tokens and 4 warps: one wave a SIMD with more than 256 registers, one program for each of the 256 compute units,
  and a tile of 72 KB on its way while the one before is worked on.

Rounding: q is split into two e4m3 terms with a power-of-two scale for each head, which is exact; softmax weights go to
e4m3 as multiples of 2^-8 of the running maximum; sums in float32; partial results in float16, in units of the stored
KV (at most 448). Relative error against the attention of the same FP8 KV: about 0.02, from the weights.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

VARIANT = {
    "shapes": "any",
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
XCDS = tl.constexpr(8)  # accelerator dies of an MI355X, to which programs are dealt in turn

# The largest weight of a tile becomes 2^8, below e4m3's 448: weights down to 2^-18 = 4e-6 of it stay above zero.
WEIGHT_BITS = tl.constexpr(8.0)


class OnePassPlan(NamedTuple):
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


# By batch size x KV length: 256 programs where the tokens suffice, one for each compute unit. None timed on gfx950.
ONE_PASS_PLANS = {
    "4x1024": OnePassPlan(splits=16, tile=64, warps=8, stages=2, merge_dims=128, merge_warps=1),
    "4x8192": OnePassPlan(splits=64, tile=128, warps=4, stages=2, merge_dims=128, merge_warps=4),
    "32x1024": OnePassPlan(splits=8, tile=128, warps=4, stages=2, merge_dims=256, merge_warps=1),
    "32x8192": OnePassPlan(splits=8, tile=128, warps=4, stages=2, merge_dims=256, merge_warps=1),
    "64x1024": OnePassPlan(splits=4, tile=128, warps=4, stages=2, merge_dims=512, merge_warps=1),
    "64x8192": OnePassPlan(splits=4, tile=128, warps=4, stages=2, merge_dims=512, merge_warps=1),
    "256x1024": OnePassPlan(splits=1, tile=128, warps=4, stages=2, merge_dims=512, merge_warps=1),
    "256x8192": OnePassPlan(splits=1, tile=128, warps=4, stages=2, merge_dims=512, merge_warps=1),
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
def placed_on_xcd(program, PARTS: tl.constexpr, XCDS_EACH: tl.constexpr):
    """The sequence and the part of a program, so that all PARTS of a sequence have numbers of one XCD.

    XCDS_EACH: over how many XCDs a sequence's parts are spread, 8 / batch where there are fewer sequences than XCDs;
    0 where the batch does not fit the XCDs and programs are numbered plainly.
    """
    if XCDS_EACH == 0:
        return program // PARTS, program % PARTS
    else:
        xcd = program % XCDS
        turn = program // XCDS
        if XCDS_EACH == 1:
            return turn // PARTS * XCDS + xcd, turn % PARTS
        else:
            return xcd // XCDS_EACH, turn * XCDS_EACH + xcd % XCDS_EACH


@triton.jit
def attend_once_fp8(
    q_ptr, kv_ptr, kv_scale_ptr, kv_indptr_ptr, partial_ptr, lse_ptr, out_ptr, score_scale,
    SPLITS: tl.constexpr, TILE: tl.constexpr, XCDS_EACH: tl.constexpr,
):  # fmt: skip
    """Attention of one sequence's query to one split of its keys.

    q: (batch, HEADS, ROW) bfloat16. kv: (total_kv, ROW) e4m3. kv_scale: (1,) float32. kv_indptr: (batch + 1,) int32.
    partial: (batch, SPLITS, HEADS, NOPE) float16, normalised. lse: (batch, SPLITS, HEADS) float32, natural logarithm,
    minus infinity where the split holds no key. out: (batch, HEADS, NOPE) bfloat16, written here for one split only.
    score_scale: sm_scale · log2(e). Grid: (batch · SPLITS).
    """
    sequence, split = placed_on_xcd(tl.program_id(0), SPLITS, XCDS_EACH)
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
    nope_high, nope_low = split_in_two(q_nope, gain)
    rope_high, rope_low = split_in_two(q_rope, gain)
    # (2 · ROPE, HEADS): the high terms of the 64 rope dims, and behind them the low ones.
    rope_terms = tl.reshape(tl.permute(tl.join(rope_high, rope_low), (2, 0, 1)), (2 * ROPE, HEADS))
    kv_scale = tl.load(kv_scale_ptr)
    to_log2 = undo * kv_scale * score_scale

    peak = tl.full([HEADS], float("-inf"), tl.float32)
    totals = tl.zeros([TILE, HEADS], tl.float32)
    sums = tl.zeros([NOPE, HEADS], tl.float32)
    tile = kv_ptr + (begin + first).to(tl.int64) * ROW
    rows = tokens[:, None] * ROW
    for start in range(0, count, TILE):
        inside = tokens < count - start
        nope = tl.load(tile + (rows + nope_dims[None, :]), mask=inside[:, None], other=0.0)
        rope = tl.load(tile + (rows + NOPE + rope_dims[None, :]), mask=inside[:, None], other=0.0)
        rope_twice = tl.reshape(tl.permute(tl.join(rope, rope), (0, 2, 1)), (TILE, 2 * ROPE))
        scores = tl.dot(nope, nope_high)
        scores = tl.dot(nope, nope_low, scores)
        scores = tl.dot(rope_twice, rope_terms, scores)
        scores = tl.where(inside[:, None], scores * to_log2[None, :], float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 0))
        weights = tl.exp2(scores - (new_peak - WEIGHT_BITS)[None, :]).to(tl.float8e4nv)
        fade = tl.exp2(peak - new_peak)[None, :]
        # The rounded weights are summed, so that numerator and denominator round alike.
        totals = totals * fade + weights.to(tl.float32)
        # Hopper adds e4m3 products in few bits, so it goes over to float32 after so many; gfx950 has float32 at once.
        sums = tl.dot(tl.trans(nope), weights, sums * fade, max_num_imprecise_acc=32)
        peak = new_peak
        tile += TILE * ROW

    total = tl.sum(totals, 0)
    some = total > 0
    normal = 1.0 / tl.where(some, total, 1.0)
    if SPLITS == 1:
        values = tl.trans(sums * (normal * kv_scale)[None, :])
        target = out_ptr + (sequence.to(tl.int64) * HEADS + heads)[:, None] * NOPE + nope_dims[None, :]
        tl.store(target, values.to(tl.bfloat16))
    else:
        slot = (sequence.to(tl.int64) * SPLITS + split) * HEADS + heads
        values = tl.trans(sums * normal[None, :])
        tl.store(partial_ptr + slot[:, None] * NOPE + nope_dims[None, :], values.to(tl.float16))
        lse = (peak - WEIGHT_BITS + tl.log2(tl.where(some, total, 1.0))) * LN2
        tl.store(lse_ptr + slot, tl.where(some, lse, float("-inf")))


@triton.jit
def merge_on_xcd_fp8(
    partial_ptr, lse_ptr, kv_scale_ptr, out_ptr,
    SPLITS: tl.constexpr, DIMS: tl.constexpr, XCDS_EACH: tl.constexpr,
):  # fmt: skip
    """DIMS of one head's output: all splits loaded together, weighted by exp(lse) and summed.

    Shapes as in stage 1. Grid: (batch · HEADS · NOPE / DIMS).
    """
    pieces: tl.constexpr = NOPE // DIMS
    sequence, part = placed_on_xcd(tl.program_id(0), HEADS * pieces, XCDS_EACH)
    head = part // pieces
    dims = part % pieces * DIMS + tl.arange(0, DIMS)
    slots = (sequence.to(tl.int64) * SPLITS + tl.arange(0, SPLITS)) * HEADS + head
    lse = tl.load(lse_ptr + slots)
    partial = tl.load(partial_ptr + slots[:, None] * NOPE + dims[None, :]).to(tl.float32)
    weights = tl.exp(lse - tl.maximum(tl.max(lse, 0), LSE_FLOOR))
    total = tl.sum(weights, 0)
    merged = tl.sum(partial * weights[:, None], 0) * (tl.load(kv_scale_ptr) / tl.where(total > 0, total, 1.0))
    tl.store(out_ptr + (sequence.to(tl.int64) * HEADS + head) * NOPE + dims, merged.to(tl.bfloat16))


def xcds_for_each(batch: int, splits: int) -> int:
    """`placed_on_xcd`'s XCDS_EACH for so many sequences."""
    if batch % 8 == 0:
        return 1
    spread = 8 // batch
    return spread if 8 % batch == 0 and splits % spread == 0 else 0


def plan_of_shape(batch: int, kv_seq_len: int, plans: dict[str, OnePassPlan]) -> OnePassPlan:
    """The plan of a batch size and KV length; for those without one, as many splits as fill 256 compute units."""
    label = f"{batch}x{kv_seq_len}"
    if label in plans:
        return plans[label]
    tile = 128
    wanted = max(1, min(256 // max(batch, 1), -(-kv_seq_len // tile), 64))
    return OnePassPlan(1 << wanted.bit_length() - 1, tile, warps=4, stages=2, merge_dims=256, merge_warps=2)


def check_one_query(data, rows: torch.Tensor, row_size: int, row_type: torch.dtype) -> None:
    """Raise ValueError, naming what came, unless `data` is one query a sequence and `rows` its KV in this format."""
    q, _, _, kv_indptr, config = data
    batch = kv_indptr.shape[0] - 1
    came = (config["q_seq_len"], config["v_head_dim"], tuple(q.shape), q.dtype, tuple(rows.shape[1:]), rows.dtype)
    taken = (1, 512, (batch, 16, 576), torch.bfloat16, (1, row_size), row_type)
    names = ("q_seq_len", "v_head_dim", "q shape", "q dtype", "KV row", "KV dtype")
    wrong = [f"{n} {c} (takes {t})" for n, c, t in zip(names, came, taken, strict=True) if c != t]
    if wrong:
        raise ValueError("this variant does not take the input: " + ", ".join(wrong) + "; use the portable variant")


def decode_fp8_once(data, plan: OnePassPlan) -> torch.Tensor:
    """Both stages on the current device, without a synchronisation; scratch and output are new in every call.

    q: (batch, 16, 576) bfloat16. kv_data["fp8"]: (total_kv, 1, 576) e4m3 and (1,) float32. kv_indptr: (batch + 1,)
    int32. Returns (batch, 16, 512) bfloat16.
    """
    q, kv_data, _, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    q, kv, kv_indptr = q.contiguous(), kv.contiguous(), kv_indptr.contiguous()
    batch, splits = q.shape[0], plan.splits
    out = torch.empty((batch, 16, 512), dtype=torch.bfloat16, device=q.device)
    partial, lse = out, out
    if splits > 1:
        partial = torch.empty((batch, splits, 16, 512), dtype=torch.float16, device=q.device)
        lse = torch.empty((batch, splits, 16), dtype=torch.float32, device=q.device)
    attend_once_fp8[(batch * splits,)](
        q, kv, kv_scale, kv_indptr, partial, lse, out, config["sm_scale"] * LOG2E,
        SPLITS=splits, TILE=plan.tile, XCDS_EACH=xcds_for_each(batch, splits),
        num_warps=plan.warps, num_stages=plan.stages,
    )  # fmt: skip
    if splits > 1:
        parts = 16 * 512 // plan.merge_dims
        merge_on_xcd_fp8[(batch * parts,)](
            partial, lse, kv_scale, out,
            SPLITS=splits, DIMS=plan.merge_dims, XCDS_EACH=xcds_for_each(batch, parts), num_warps=plan.merge_warps,
        )  # fmt: skip
    return out


def custom_kernel(data):
    """MLA decode of one query a sequence: (q, kv_data, qo_indptr, kv_indptr, config) to (batch, 16, 512) bfloat16.

    Takes any batch of sequences of any length. Raises ValueError, naming what came, for another q_seq_len or type.
    """
    check_one_query(data, data[1]["fp8"][0], 576, torch.float8_e4m3fn)
    return decode_fp8_once(data, plan_of_shape(data[0].shape[0], data[4]["kv_seq_len"], ONE_PASS_PLANS))
