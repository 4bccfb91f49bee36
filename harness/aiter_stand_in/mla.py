"""`aiter.mla` of the stand-in: `mla_decode_fwd`, the two stages in one call."""

from __future__ import annotations

import torch

from harness.aiter_stand_in import dtypes
from harness.aiter_stand_in.checks import Checks
from harness.aiter_stand_in.reduce import mla_reduce_v1
from harness.aiter_stand_in.stage1 import HEADS, UNSCHEDULED_TILE_ROWS, mla_decode_stage1_asm_fwd
from harness.aiter_stand_in.stage2 import Stage2Kernel, get_meta_param

__harness_stand_in__ = True

_fwd_kernel_stage2_asm = Stage2Kernel()

__all__ = ["get_meta_param", "mla_decode_fwd"]


@torch.no_grad()
def mla_decode_fwd(
    q: torch.Tensor,
    kv_buffer: torch.Tensor,
    o: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_last_page_lens: torch.Tensor,
    max_seqlen_q: int,
    page_size: int = 1,
    nhead_kv: int = 1,
    sm_scale: float | None = None,
    logit_cap: float = 0.0,
    num_kv_splits: int | None = None,
    num_kv_splits_indptr: torch.Tensor | None = None,
    work_meta_data: torch.Tensor | None = None,
    work_indptr: torch.Tensor | None = None,
    work_info_set: torch.Tensor | None = None,
    reduce_indptr: torch.Tensor | None = None,
    reduce_final_map: torch.Tensor | None = None,
    reduce_partial_map: torch.Tensor | None = None,
    q_scale: torch.Tensor | None = None,
    kv_scale: torch.Tensor | None = None,
    intra_batch_mode: bool = False,
    return_logits: bool = False,
    return_lse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Decode attention into `o` (tokens, 16, 512) bf16; returns the partial results and the log-sum-exp, as aiter does.

    Shapes and dtypes as in mla_decode_stage1_asm_fwd. With work_meta_data it runs the persistent kernel and
    mla_reduce_v1 (log-sum-exp only where return_lse, and there only of merged rows); without it, the kernel that
    deals tiles round robin to num_kv_splits splits (chosen as aiter does where None), whose second result is
    uninitialised in aiter and NaN here. Raises TypeError and StandInError. Source: aiter f3be04a12a, aiter/mla.py.
    """
    checks = Checks.on_device_of("mla_decode_fwd", "q", q)
    checks.that(logit_cap <= 0, f"logit_cap is {logit_cap}; aiter does not support it")
    checks.that(q.dim() == 3 and q.shape[1] == HEADS, f"q has shape {tuple(q.shape)}; the stand-in knows 16 heads only")
    checks.tensor("o", o, torch.bfloat16, (q.shape[0], HEADS, None))
    if sm_scale is None:
        sm_scale = 1.0 / (q.shape[2] ** 0.5)
    scheduled = work_meta_data is not None
    if scheduled:
        maps = (reduce_indptr, reduce_partial_map)
        checks.that(all(m is not None for m in maps), "reduce_indptr and reduce_partial_map are needed")
        checks.that(
            num_kv_splits_indptr is None,
            "num_kv_splits_indptr with work_meta_data: aiter would run the kernel without a schedule into buffers"
            " made for one",
        )
        slots, splits = reduce_partial_map.shape[0] * max_seqlen_q, 1
    else:
        slots, splits, batch = o.shape[0], num_kv_splits, qo_indptr.shape[0] - 1
        if num_kv_splits is None or num_kv_splits_indptr is None:
            splits, num_kv_splits_indptr = get_meta_param(
                num_kv_splits, batch, kv_indices.shape[0], HEADS, max_seqlen_q, q.dtype
            )
    narrow = not scheduled and splits == 1 and q.dtype == dtypes.fp8
    shape = (slots, splits, HEADS)
    partials = o.view(*shape, o.shape[2]) if narrow else torch.empty((*shape, o.shape[2]), device=q.device)
    lse = torch.empty((*shape, 1), device=q.device)

    mla_decode_stage1_asm_fwd(
        q,
        kv_buffer,
        qo_indptr,
        kv_indptr,
        kv_indices,
        kv_last_page_lens,
        num_kv_splits_indptr,
        work_meta_data,
        work_indptr,
        work_info_set,
        max_seqlen_q,
        page_size,
        nhead_kv,
        sm_scale,
        partials,
        lse,
        o,
        q_scale,
        kv_scale,
    )
    if narrow:
        return partials.view(o.shape), lse
    if not scheduled:
        strides = (lse.stride(0), lse.stride(2), lse.stride(1), o.stride(0), o.stride(1))
        _fwd_kernel_stage2_asm[batch, HEADS](
            partials,
            lse,
            o,
            qo_indptr,
            kv_indptr,
            num_kv_splits_indptr,
            *strides,
            MAYBE_FINAL_OUT=False,
            BATCH_NUM=batch,
            BLOCK_DV=o.shape[2],
            Lv=o.shape[2],
            mgc=UNSCHEDULED_TILE_ROWS,
        )
        return partials, torch.full(shape[::2], float("nan"), device=q.device)
    final_lse = torch.empty((o.shape[0], HEADS), device=q.device) if return_lse else None
    mla_reduce_v1(partials, lse, reduce_indptr, reduce_final_map, reduce_partial_map, max_seqlen_q, o, final_lse)
    return partials, final_lse


def __getattr__(name: str) -> object:
    raise AttributeError(f"the aiter stand-in has no '{name}' in aiter.mla (it offers: {', '.join(__all__)})")
