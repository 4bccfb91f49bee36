#!POPCORN leaderboard amd-mixed-mla
#!POPCORN gpu MI355X
"""MXFP4 split-KV decode in Triton for gfx950 that reads each KV byte once, for any batch and length.

Half the bytes of FP8: 306 a token. Stage 1: one program per (sequence, split); stage 2 merges the splits of a head by
their log-sum-exp, and is left out without a split.

Keys go to the scaled matrix instruction as they are, FP4 with a scale for each 32 dims, against q in e4m3: the product
is exact, and q is split into two e4m3 terms, which is exact too. The instruction takes 128 dims at once and the rope
part has 64: its tile is laid beside itself and meets the two terms of q there, one behind the other.
Values cannot go that way: their scales run along the dims, and the sum along the tokens. The same tile is read
transposed in 16-bit words of four dims; a shift, an arithmetic shift and a mask make each of the four a float16 number,
e2m1 times 2^-14, without a loss; a block's scale, relative to the token's largest, is multiplied in, and the token's
largest goes into its weight. So the float16 numbers stay in range whatever the scales are from token to token.
Four output sums, one for each dim of a word.

Loads, sums of weights, and the placing of programs on XCDs are as in fp8_one_pass.

Rounding: softmax weights to float16 (with the token's largest scale in them), sums in float32, partial results in
float16 with a power of two for each head. Scales from 2^-100 to 2^100. Relative error against the attention of the same
MXFP4 KV: 0.002, most of it the bfloat16 output. Against the bf16 KV the format itself costs 0.127 at 1024 keys and
0.072 at 8192.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

VARIANT = {
    "shapes": "any",
    "targets": ["gfx950", "sm_90"],
    "kv": "mxfp4",
    "rounding": "f16",
    "q_seq_len": [1],
    "ragged": True,
    "triton": ">=3.5",
}

HEADS = tl.constexpr(16)
NOPE = tl.constexpr(512)  # key dims that are values too
ROPE = tl.constexpr(64)  # key dims behind them
ROW = tl.constexpr(576)  # dims of a row of q
FP4_ROW = tl.constexpr(288)  # bytes of one token's packed row
NOPE_WORDS = tl.constexpr(128)  # 16-bit words, four dims each, of the nope part
NOPE_BLOCKS = tl.constexpr(16)  # scale blocks of 32 dims of the nope part; the rope part has two more
ROPE_BYTES = tl.constexpr(32)
LSE_FLOOR = tl.constexpr(-1e30)  # stands for minus infinity where a difference is taken; no keys then give zeros
LN2 = tl.constexpr(0.6931471805599453)
LOG2E = 1.4426950408889634
XCDS = tl.constexpr(8)  # accelerator dies of an MI355X, to which programs are dealt in turn
LEAST_SCALE = tl.constexpr(27)  # e8m0 code of 2^-100, under which a token's values count as zero


class Fp4Plan(NamedTuple):
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
FP4_PLANS = {
    "4x1024": Fp4Plan(splits=16, tile=64, warps=4, stages=2, merge_dims=128, merge_warps=1),
    "4x8192": Fp4Plan(splits=64, tile=128, warps=4, stages=2, merge_dims=128, merge_warps=4),
    "32x1024": Fp4Plan(splits=8, tile=128, warps=4, stages=2, merge_dims=256, merge_warps=1),
    "32x8192": Fp4Plan(splits=8, tile=128, warps=4, stages=2, merge_dims=256, merge_warps=1),
    "64x1024": Fp4Plan(splits=4, tile=128, warps=4, stages=2, merge_dims=512, merge_warps=1),
    "64x8192": Fp4Plan(splits=4, tile=128, warps=4, stages=2, merge_dims=512, merge_warps=1),
    "256x1024": Fp4Plan(splits=1, tile=128, warps=4, stages=2, merge_dims=512, merge_warps=1),
    "256x8192": Fp4Plan(splits=1, tile=128, warps=4, stages=2, merge_dims=512, merge_warps=1),
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
def unpack_nibble(words, LEFT: tl.constexpr):
    """One e2m1 number of each int16 word as float16, 2^-14 times as large; LEFT: 12 − its first bit.

    The sign goes to float16's, the three bits behind it to the exponent's end and the mantissa's top; subnormal
    numbers included.
    """
    return (((words << LEFT) >> 3) & -29184).to(tl.float16, bitcast=True)  # 0x8E00


@triton.jit
def attend_once_mxfp4(
    q_ptr, kv_ptr, scale_ptr, kv_indptr_ptr, partial_ptr, unit_ptr, lse_ptr, out_ptr, score_scale,
    SPLITS: tl.constexpr, TILE: tl.constexpr, SCALE_ROW: tl.constexpr, XCDS_EACH: tl.constexpr,
):  # fmt: skip
    """Attention of one sequence's query to one split of its keys.

    q: (batch, HEADS, ROW) bfloat16. kv: (total_kv, FP4_ROW) uint8, two e2m1 each, the low half first. scale:
    (total_kv, SCALE_ROW) e8m0 as uint8, the first 18 of a row used. kv_indptr: (batch + 1,) int32. partial: (batch,
    SPLITS, HEADS, NOPE) float16, normalised, in units of unit: (batch, SPLITS, HEADS) float32, powers of two. lse: as
    unit, natural logarithm, minus infinity where the split holds no key. out: (batch, HEADS, NOPE) bfloat16, written
    here for one split only. score_scale: sm_scale · log2(e). Grid: (batch · SPLITS).
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
    to_log2 = undo * score_scale

    # Of score · log2(e) + the token's largest scale exponent: what a token's float16 values are to be multiplied by.
    peak = tl.full([HEADS], float("-inf"), tl.float32)
    totals = tl.zeros([TILE, HEADS], tl.float32)
    sums_0 = tl.zeros([NOPE_WORDS, HEADS], tl.float32)
    sums_1 = tl.zeros([NOPE_WORDS, HEADS], tl.float32)
    sums_2 = tl.zeros([NOPE_WORDS, HEADS], tl.float32)
    sums_3 = tl.zeros([NOPE_WORDS, HEADS], tl.float32)
    words = tl.arange(0, NOPE_WORDS)
    blocks = tl.arange(0, NOPE_BLOCKS)
    rope_bytes = tl.arange(0, ROPE_BYTES)
    tile = kv_ptr + (begin + first).to(tl.int64) * FP4_ROW
    scales = scale_ptr + (begin + first).to(tl.int64) * SCALE_ROW
    for start in range(0, count, TILE):
        inside = tokens < count - start
        row_words = tokens[:, None] * (FP4_ROW // 2) + words[None, :]
        nope = tl.load(tile.to(tl.pointer_type(tl.int16)) + row_words, mask=inside[:, None], other=0)
        row_rope = tokens[:, None] * FP4_ROW + rope_bytes[None, :] + NOPE // 2
        rope = tl.load(tile + row_rope, mask=inside[:, None], other=0)
        nope_scales = tl.load(scales + (tokens[:, None] * SCALE_ROW + blocks[None, :]), mask=inside[:, None], other=0)
        row_pair = tokens * (SCALE_ROW // 2) + NOPE_BLOCKS // 2
        scale_pair = tl.load(scales.to(tl.pointer_type(tl.int16)) + row_pair, mask=inside, other=0)

        nope_bytes = tl.reshape(tl.join((nope & 255).to(tl.uint8), (nope >> 8).to(tl.uint8)), (TILE, NOPE // 2))
        rope_scales = tl.join((scale_pair & 255).to(tl.uint8), (scale_pair >> 8).to(tl.uint8))
        rope_twice = tl.reshape(tl.permute(tl.join(rope, rope), (0, 2, 1)), (TILE, ROPE))
        rope_scales_twice = tl.reshape(tl.permute(tl.join(rope_scales, rope_scales), (0, 2, 1)), (TILE, 4))
        scores = tl.dot_scaled(nope_bytes, nope_scales, "e2m1", nope_high, None, "e4m3")
        scores = tl.dot_scaled(nope_bytes, nope_scales, "e2m1", nope_low, None, "e4m3", scores)
        scores = tl.dot_scaled(rope_twice, rope_scales_twice, "e2m1", rope_terms, None, "e4m3", scores)

        codes = nope_scales.to(tl.int32)
        largest = tl.maximum(tl.max(codes, 1), LEAST_SCALE)
        exponent = (largest - 127).to(tl.float32)[:, None]
        raised = tl.where(inside[:, None], scores * to_log2[None, :] + exponent, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(raised, 0))
        weights = tl.exp2(raised - new_peak[None, :]).to(tl.float16)
        fade = tl.exp2(peak - new_peak)[None, :]
        totals = totals * fade + tl.exp2(raised - (new_peak[None, :] + exponent))
        peak = new_peak

        # 2^14 for unpack_nibble's numbers, and a block's scale relative to the token's largest.
        factor = (tl.maximum(29 + codes - largest[:, None], 0) << 10).to(tl.int16).to(tl.float16, bitcast=True)
        factor = tl.broadcast_to(tl.trans(factor)[:, None, :], (NOPE_BLOCKS, NOPE_WORDS // NOPE_BLOCKS, TILE))
        factor = tl.reshape(factor, (NOPE_WORDS, TILE))
        values = tl.trans(nope)
        sums_0 = tl.dot(unpack_nibble(values, 12) * factor, weights, sums_0 * fade)
        sums_1 = tl.dot(unpack_nibble(values, 8) * factor, weights, sums_1 * fade)
        sums_2 = tl.dot(unpack_nibble(values, 4) * factor, weights, sums_2 * fade)
        sums_3 = tl.dot(unpack_nibble(values, 0) * factor, weights, sums_3 * fade)
        tile += TILE * FP4_ROW
        scales += TILE * SCALE_ROW

    total = tl.sum(totals, 0)
    some = total > 0
    normal = 1.0 / tl.where(some, total, 1.0)
    even = tl.join(tl.trans(sums_0 * normal[None, :]), tl.trans(sums_2 * normal[None, :]))
    odd = tl.join(tl.trans(sums_1 * normal[None, :]), tl.trans(sums_3 * normal[None, :]))
    result = tl.reshape(tl.join(even, odd), (HEADS, NOPE))
    if SPLITS == 1:
        target = out_ptr + (sequence.to(tl.int64) * HEADS + heads)[:, None] * NOPE + nope_dims[None, :]
        tl.store(target, result.to(tl.bfloat16))
    else:
        slot = (sequence.to(tl.int64) * SPLITS + split) * HEADS + heads
        to_unit, unit = power_of_two_unit(tl.max(tl.abs(result), 1))
        tl.store(partial_ptr + slot[:, None] * NOPE + nope_dims[None, :], (result * to_unit[:, None]).to(tl.float16))
        tl.store(unit_ptr + slot, unit)
        lse = (peak + tl.log2(tl.where(some, total, 1.0))) * LN2
        tl.store(lse_ptr + slot, tl.where(some, lse, float("-inf")))


@triton.jit
def power_of_two_unit(largest):
    """For each head, the power of two that brings `largest` into [128, 256), and its inverse. largest: (HEADS,)."""
    exponent = tl.maximum(largest.to(tl.int32, bitcast=True) >> 23, 27)
    return ((261 - exponent) << 23).to(tl.float32, bitcast=True), ((exponent - 7) << 23).to(tl.float32, bitcast=True)


@triton.jit
def merge_on_xcd_mxfp4(
    partial_ptr, unit_ptr, lse_ptr, out_ptr,
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
    weights = weights * tl.load(unit_ptr + slots) / tl.where(total > 0, total, 1.0)
    merged = tl.sum(partial * weights[:, None], 0)
    tl.store(out_ptr + (sequence.to(tl.int64) * HEADS + head) * NOPE + dims, merged.to(tl.bfloat16))


def xcds_for_each(batch: int, splits: int) -> int:
    """`placed_on_xcd`'s XCDS_EACH for so many sequences."""
    if batch % 8 == 0:
        return 1
    spread = 8 // batch
    return spread if 8 % batch == 0 and splits % spread == 0 else 0


def plan_of_shape(batch: int, kv_seq_len: int, plans: dict[str, Fp4Plan]) -> Fp4Plan:
    """The plan of a batch size and KV length; for those without one, as many splits as fill 256 compute units."""
    label = f"{batch}x{kv_seq_len}"
    if label in plans:
        return plans[label]
    tile = 128
    wanted = max(1, min(256 // max(batch, 1), -(-kv_seq_len // tile), 64))
    return Fp4Plan(1 << wanted.bit_length() - 1, tile, warps=4, stages=2, merge_dims=256, merge_warps=2)


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


def scale_rows(scales: torch.Tensor) -> torch.Tensor:
    """The e8m0 scales as (rows, columns) uint8 with rows that begin at even addresses; a view where they do."""
    rows = scales.view(torch.uint8)
    if rows.stride(1) != 1 or rows.stride(0) % 2 or rows.data_ptr() % 2:
        rows = torch.nn.functional.pad(rows, (0, rows.shape[1] % 2))
    return rows


def decode_mxfp4_once(data, plan: Fp4Plan) -> torch.Tensor:
    """Both stages on the current device, without a synchronisation; scratch and output are new in every call.

    q: (batch, 16, 576) bfloat16. kv_data["mxfp4"]: (total_kv, 1, 288) of two e2m1 a byte, and (≥ total_kv, ≥ 18) e8m0
    scales. kv_indptr: (batch + 1,) int32. Returns (batch, 16, 512) bfloat16.
    """
    q, kv_data, _, kv_indptr, config = data
    kv, scales = kv_data["mxfp4"]
    q, kv, kv_indptr = q.contiguous(), kv.contiguous().view(torch.uint8), kv_indptr.contiguous()
    if kv.data_ptr() % 2:
        kv = kv.clone()
    scales = scale_rows(scales)
    batch, splits = q.shape[0], plan.splits
    out = torch.empty((batch, 16, 512), dtype=torch.bfloat16, device=q.device)
    partial, unit, lse = out, out, out
    if splits > 1:
        partial = torch.empty((batch, splits, 16, 512), dtype=torch.float16, device=q.device)
        unit, lse = torch.empty((2, batch, splits, 16), dtype=torch.float32, device=q.device)
    attend_once_mxfp4[(batch * splits,)](
        q, kv, scales, kv_indptr, partial, unit, lse, out, config["sm_scale"] * LOG2E,
        SPLITS=splits, TILE=plan.tile, SCALE_ROW=scales.stride(0), XCDS_EACH=xcds_for_each(batch, splits),
        num_warps=plan.warps, num_stages=plan.stages,
    )  # fmt: skip
    if splits > 1:
        parts = 16 * 512 // plan.merge_dims
        merge_on_xcd_mxfp4[(batch * parts,)](
            partial, unit, lse, out,
            SPLITS=splits, DIMS=plan.merge_dims, XCDS_EACH=xcds_for_each(batch, parts), num_warps=plan.merge_warps,
        )  # fmt: skip
    return out


def custom_kernel(data):
    """MLA decode of one query a sequence: (q, kv_data, qo_indptr, kv_indptr, config) to (batch, 16, 512) bfloat16.

    Takes any batch of sequences of any length. Raises ValueError, naming what came, for another q_seq_len or type.
    """
    check_one_query(data, data[1]["mxfp4"][0].view(torch.uint8), 288, torch.uint8)
    return decode_mxfp4_once(data, plan_of_shape(data[0].shape[0], data[4]["kv_seq_len"], FP4_PLANS))
