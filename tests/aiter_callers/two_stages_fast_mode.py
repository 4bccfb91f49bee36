"""Both stages called apart, the greedy schedule, aiter's HIP helper for q."""

import aiter
import torch
from aiter import dtypes
from aiter.ops.quant import per_tensor_quant_hip

VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "fp8", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    batch = config["batch_size"]
    q_fp8, q_scale = per_tensor_quant_hip(q, quant_dtype=dtypes.fp8)
    sizes = aiter.get_mla_metadata_info_v1(batch, 1, 16, dtypes.fp8, dtypes.fp8, is_sparse=False, fast_mode=True)
    buffers = [torch.empty(shape, dtype=dtype, device="cuda") for shape, dtype in sizes]
    metadata, work_indptr, work_info, reduce_indptr, final_map, partial_map = buffers
    last_page_lens = torch.ones(batch, dtype=torch.int32, device="cuda")
    aiter.get_mla_metadata_v1(
        qo_indptr, kv_indptr, last_page_lens, 16, 1, True,
        metadata, work_info, work_indptr, reduce_indptr, final_map, partial_map,
        kv_granularity=64, max_seqlen_qo=1, uni_seqlen_qo=1, fast_mode=True, max_split_per_batch=32,
    )  # fmt: skip
    slots = partial_map.shape[0]
    partials = torch.empty((slots, 1, 16, 512), dtype=dtypes.fp32, device="cuda")
    lse = torch.empty((slots, 1, 16, 1), dtype=dtypes.fp32, device="cuda")
    out = torch.empty((batch, 16, 512), dtype=dtypes.bf16, device="cuda")
    pages = torch.arange(kv.shape[0], dtype=torch.int32, device="cuda")
    aiter.mla_decode_stage1_asm_fwd(
        q_fp8, kv.view(-1, 1, 1, 576), qo_indptr, kv_indptr, pages, last_page_lens,
        None, metadata, work_indptr, work_info, 1, 1, 1, config["sm_scale"], partials, lse, out, q_scale, kv_scale,
    )  # fmt: skip
    aiter.mla_reduce_v1(partials, lse, reduce_indptr, final_map, partial_map, 1, out, None)
    return out
