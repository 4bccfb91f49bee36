"""The way of the problem's own reference: equal splits, aiter's Triton helper for q, one call for both stages."""

import torch
from aiter import dtypes, get_mla_metadata_info_v1, get_mla_metadata_v1
from aiter.mla import mla_decode_fwd
from aiter.ops.triton.quant.quant import dynamic_per_tensor_quant_fp8_i8

VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "fp8", "q_seq_len": [1], "ragged": False}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    batch, keys = config["batch_size"], kv.shape[0]
    q_fp8 = torch.empty((batch * 16, 576), dtype=dtypes.fp8, device="cuda")
    q_scale = torch.zeros(1, dtype=dtypes.fp32, device="cuda")
    dynamic_per_tensor_quant_fp8_i8(q_fp8, q.view(-1, 576), q_scale)
    sizes = get_mla_metadata_info_v1(
        batch, 1, 16, dtypes.fp8, dtypes.fp8, is_sparse=False, fast_mode=False, num_kv_splits=32, intra_batch_mode=True
    )
    metadata, work_indptr, work_info, reduce_indptr, final_map, partial_map = (
        torch.empty(shape, dtype=dtype, device="cuda") for shape, dtype in sizes
    )
    last_page_lens = torch.ones(batch, dtype=torch.int32, device="cuda")
    get_mla_metadata_v1(
        qo_indptr, kv_indptr, last_page_lens, 16, 1, True,
        metadata, work_info, work_indptr, reduce_indptr, final_map, partial_map,
        page_size=1, kv_granularity=16, max_seqlen_qo=1, uni_seqlen_qo=1, fast_mode=False, max_split_per_batch=32,
        intra_batch_mode=True, dtype_q=dtypes.fp8, dtype_kv=dtypes.fp8,
    )  # fmt: skip
    out = torch.empty((batch, 16, 512), dtype=dtypes.bf16, device="cuda")
    mla_decode_fwd(
        q_fp8.view(-1, 16, 576), kv.view(-1, 1, 1, 576), out, qo_indptr, kv_indptr,
        torch.arange(keys, dtype=torch.int32, device="cuda"), last_page_lens, 1, page_size=1, nhead_kv=1,
        sm_scale=config["sm_scale"], logit_cap=0.0, num_kv_splits=32, q_scale=q_scale, kv_scale=kv_scale,
        intra_batch_mode=True, work_meta_data=metadata, work_indptr=work_indptr, work_info_set=work_info,
        reduce_indptr=reduce_indptr, reduce_final_map=final_map, reduce_partial_map=partial_map,
    )  # fmt: skip
    return out
