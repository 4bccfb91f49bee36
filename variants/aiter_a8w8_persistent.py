#!POPCORN leaderboard amd-mixed-mla
#!POPCORN gpu MI355X
"""AMD's own decode kernel (aiter, fp8 queries and fp8 KV, persistent) with a schedule for each shape.

Three steps in every call: two small Triton kernels round the queries to fp8 with one scale, a scheduler on the
device cuts the sequences found in kv_indptr into pieces of work, and aiter's kernel attends and merges them. Nothing
that depends on a value outlives the call: the schedule, the scales, the scratch and the output are new each time.
The scheduler is aiter's, or for a plan OwnSplits the Triton kernel below. docs/aiter-variant.md says what each costs
and why nothing is kept from call to call.

Written for aiter f3be04a12a (2026-03-04), the leaderboard's; functions are called by keyword, so that a later
aiter, which moved arguments, is adapted to or refused. Runs on ROCm, and on the CPU with a stand-in for aiter.
Rounding: queries and softmax weights to fp8, as the kernel does; relative error against exact attention of the same
KV about 0.03, more where few keys hold nearly all of the weight (weights under 1e-3 vanish from the numerator).
"""

import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton
import triton.language as tl

VARIANT = {
    "shapes": ["32x8192", "64x8192", "256x1024", "256x8192"],
    "targets": ["gfx950"],
    "kv": "fp8",
    "rounding": "fp8",
    "q_seq_len": [1],
    "ragged": False,
    "triton": ">=3.5",
}

# Every change of a parameter between these two was read and is tested (tests/test_variant_aiter_versions.py).
WRITTEN_FOR = "this variant is written for aiter f3be04a12a (2026-03-04) up to e4048607a5 (2026-08-22)"

HEADS = 16
QK_DIM = 576
V_DIM = 512

# A query token is HEADS · QK_DIM = 9216 values: nine blocks, a program each, so that 32 tokens still fill 256 CUs.
QUERY_BLOCK = 1024
BLOCKS_PER_TOKEN = HEADS * QK_DIM // QUERY_BLOCK

# Block maxima that one step of the second kernel reads; 256 tokens need three steps.
MAXIMA_STEP = 1024

# A floor for the largest |q|: keeps the scale of an all-zero q finite, and is far below any q that moves a softmax.
SMALLEST_MAXIMUM = tl.constexpr(1e-30)


# Workgroups of aiter's kernel: one for each compute unit of an MI355X.
UNITS = 256

# Keys that aiter's kernel takes at a time: OwnSplits cuts between such tiles only.
TILE_KEYS = tl.constexpr(128)

# Fewer keys are not worth a workgroup of their own: aiter's scheduler has the same number.
FEWEST_SPLIT_KEYS = tl.constexpr(196)


class SchedulePlan(NamedTuple):
    """How aiter's scheduler cuts: its arguments max_split_per_batch, fast_mode, kv_granularity, intra_batch_mode.

    Without fast_mode the granularity is at most 128 and every sequence has at least 196 keys: aiter divides by zero
    below, and with 256 it leaves the last key or keys out of 513 to 516 (tests/test_variant_aiter_schedule.py).
    """

    max_splits: int
    fast_mode: bool
    granularity: int
    intra_batch: bool


class OwnSplits(NamedTuple):
    """Equal splits of each sequence, cut by `cut_sequences`: no more than this, or than the units have room for."""

    max_splits: int


# Equal splits of each sequence, at most four: with 64 sequences they fill 256 CUs, with 256 there is one each.
EQUAL_SPLITS = SchedulePlan(max_splits=4, fast_mode=False, granularity=64, intra_batch=True)

# The same payload for each of the 256 CUs, whatever the sequence borders: 32 sequences alone would leave CUs idle.
EVEN_PAYLOAD = SchedulePlan(max_splits=32, fast_mode=True, granularity=64, intra_batch=False)

# By batch size x KV length.
PLANS = {
    "32x8192": EVEN_PAYLOAD,
    "64x8192": EQUAL_SPLITS,
    "256x1024": EQUAL_SPLITS,
    "256x8192": EQUAL_SPLITS,
}

