#!POPCORN leaderboard amd-mixed-mla
#!POPCORN gpu MI355X
"""AMD's own decode kernel (aiter, fp8 queries and fp8 KV, persistent) with a schedule for each shape.

Three steps in every call: two small Triton kernels round the queries to fp8 with one scale, aiter's scheduler cuts
the sequences found in kv_indptr into pieces of work, and aiter's kernel attends and merges them. Nothing that
depends on a value outlives the call: the schedule, the scales, the scratch and the output are new each time.

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

AITER_PIN = "f3be04a12a (2026-03-04)"

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


class SchedulePlan(NamedTuple):
    """How aiter cuts the sequences: its arguments max_split_per_batch, fast_mode, kv_granularity, intra_batch_mode."""

    max_splits: int
    fast_mode: bool
    granularity: int
    intra_batch: bool


# Equal splits of each sequence, at most four: with 64 sequences they fill 256 CUs, with 256 there is one each.
EQUAL_SPLITS = SchedulePlan(max_splits=4, fast_mode=False, granularity=64, intra_batch=True)

# The same payload for each of the 256 CUs, whatever the sequence borders: 32 sequences alone would leave CUs idle.
EVEN_PAYLOAD = SchedulePlan(max_splits=32, fast_mode=True, granularity=64, intra_batch=False)

PLANS = {
    (32, 8192): EVEN_PAYLOAD,
    (64, 8192): EQUAL_SPLITS,
    (256, 1024): EQUAL_SPLITS,
    (256, 8192): EQUAL_SPLITS,
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
        raise ImportError(f"this aiter has no {name}; this variant is written for aiter {AITER_PIN}")
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        # aiter hides its signatures behind *args; the operator that it registers with torch still has them.
        arguments = getattr(torch.ops.aiter, name).default._schema.arguments
        return function, {argument.name: not argument.has_default_value() for argument in arguments}
    return function, {parameter.name: parameter.default is parameter.empty for parameter in parameters}


def call_aiter(name: str, later: dict | None = None, **arguments):
    """Call an aiter function by keyword; `later` holds arguments that only later versions take.

    Raises ImportError, naming the parameters, where this aiter lacks one of `arguments` or demands another one.
    """
    function, parameters = aiter_parameters(name)
    arguments |= {key: value for key, value in (later or {}).items() if key in parameters}
    strange = [key for key in arguments if key not in parameters]
    strange += [key for key, must_give in parameters.items() if must_give and key not in arguments]
    if strange:
        raise ImportError(
            f"this aiter's {name} differs in {', '.join(strange)}; this variant is written for aiter {AITER_PIN}"
        )
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


def decode_with_aiter(data, plan: SchedulePlan) -> torch.Tensor:
    """Quantise, schedule, attend, merge, without a synchronisation.

    q: (batch, 16, 576) bfloat16. kv_data["fp8"]: (total_kv, 1, 576) fp8 and its float32 scale of shape (1,), which
    stays on the device. qo_indptr, kv_indptr: (batch + 1,) int32. Returns (batch, 16, 512) bfloat16.
    """
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    batch, device = q.shape[0], q.device

    q_fp8, q_scale = quantise_queries(q.contiguous(), kv.dtype)
    sizes = schedule_buffer_sizes(batch, plan, kv.dtype, device)
    metadata, work_indptr, work_info, reduce_indptr, reduce_final_map, reduce_partial_map = (
        torch.empty(shape, dtype=dtype, device=device) for shape, dtype in sizes
    )
    # Pages of one token, in order, each of them full.
    pages = torch.arange(kv.shape[0], dtype=torch.int32, device=device)
    last_page_lens = torch.ones(batch, dtype=torch.int32, device=device)
    call_aiter(
        "get_mla_metadata_v1",
        seqlens_qo_indptr=qo_indptr,
        seqlens_kv_indptr=kv_indptr,
        kv_last_page_lens=last_page_lens,
        num_heads_per_head_k=HEADS,
        num_heads_k=1,
        is_causal=True,
        work_metadata_ptrs=metadata,
        work_info_set=work_info,
        work_indptr=work_indptr,
        reduce_indptr=reduce_indptr,
        reduce_final_map=reduce_final_map,
        reduce_partial_map=reduce_partial_map,
        page_size=1,
        kv_granularity=plan.granularity,
        max_seqlen_qo=1,
        uni_seqlen_qo=1,
        fast_mode=plan.fast_mode,
        max_split_per_batch=plan.max_splits,
        intra_batch_mode=plan.intra_batch,
        dtype_q=kv.dtype,
        dtype_kv=kv.dtype,
    )

    slots = reduce_partial_map.shape[0]
    partial = torch.empty((slots, 1, HEADS, V_DIM), dtype=torch.float32, device=device)
    lse = torch.empty((slots, 1, HEADS, 1), dtype=torch.float32, device=device)
    out = torch.empty((batch, HEADS, V_DIM), dtype=torch.bfloat16, device=device)
    call_aiter(
        "mla_decode_stage1_asm_fwd",
        Q=q_fp8,
        KV=kv.contiguous().view(-1, 1, 1, QK_DIM),
        qo_indptr=qo_indptr,
        kv_indptr=kv_indptr,
        kv_page_indices=pages,
        kv_last_page_lens=last_page_lens,
        num_kv_splits_indptr=None,
        work_meta_data=metadata,
        work_indptr=work_indptr,
        work_info_set=work_info,
        max_seqlen_q=1,
        page_size=1,
        nhead_kv=1,
        softmax_scale=config["sm_scale"],
        splitData=partial,
        splitLse=lse,
        output=out,
        q_scale=q_scale,
        kv_scale=kv_scale,
    )
    call_aiter(
        "mla_reduce_v1",
        later={"num_kv_splits": plan.max_splits},
        partial_output=partial,
        partial_lse=lse,
        reduce_indptr=reduce_indptr,
        reduce_final_map=reduce_final_map,
        reduce_partial_map=reduce_partial_map,
        max_seqlen_q=1,
        final_output=out,
    )
    return out


def custom_kernel(data):
    """MLA decode: (q, kv_data, qo_indptr, kv_indptr, config) to (batch, 16, 512) bfloat16.

    Takes what `check_input` says; raises ValueError for the rest and ImportError where aiter is missing or strange.
    """
    check_input(data)
    config, batch = data[4], data[0].shape[0]
    plan = PLANS.get((batch, config["kv_seq_len"]), PLANS_BY_LENGTH[config["kv_seq_len"]])
    with torch.cuda.device_of(data[0]):
        return decode_with_aiter(data, plan)
