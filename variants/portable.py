#!POPCORN leaderboard amd-mixed-mla
#!POPCORN gpu MI355X
"""Split-KV decode in Triton that is right for any valid input, on any device that Triton compiles for.

It takes ragged kv_indptr and qo_indptr, any number of queries a sequence (causal, the last query sees all keys), any
batch and any KV length, in e4m3fn or e4m3fnuz. A query that sees no key gets zeros.

Stage 1: one program per (query, split). The FP8 KV is read as 16-bit pairs of neighbouring dims. That type has
transposed loads from shared memory where 8 bits have none, and a register of pairs splits into the even and the odd
dims as float16 without a loss (4 significant bits, exponents inside float16's). Even and odd dims then have dot
products and output sums of their own. Scores are computed transposed, with the tokens as rows, which makes the tile
the large operand of the matrix instruction (wgmma on Hopper) and the 16 heads the small one.
A tile is read once: all 576 dims serve as keys, and the first 512 of the same tile as values. Those 512 are handled in
two or four parts, one after the other: fewer registers live at once.
Stage 2: the splits of a head are merged by their log-sum-exp; left out where a sequence is not split.

Rounding: softmax weights and partial results to float16, sums in float32; q is exact in float16 after a power-of-two
scale for each head. Relative error against the attention of the same FP8 KV: 0.002, most of it the bfloat16 output.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

VARIANT = {
    "shapes": "any",
    "targets": ["portable", "sm_90", "gfx950"],
    "kv": "fp8",
    "rounding": "f16",
    "q_seq_len": [1, 2, 3, 4],
    "ragged": True,
    "triton": ">=3.5",
}

HEADS = tl.constexpr(16)
NOPE = tl.constexpr(512)  # key dims that are values too
ROW_PAIRS = tl.constexpr(288)  # pairs of neighbouring dims in a row of q or of the KV
NOPE_PAIRS = tl.constexpr(256)
ROPE_PAIRS = tl.constexpr(32)
LSE_FLOOR = tl.constexpr(-1e30)  # stands for minus infinity where a difference is taken; no keys then give zeros
LOG2E = 1.4426950408889634


class TilePlan(NamedTuple):
    """Stage 1: its tile in tokens, num_warps, num_stages, how many programs fill the device, parts of the nope dims."""

    tile: int
    warps: int
    stages: int
    programs: int
    parts: int = 2


class MergePlan(NamedTuple):
    """Output dims of one program of stage 2, and its num_warps."""

    dims: int
    warps: int


class Plan(NamedTuple):
    """What a call is launched with: the splits of a sequence (a power of two), and the settings of both stages."""

    splits: int
    tiles: TilePlan
    merge: MergePlan


# Two blocks of 4 warps and 94 KB of shared memory on each of 132 multiprocessors.
SM_90_QUARTERS = TilePlan(tile=64, warps=4, stages=3, programs=264, parts=4)
MERGE = MergePlan(dims=256, warps=2)  # where no other was measured
# The benchmark's shapes on sm_90, by (batch, KV length). Behind each plan is the mean of this file in µs, and what the
# nearest other plans took: one NVIDIA H200, torch 2.11, Triton 3.6, 2026-12-01, `harness eval --mode benchmark`. Halves
# are medians of a scratch tuner on another such machine; docs/lab-notes.md has its protocol and more rows.
SM_90_PLANS = {
    (4, 1024): Plan(16, SM_90_QUARTERS, MergePlan(128, 1)),  # 12.5; merge 256/2 13.3; tile 32 13.8; halves 13.3
    (4, 8192): Plan(32, SM_90_QUARTERS, MergePlan(128, 4)),  # 22.5; merge 256/4 23.2; 64 splits 23.3; halves 23.5
    (32, 1024): Plan(4, SM_90_QUARTERS, MergePlan(512, 2)),  # 21.7; 8 splits 22.4; halves 22.5
    (32, 8192): Plan(8, SM_90_QUARTERS, MergePlan(512, 2)),  # 66.4; merge 512/4 67.7; 4 splits 88.0; halves 79.7
    (64, 1024): Plan(4, SM_90_QUARTERS, MergePlan(512, 2)),  # 29.4; 2 splits 31.5; halves (2 splits) 31.5
    (64, 8192): Plan(4, SM_90_QUARTERS, MergePlan(512, 2)),  # 115; merge 512/4 119; 2 splits 164; halves 137
    (256, 1024): Plan(1, SM_90_QUARTERS, MERGE),  # 65.5; halves 75.5 (tile 128, 8 warps)
    (256, 8192): Plan(1, SM_90_QUARTERS, MERGE),  # 412; 4 splits 423; 2 splits 426; halves 441 (tile 128, 8 warps)
}
# Every other shape and target, with split_count.
TILES = {
    # 10 to 18 % faster than halves in all 6 pairs with equal splits and merge and with 256 programs or more.
    "sm_90": SM_90_QUARTERS,
    # 128 tokens and 8 warps fill the 256 registers of a lane without a spill, where quarters spill 154. One block for
    # each of 256 compute units.
    "gfx950": TilePlan(tile=128, warps=8, stages=2, programs=256),
    "other": TilePlan(tile=64, warps=4, stages=2, programs=256),
}
MOST_SPLITS = 64  # one program of the merge holds a head's splits in registers


@triton.jit
def split_pairs_by_bits(pairs):
    """The even and odd dims of int16 `pairs` of e4m3 numbers, as float16 numbers 2^-8 (e4m3fnuz: 2^-7) times as large.

    The sign and the seven bits behind it move to float16's sign and its exponent's end; subnormal numbers included.
    """
    even = ((pairs << 8) >> 1) & -16385
    odd = (pairs >> 1) & -16512
    return even.to(tl.float16, bitcast=True), odd.to(tl.float16, bitcast=True)


@triton.jit
def split_pairs_by_cvt(pairs):
    """The even and odd dims of int16 `pairs` of e4m3fn numbers, as float16; CUDA from sm_89.

    One byte permutation and two conversions for four numbers: 8 to 10 % of the kernel against shifts and masks.
    """
    even, odd = tl.inline_asm_elementwise(
        """{ .reg .b16 e, o; .reg .b32 t;
        prmt.b32 t, $2, $2, 0x3120; mov.b32 {e, o}, t;
        cvt.rn.f16x2.e4m3x2 $0, e; cvt.rn.f16x2.e4m3x2 $1, o; }""",
        "=&r,=&r,r",
        [pairs],
        dtype=(tl.float16, tl.float16),
        is_pure=True,
        pack=2,
    )
    return even, odd


@triton.jit
def split_pairs(pairs, BY_CVT: tl.constexpr):
    """The even and odd dims of int16 `pairs`, in the spelling that the device takes."""
    if BY_CVT:
        return split_pairs_by_cvt(pairs)
    else:
        return split_pairs_by_bits(pairs)


@triton.jit
def load_pairs(kv, first_token, inside, column, TILE: tl.constexpr, WIDTH: tl.constexpr, BY_DESCRIPTOR: tl.constexpr):
    """A (TILE, WIDTH) int16 tile of the KV from row `first_token` and pair `column`.

    Through a descriptor, rows outside `inside` hold the next sequence's numbers; else they are zero.
    """
    if BY_DESCRIPTOR:
        return kv.load([first_token.to(tl.int32), column])
    else:
        rows = kv + first_token * ROW_PAIRS + column
        offsets = tl.arange(0, TILE)[:, None] * ROW_PAIRS + tl.arange(0, WIDTH)[None, :]
        return tl.load(rows + offsets, mask=inside[:, None], other=0)


@triton.jit
def load_query_pairs(q_row, first_pair, PAIRS: tl.constexpr):
    """Neighbouring dims of one query from pair `first_pair`, two bfloat16 in an int32: (PAIRS, HEADS)."""
    offsets = first_pair + tl.arange(0, PAIRS)[:, None] + tl.arange(0, HEADS)[None, :] * ROW_PAIRS
    return tl.load(q_row + offsets)


@triton.jit
def even_and_odd(query_pairs):
    """The even and odd dims of int32 pairs of bfloat16, as float32: the upper half of a float32 is a bfloat16."""
    even = (query_pairs << 16).to(tl.float32, bitcast=True)
    odd = (query_pairs & -65536).to(tl.float32, bitcast=True)
    return even, odd


@triton.jit
def largest_of_heads(query_pairs):
    """The largest absolute value for each head of a (PAIRS, HEADS) part of a query: (HEADS,) float32."""
    even, odd = even_and_odd(query_pairs)
    return tl.max(tl.maximum(tl.abs(even), tl.abs(odd)), 0)


@triton.jit
def power_of_two_gain(largest):
    """For each head, the power of two that brings `largest` into [2^14, 2^15), and its inverse.

    largest: (HEADS,) float32, not negative. Below 2^-100 the gain stays: scores from there are zero.
    """
    exponent = tl.maximum(largest.to(tl.int32, bitcast=True) >> 23, 27)
    gain = ((268 - exponent) << 23).to(tl.float32, bitcast=True)
    undo = ((exponent - 14) << 23).to(tl.float32, bitcast=True)
    return gain, undo


@triton.jit
def query_operands(query_pairs, gain):
    """The even and the odd dims of a part of a query as float16 operands, times `gain`."""
    even, odd = even_and_odd(query_pairs)
    return (even * gain[None, :]).to(tl.float16), (odd * gain[None, :]).to(tl.float16)


@triton.jit
def find_sequence(row, qo_indptr_ptr, batch, BATCH_BLOCK: tl.constexpr):
    """The sequence that query `row` belongs to: how many sequences end at or before it."""
    sequences = tl.arange(0, BATCH_BLOCK)
    ends = tl.load(qo_indptr_ptr + 1 + sequences, mask=sequences < batch, other=2147483647)
    return tl.sum((ends <= row).to(tl.int32), 0)


@triton.jit
def interleave(even, odd, factor):
    """(HEADS, 2 · PAIRS) from the transposed sums of the even and the odd dims, each column times its head's factor."""
    both = tl.join(tl.trans(even * factor[None, :]), tl.trans(odd * factor[None, :]))
    return tl.reshape(both, (HEADS, 2 * even.shape[0]))