# For other batch sizes (a part of a batch, say) the sequence length alone decides.
PLANS_BY_LENGTH = {1024: EQUAL_SPLITS, 8192: EQUAL_SPLITS}


@triton.jit
def find_block_maxima(q_ptr, maxima_ptr, BLOCK: tl.constexpr):
    """The largest |q| of each block of BLOCK values.

    q: (tokens · 9216,) bfloat16. maxima: (blocks,) float32. Grid: (blocks,).
    """
    block = tl.program_id(0)
    values = tl.load(q_ptr + block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK))
    tl.store(maxima_ptr + block, tl.max(tl.abs(values.to(tl.float32)), 0))


@triton.jit
def round_queries(
    q_ptr, maxima_ptr, q_fp8_ptr, q_scale_ptr, blocks, fp8_max,
    BLOCK: tl.constexpr, STEP: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """q in fp8 with one scale for all of it: the largest |q| becomes the largest fp8 number.

    q, q_fp8: (blocks · BLOCK,). maxima: (blocks,) float32. q_scale: (1,) float32, what undoes the scaling.
    fp8_max: largest number of q_fp8's type. STEPS · STEP covers the blocks. Grid: (blocks,).
    """
    block = tl.program_id(0)
    largest = tl.full([STEP], SMALLEST_MAXIMUM, tl.float32)
    for step in range(STEPS):
        each = step * STEP + tl.arange(0, STEP)
        largest = tl.maximum(largest, tl.load(maxima_ptr + each, mask=each < blocks, other=0.0))
    amax = tl.max(largest, 0)
    places = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    scaled = tl.load(q_ptr + places).to(tl.float32) * (fp8_max / amax)
    # The largest value may land an ulp above fp8_max, which fnuz types do not round back.
    scaled = tl.minimum(tl.maximum(scaled, -fp8_max), fp8_max)
    tl.store(q_fp8_ptr + places, scaled.to(q_fp8_ptr.dtype.element_ty))
    if block == 0:
        tl.store(q_scale_ptr, amax / fp8_max)


@triton.jit
def cut_sequences(
    kv_indptr_ptr, metadata_ptr, work_indptr_ptr, work_info_ptr, reduce_indptr_ptr, final_map_ptr, partial_map_ptr,
    work_indptr_address, work_info_address, sequences, units,
    SEQUENCES: tl.constexpr, SPLITS: tl.constexpr, WORKGROUPS: tl.constexpr,
):  # fmt: skip
    """The schedule of aiter's persistent kernel, in the form that its own scheduler writes (see `Schedule`).

    kv_indptr: (sequences + 1,) int32 from 0, each sequence with at least one key. The two addresses are those of
    work_indptr and work_info, which the kernel reads from metadata. SEQUENCES ≥ sequences, WORKGROUPS > units,
    powers of two; SPLITS: most pieces of a sequence. Grid: (1,).
    """
    sequence = tl.arange(0, SEQUENCES)
    inside = sequence < sequences
    begin = tl.load(kv_indptr_ptr + sequence, mask=inside, other=0)
    end = tl.load(kv_indptr_ptr + sequence + 1, mask=inside, other=0)
    tiles = tl.cdiv(end - begin, TILE_KEYS)
    wanted = tl.minimum(tl.maximum((end - begin) // FEWEST_SPLIT_KEYS, 1), SPLITS)
    tiles_each = tl.maximum(tl.cdiv(tiles, wanted), 1)
    splits = tl.cdiv(tiles, tiles_each)
    after = tl.cumsum(splits, 0)
    for split in range(SPLITS):
        row = after - splits + split
        used = inside & (split < splits)
        slot = tl.where(splits == 1, -1, row)
        start = begin + split * tiles_each * TILE_KEYS
        stop = tl.minimum(start + tiles_each * TILE_KEYS, end)
        tl.store(work_info_ptr + row * 8, sequence, mask=used)
        tl.store(work_info_ptr + row * 8 + 1, slot, mask=used)
        tl.store(work_info_ptr + row * 8 + 2, sequence, mask=used)
        tl.store(work_info_ptr + row * 8 + 3, sequence + 1, mask=used)
        tl.store(work_info_ptr + row * 8 + 4, start, mask=used)
        tl.store(work_info_ptr + row * 8 + 5, stop, mask=used)
        tl.store(work_info_ptr + row * 8 + 6, end - stop, mask=used)
        tl.store(work_info_ptr + row * 8 + 7, 0, mask=used)
        tl.store(partial_map_ptr + row, slot, mask=used)
    tl.store(reduce_indptr_ptr, 0)
    tl.store(reduce_indptr_ptr + sequence + 1, after, mask=inside)
    tl.store(final_map_ptr + sequence * 2, sequence, mask=inside)
    tl.store(final_map_ptr + sequence * 2 + 1, sequence + 1, mask=inside)
    works = tl.sum(splits, 0)
    unit = tl.arange(0, WORKGROUPS)
    offset = unit * (works // units) + tl.minimum(unit, works % units)
    tl.store(work_indptr_ptr + unit, offset, mask=unit <= units)
    tl.store(metadata_ptr, work_indptr_address)
    tl.store(metadata_ptr + 1, work_info_address)


def quantise_queries(q: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """(tokens, 16, 576) bfloat16 to the same shape in `dtype` and its float32 scale of shape (1,), on the device."""
    blocks = q.shape[0] * BLOCKS_PER_TOKEN
    maxima = torch.empty(blocks, dtype=torch.float32, device=q.device)
    q_fp8 = torch.empty(q.shape, dtype=dtype, device=q.device)
    q_scale = torch.empty(1, dtype=torch.float32, device=q.device)
    find_block_maxima[(blocks,)](q, maxima, BLOCK=QUERY_BLOCK, num_warps=4)
    round_queries[(blocks,)](
        q, maxima, q_fp8, q_scale, blocks, torch.finfo(dtype).max,
        BLOCK=QUERY_BLOCK, STEP=MAXIMA_STEP, STEPS=triton.cdiv(blocks, MAXIMA_STEP), num_warps=4,
    )  # fmt: skip
    return q_fp8, q_scale


@functools.cache
def aiter_parameters(name: str) -> tuple[Callable, dict[str, bool]]:
    """An aiter function, and the names of its parameters, each with whether it must be given; looked up once a process.

    Raises ImportError in one line where aiter cannot be imported or has no such function.
    """
    try:
        import aiter
    except Exception as error:
        # Without ROCm its import fails with a RuntimeError; where it is not installed, with an ImportError.
        reason = " ".join(str(error).split())
        raise ImportError(f"this variant needs AMD's aiter, whose import failed: {reason}") from None
    function = getattr(aiter, name, None)
    if function is None:
        raise ImportError(f"this aiter has no {name}; {WRITTEN_FOR}")
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        # aiter hides its signatures behind *args; the operator that it registers with torch still has them.
        operator = getattr(torch.ops.aiter, name, None)
        if operator is None:
            raise ImportError(f"this aiter hides the parameters of {name}; {WRITTEN_FOR}")
        arguments = operator.default._schema.arguments
        return function, {argument.name: not argument.has_default_value() for argument in arguments}
    return function, {parameter.name: parameter.default is parameter.empty for parameter in parameters}


def call_aiter(name: str, some: dict | None = None, **arguments):
    """Call an aiter function by keyword; `some` holds arguments that only some versions take.

    Raises ImportError, naming the parameters, where this aiter lacks one of `arguments` or demands another one.
    """
    function, parameters = aiter_parameters(name)
    arguments |= {key: value for key, value in (some or {}).items() if key in parameters}
    strange = [key for key in arguments if key not in parameters]
    strange += [key for key, must_give in parameters.items() if must_give and key not in arguments]
    if strange:
        raise ImportError(f"this aiter's {name} differs in {', '.join(strange)}; {WRITTEN_FOR}")
    return function(**arguments)


@functools.cache
def schedule_buffer_sizes(batch_size: int, plan: SchedulePlan, dtype: torch.dtype, device: torch.device) -> tuple:
    """Shape and dtype of aiter's six schedule buffers; they depend on sizes and on the device's number of CUs only."""
    del device  # aiter asks the current device, which is this one: it is named for the cache
    return call_aiter(
        "get_mla_metadata_info_v1",
        batch_size=batch_size,
        max_seqlen_qo=1,
        num_head_qo=HEADS,
        q_dtype=dtype,
        kv_dtype=dtype,
        is_sparse=False,
        fast_mode=plan.fast_mode,
        num_kv_splits=plan.max_splits,
        intra_batch_mode=plan.intra_batch,
    )


class Schedule(NamedTuple):
    """aiter's six buffers, on the device.

    metadata: (2,) uint64, the addresses of the next two. work_indptr: (units + 1,) int32, the rows of each workgroup.
    work_info: (rows, 8) int32: sequence, slot of the partial result or −1, q start and end, kv start and end, keys
    behind it, 0. reduce_indptr: (batch + 1,) int32 into partial_map. final_map: (batch, 2) int32, the output rows of
    a sequence. partial_map: (slots,) int32, the slot of each piece.
    """

    metadata: torch.Tensor
    work_indptr: torch.Tensor
    work_info: torch.Tensor
    reduce_indptr: torch.Tensor
    final_map: torch.Tensor
    partial_map: torch.Tensor


def schedule_by_aiter(
    plan: SchedulePlan, qo_indptr: torch.Tensor, kv_indptr: torch.Tensor, ones: torch.Tensor, dtype: torch.dtype
) -> Schedule:
    """A fresh schedule by aiter's own kernel, for queries and KV of `dtype`. The indptrs and ones: int32."""
    device = kv_indptr.device
    sizes = schedule_buffer_sizes(ones.shape[0], plan, dtype, device)
    schedule = Schedule(*(torch.empty(shape, dtype=kind, device=device) for shape, kind in sizes))
    fp8_types = ("dtype_q", "dtype_kv", "dtype_q_nope", "dtype_q_rope", "dtype_kv_nope", "dtype_kv_rope")
    call_aiter(
        "get_mla_metadata_v1",
        some=dict.fromkeys(fp8_types, dtype),
        seqlens_qo_indptr=qo_indptr, seqlens_kv_indptr=kv_indptr, kv_last_page_lens=ones, page_size=1,
        num_heads_per_head_k=HEADS, num_heads_k=1, is_causal=True, max_seqlen_qo=1, uni_seqlen_qo=1,
        work_metadata_ptrs=schedule.metadata, work_indptr=schedule.work_indptr, work_info_set=schedule.work_info,
        reduce_indptr=schedule.reduce_indptr, reduce_final_map=schedule.final_map,
        reduce_partial_map=schedule.partial_map, kv_granularity=plan.granularity, fast_mode=plan.fast_mode,
        max_split_per_batch=plan.max_splits, intra_batch_mode=plan.intra_batch,
    )  # fmt: skip
    return schedule


def schedule_own_splits(plan: OwnSplits, kv_indptr: torch.Tensor) -> Schedule:
    """A fresh schedule by `cut_sequences`. kv_indptr: (batch + 1,) int32."""
    batch = kv_indptr.shape[0] - 1
    splits = min(plan.max_splits, triton.cdiv(UNITS, batch))
    rows = batch * splits
    shapes = ((UNITS + 1,), (rows, 8), (batch + 1,), (batch, 2), (rows,))
    schedule = Schedule(
        torch.empty(2, dtype=torch.uint64, device=kv_indptr.device),
        *(torch.empty(shape, dtype=torch.int32, device=kv_indptr.device) for shape in shapes),
    )
    cut_sequences[(1,)](
        kv_indptr, *schedule, schedule.work_indptr.data_ptr(), schedule.work_info.data_ptr(), batch, UNITS,
        SEQUENCES=triton.next_power_of_2(batch), SPLITS=splits, WORKGROUPS=triton.next_power_of_2(UNITS + 1),
        num_warps=4,
    )  # fmt: skip
    return schedule


def check_input(data) -> None:
    """Raise ValueError, in one line that says what came and what is taken, for an input outside this variant's range.

    Taken: any number of sequences, one query each, config["kv_seq_len"] keys each (1024 or 8192), fp8 KV.
    """
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    length, batch = config["kv_seq_len"], kv_indptr.shape[0] - 1
    facts = [
        ("q_seq_len", config["q_seq_len"], (1,)),
        ("kv_seq_len", length, tuple(PLANS_BY_LENGTH)),
        ("q shape", tuple(q.shape), ((batch, HEADS, QK_DIM),)),
        ("q dtype", q.dtype, (torch.bfloat16,)),
        ("v_head_dim", config["v_head_dim"], (V_DIM,)),
        ("qo_indptr shape", tuple(qo_indptr.shape), ((batch + 1,),)),
        ("fp8 KV shape", tuple(kv.shape), ((batch * length, 1, QK_DIM),)),
        ("fp8 KV dtype", kv.dtype, (torch.float8_e4m3fn, torch.float8_e4m3fnuz)),
        ("KV scale", (kv_scale.numel(), kv_scale.dtype), ((1, torch.float32),)),
    ]
    wrong = [
        f"{name} {came} (takes {' or '.join(map(str, taken))})" for name, came, taken in facts if came not in taken
    ]
    if wrong:
        raise ValueError("this variant does not take the input: " + ", ".join(wrong) + "; use the portable variant")


def decode_with_aiter(data, plan: SchedulePlan | OwnSplits) -> torch.Tensor:
    """Quantise, schedule, attend, merge, without a synchronisation.

    q: (batch, 16, 576) bfloat16. kv_data["fp8"]: (total_kv, 1, 576) fp8 and its float32 scale of shape (1,), which
    stays on the device. qo_indptr, kv_indptr: (batch + 1,) int32. Returns (batch, 16, 512) bfloat16.
    """
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    batch, device = q.shape[0], q.device

    q_fp8, q_scale = quantise_queries(q.contiguous(), kv.dtype)
    # Pages of one token, in order, each of them full.
    pages = torch.arange(kv.shape[0], dtype=torch.int32, device=device)
    ones = torch.ones(batch, dtype=torch.int32, device=device)
    if isinstance(plan, OwnSplits):
        schedule = schedule_own_splits(plan, kv_indptr)
    else:
        schedule = schedule_by_aiter(plan, qo_indptr, kv_indptr, ones, kv.dtype)

    slots = schedule.partial_map.shape[0]
    partial = torch.empty((slots, 1, HEADS, V_DIM), dtype=torch.float32, device=device)
    lse = torch.empty((slots, 1, HEADS, 1), dtype=torch.float32, device=device)
    out = torch.empty((batch, HEADS, V_DIM), dtype=torch.bfloat16, device=device)
    call_aiter(
        "mla_decode_stage1_asm_fwd",
        Q=q_fp8, KV=kv.contiguous().view(-1, 1, 1, QK_DIM), qo_indptr=qo_indptr, kv_indptr=kv_indptr,
        kv_page_indices=pages, kv_last_page_lens=ones, num_kv_splits_indptr=None, work_meta_data=schedule.metadata,
        work_indptr=schedule.work_indptr, work_info_set=schedule.work_info, max_seqlen_q=1, page_size=1, nhead_kv=1,
        softmax_scale=config["sm_scale"], splitData=partial, splitLse=lse, output=out, q_scale=q_scale,
        kv_scale=kv_scale,
    )  # fmt: skip
    call_aiter(
        "mla_reduce_v1",
        some={"num_kv_splits": plan.max_splits},
        partial_output=partial, partial_lse=lse, reduce_indptr=schedule.reduce_indptr,
        reduce_final_map=schedule.final_map, reduce_partial_map=schedule.partial_map, max_seqlen_q=1, final_output=out,
    )  # fmt: skip
    return out


def custom_kernel(data):
    """MLA decode: (q, kv_data, qo_indptr, kv_indptr, config) to (batch, 16, 512) bfloat16.

    Takes what `check_input` says; raises ValueError for the rest and ImportError where aiter is missing or strange.
    """
    check_input(data)
    config, batch = data[4], data[0].shape[0]
    plan = PLANS.get(f"{batch}x{config['kv_seq_len']}", PLANS_BY_LENGTH[config["kv_seq_len"]])
    with torch.cuda.device_of(data[0]):
        return decode_with_aiter(data, plan)
