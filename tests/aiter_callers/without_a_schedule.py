"""The kernel without a schedule and the merge kernel of aiter.mla, on the bf16 KV."""

import aiter
import torch
from aiter.mla import _fwd_kernel_stage2_asm, get_meta_param

VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "bf16", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv = kv_data["bf16"]
    batch = config["batch_size"]
    splits, split_indptr = get_meta_param(None, batch, kv.shape[0], 16, 1, q.dtype)
    partials = torch.empty((batch, splits, 16, 512), dtype=torch.float32, device="cuda")
    lse = torch.empty((batch, splits, 16, 1), dtype=torch.float32, device="cuda")
    out = torch.empty((batch, 16, 512), dtype=torch.bfloat16, device="cuda")
    pages = torch.arange(kv.shape[0], dtype=torch.int32, device="cuda")
    ones = torch.ones(batch, dtype=torch.int32, device="cuda")
    aiter.mla_decode_stage1_asm_fwd(
        q, kv.view(-1, 1, 1, 576), qo_indptr, kv_indptr, pages, ones, split_indptr, None, None, None,
        1, 1, 1, config["sm_scale"], partials, lse, out,
    )  # fmt: skip
    _fwd_kernel_stage2_asm[(batch, 16)](
        partials, lse, out, qo_indptr, kv_indptr, split_indptr,
        lse.stride(0), lse.stride(2), lse.stride(1), out.stride(0), out.stride(1),
        MAYBE_FINAL_OUT=False, BATCH_NUM=batch, BLOCK_DV=512, Lv=512, mgc=64, num_warps=4, num_stages=2, waves_per_eu=4,
    )  # fmt: skip
    return out