@triton.jit(do_not_specialize=["splits", "batch", "q_seq_len"])
def attend_split_f16(
    q_ptr, kv_nope, kv_rope, kv_scale_ptr, qo_indptr_ptr, kv_indptr_ptr, partial_ptr, lse_ptr, out_ptr,
    score_scale, kv_unit, splits, batch, q_seq_len,
    IS_SPLIT: tl.constexpr, TILE: tl.constexpr, PARTS: tl.constexpr, BATCH_BLOCK: tl.constexpr,
    BY_CVT: tl.constexpr, BY_DESCRIPTOR: tl.constexpr,
):  # fmt: skip
    """Attention of one query to one split of the keys it sees.

    q: (total_q, HEADS, ROW_PAIRS) int32. kv_nope, kv_rope: (total_kv, ROW_PAIRS) int16, as pointer or as descriptors
    with blocks (TILE, NOPE_PAIRS / PARTS) and (TILE, ROPE_PAIRS). kv_scale: (1,) float32. qo_indptr, kv_indptr:
    (batch + 1,) int32. partial: (total_q, splits, HEADS, NOPE) float16, normalised. lse: (total_q, splits, HEADS)
    float32, natural logarithm, minus infinity where the split holds no key. out: (total_q, HEADS, NOPE) bfloat16,
    written only where IS_SPLIT is false. score_scale: sm_scale · log2(e). kv_unit: what a decoded number must be
    multiplied by. BATCH_BLOCK 0: every sequence has q_seq_len queries. Grid: (total_q, splits).
    The tuples in the body hold one tensor for each of the PARTS of the nope dims.
    """
    part_pairs: tl.constexpr = NOPE_PAIRS // PARTS
    row = tl.program_id(0)
    split = tl.program_id(1)
    if BATCH_BLOCK == 0:
        sequence = row // q_seq_len
        unseen = q_seq_len - 1 - row % q_seq_len
    else:
        sequence = find_sequence(row, qo_indptr_ptr, batch, BATCH_BLOCK)
        unseen = tl.load(qo_indptr_ptr + sequence + 1) - 1 - row
    begin = tl.load(kv_indptr_ptr + sequence)
    seen = tl.load(kv_indptr_ptr + sequence + 1) - begin - unseen
    share = tl.cdiv(tl.cdiv(seen, splits), TILE) * TILE
    first = split * share
    count = tl.minimum(share, seen - first)

    q_row = q_ptr + row.to(tl.int64) * (HEADS * ROW_PAIRS)
    q_nope = ()
    for part in tl.static_range(PARTS):
        q_nope += (load_query_pairs(q_row, part * part_pairs, part_pairs),)
    q_rope = load_query_pairs(q_row, NOPE_PAIRS, ROPE_PAIRS)
    largest = largest_of_heads(q_rope)
    for part in tl.static_range(PARTS):
        largest = tl.maximum(largest, largest_of_heads(q_nope[part]))
    gain, undo = power_of_two_gain(largest)
    rope_even, rope_odd = query_operands(q_rope, gain)
    q_even, q_odd = (), ()
    sums_even, sums_odd = (), ()
    for part in tl.static_range(PARTS):
        even, odd = query_operands(q_nope[part], gain)
        q_even += (even,)
        q_odd += (odd,)
        sums_even += (tl.zeros([part_pairs, HEADS], tl.float32),)
        sums_odd += (tl.zeros([part_pairs, HEADS], tl.float32),)
    kv_scale = tl.load(kv_scale_ptr) * kv_unit
    to_log2 = undo * (kv_scale * score_scale)

    tokens = tl.arange(0, TILE)
    peak = tl.full([HEADS], float("-inf"), tl.float32)
    total = tl.zeros([HEADS], tl.float32)
    first_row = (begin + first).to(tl.int64)
    for start in range(0, count, TILE):
        inside = start + tokens < count
        nope = ()
        for part in tl.static_range(PARTS):
            pairs = load_pairs(kv_nope, first_row + start, inside, part * part_pairs, TILE, part_pairs, BY_DESCRIPTOR)
            nope += (pairs,)
        rope = load_pairs(kv_rope, first_row + start, inside, NOPE_PAIRS, TILE, ROPE_PAIRS, BY_DESCRIPTOR)

        k_even, k_odd = split_pairs(rope, BY_CVT)
        scores = tl.dot(k_even, rope_even)
        scores = tl.dot(k_odd, rope_odd, scores)
        for part in tl.static_range(PARTS):
            k_even, k_odd = split_pairs(nope[part], BY_CVT)
            scores = tl.dot(k_even, q_even[part], scores)
            scores = tl.dot(k_odd, q_odd[part], scores)

        scores = tl.where(inside[:, None], scores * to_log2[None, :], float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 0))
        weights = tl.exp2(scores - new_peak[None, :])
        fade = tl.exp2(peak - new_peak)
        total = total * fade + tl.sum(weights, 0)
        weights = weights.to(tl.float16)
        peak = new_peak

        new_even, new_odd = (), ()
        for part in tl.static_range(PARTS):
            v_even, v_odd = split_pairs(tl.trans(nope[part]), BY_CVT)
            new_even += (tl.dot(v_even, weights, sums_even[part] * fade[None, :]),)
            new_odd += (tl.dot(v_odd, weights, sums_odd[part] * fade[None, :]),)
        sums_even, sums_odd = new_even, new_odd

    some = total > 0
    normal = 1.0 / tl.where(some, total, 1.0)
    heads = tl.arange(0, HEADS)
    dims = tl.arange(0, 2 * part_pairs)
    if IS_SPLIT:
        slot = (row.to(tl.int64) * splits + split) * HEADS + heads
        target = partial_ptr + slot[:, None] * NOPE + dims[None, :]
        for part in tl.static_range(PARTS):
            values = interleave(sums_even[part], sums_odd[part], normal)
            tl.store(target + part * 2 * part_pairs, values.to(tl.float16))
        lse = (peak + tl.log2(tl.where(some, total, 1.0))) * 0.6931471805599453
        tl.store(lse_ptr + slot, tl.where(some, lse, float("-inf")))
    else:
        target = out_ptr + (row.to(tl.int64) * HEADS + heads)[:, None] * NOPE + dims[None, :]
        for part in tl.static_range(PARTS):
            values = interleave(sums_even[part], sums_odd[part], normal * kv_scale)
            tl.store(target + part * 2 * part_pairs, values.to(tl.bfloat16))


@triton.jit
def merge_splits_f16(
    partial_ptr, lse_ptr, kv_scale_ptr, out_ptr, kv_unit,
    SPLITS: tl.constexpr, DIMS: tl.constexpr,
):  # fmt: skip
    """One head's output: all splits loaded together, weighted by exp(lse) and summed.

    Shapes as in stage 1. Grid: (total_q, HEADS, NOPE / DIMS).
    """
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    dims = tl.program_id(2) * DIMS + tl.arange(0, DIMS)
    slots = (row * SPLITS + tl.arange(0, SPLITS)) * HEADS + head
    lse = tl.load(lse_ptr + slots)
    partial = tl.load(partial_ptr + slots[:, None] * NOPE + dims[None, :]).to(tl.float32)
    weights = tl.exp(lse - tl.maximum(tl.max(lse, 0), LSE_FLOOR))
    total = tl.sum(weights, 0)
    kv_scale = tl.load(kv_scale_ptr) * kv_unit
    merged = tl.sum(partial * weights[:, None], 0) * (kv_scale / tl.where(total > 0, total, 1.0))
    tl.store(out_ptr + (row * HEADS + head) * NOPE + dims, merged.to(tl.bfloat16))


def target_of(device: torch.device) -> str:
    """The key in TILES for a device."""
    if device.type == "cuda" and torch.version.hip is None:
        return "sm_90" if torch.cuda.get_device_capability(device)[0] == 9 else "other"
    return "gfx950"


def split_count(queries: int, mean_length: int, tiles: TilePlan) -> int:
    """How many splits fill the device: a power of two, none of them under one tile of a sequence of mean length."""
    wanted = min(tiles.programs // queries, -(-mean_length // tiles.tile), MOST_SPLITS)
    return 1 << max(wanted, 1).bit_length() - 1


def plan_for(target: str, queries: int, batch: int, rows: int) -> Plan:
    """The plan of a call with so many queries, sequences and rows of KV in all; no value on the device has a say."""
    length = rows // batch
    if target == "sm_90" and queries == batch and (batch, length) in SM_90_PLANS:
        return SM_90_PLANS[batch, length]
    tiles = TILES[target]
    return Plan(split_count(queries, length, tiles), tiles, MERGE)


def as_pairs(rows: torch.Tensor, pair_type: torch.dtype) -> torch.Tensor:
    """`rows` of 576 numbers as (rows, 288) pairs, a view unless they have gaps or start inside a pair."""
    rows = rows.contiguous()
    if rows.storage_offset() % 2:
        rows = rows.clone()
    return rows.view(pair_type).view(-1, 288)


def check_input(data) -> None:
    """Raise ValueError, naming what came, unless `data` has the problem's head sizes, a bfloat16 q and an FP8 KV."""
    q, kv_data, _, _, config = data
    kv = kv_data["fp8"][0]
    came = (tuple(q.shape[1:]), q.dtype, tuple(kv.shape[1:]), config["v_head_dim"])
    taken = ((16, 576), torch.bfloat16, (1, 576), 512)
    kv_types = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)
    if came != taken or kv.dtype not in kv_types:
        names = ("q heads and dims", "q dtype", "fp8 KV row", "v_head_dim")
        wrong = [f"{n} {c} (takes {t})" for n, c, t in zip(names, came, taken, strict=True) if c != t]
        wrong += [] if kv.dtype in kv_types else [f"fp8 KV dtype {kv.dtype} (takes e4m3fn or e4m3fnuz)"]
        raise ValueError("this variant does not take the input: " + ", ".join(wrong))


def decode_f16(data, tiles: TilePlan, splits: int, merge: MergePlan) -> torch.Tensor:
    """Both stages on the current device, without a synchronisation; scratch and output are new in every call.

    q: (total_q, 16, 576) bfloat16. kv_data["fp8"]: (total_kv, 1, 576) e4m3 and (1,) float32. qo_indptr, kv_indptr:
    (batch + 1,) int32. splits: a power of two. Returns (total_q, 16, 512) bfloat16.
    """
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    qo_indptr, kv_indptr, pairs = qo_indptr.contiguous(), kv_indptr.contiguous(), as_pairs(kv, torch.int16)
    queries, batch, device = q.shape[0], kv_indptr.shape[0] - 1, q.device
    capability = torch.cuda.get_device_capability(device) if target_of(device) in ("sm_90", "other") else (0, 0)
    by_cvt = capability >= (8, 9) and kv.dtype == torch.float8_e4m3fn
    # The tensor memory accelerator wants 16-byte aligned rows, which an offset view of a cache may lack.
    by_descriptor = capability >= (9, 0) and pairs.data_ptr() % 16 == 0
    kv_unit = 1.0 if by_cvt else {torch.float8_e4m3fn: 256.0, torch.float8_e4m3fnuz: 128.0}[kv.dtype]
    uniform = queries == batch * config["q_seq_len"]

    out = torch.empty((queries, 16, 512), dtype=torch.bfloat16, device=device)
    partial, lse = out, out
    if splits > 1:
        partial = torch.empty((queries, splits, 16, 512), dtype=torch.float16, device=device)
        lse = torch.empty((queries, splits, 16), dtype=torch.float32, device=device)
    attend_split_f16[(queries, splits)](
        as_pairs(q, torch.int32),
        TensorDescriptor.from_tensor(pairs, [tiles.tile, 256 // tiles.parts]) if by_descriptor else pairs,
        TensorDescriptor.from_tensor(pairs, [tiles.tile, 32]) if by_descriptor else pairs,
        kv_scale, qo_indptr, kv_indptr, partial, lse, out,
        config["sm_scale"] * LOG2E, kv_unit, splits, batch, config["q_seq_len"],
        IS_SPLIT=splits > 1, TILE=tiles.tile, PARTS=tiles.parts,
        BATCH_BLOCK=0 if uniform else triton.next_power_of_2(batch), BY_CVT=by_cvt, BY_DESCRIPTOR=by_descriptor,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    if splits > 1:
        merge_splits_f16[(queries, 16, 512 // merge.dims)](
            partial, lse, kv_scale, out, kv_unit, SPLITS=splits, DIMS=merge.dims, num_warps=merge.warps
        )
    return out


def custom_kernel(data):
    """MLA decode of any input: (q, kv_data, qo_indptr, kv_indptr, config) to (total_q, 16, 512) bfloat16.

    Raises ValueError for other head sizes or types. All queries of a sequence see its keys up to their own place.
    """
    check_input(data)
    q, kv_data, _, kv_indptr, _ = data
    rows, batch = kv_data["fp8"][0].shape[0], kv_indptr.shape[0] - 1
    plan = plan_for(target_of(q.device), q.shape[0], batch, rows)
    return decode_f16(data, plan.tiles, plan.splits, plan.merge)
