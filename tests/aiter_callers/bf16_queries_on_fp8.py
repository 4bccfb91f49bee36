"""bf16 queries on the fp8 KV, so that q need not be rounded."""

import aiter
import torch
from aiter import dtypes

VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    batch = config["batch_size"]
    sizes = aiter.get_mla_metadata_info_v1(batch, 1, 16, dtypes.bf16, dtypes.fp8, is_sparse=False)
    buffers = [torch.empty(shape, dtype=dtype, device="cuda") for shape, dtype in sizes]
    metadata, work_indptr, work_info, *reduce = buffers
    ones = torch.ones(batch, dtype=torch.int32, device="cuda")
    aiter.get_mla_metadata_v1(
        qo_indptr, kv_indptr, ones, 16, 1, True, metadata, work_info, work_indptr, *reduce,
        max_seqlen_qo=1, uni_seqlen_qo=1, dtype_q=dtypes.bf16, dtype_kv=dtypes.fp8,
    )  # fmt: skip
    out = torch.empty((batch, 16, 512), dtype=dtypes.bf16, device="cuda")
    aiter.mla.mla_decode_fwd(
        q, kv.view(-1, 1, 1, 576), out, qo_indptr, kv_indptr,
        torch.arange(kv.shape[0], dtype=torch.int32, device="cuda"), ones, 1, sm_scale=config["sm_scale"],
        kv_scale=kv_scale, work_meta_data=metadata, work_indptr=work_indptr, work_info_set=work_info,
        reduce_indptr=reduce[0], reduce_final_map=reduce[1], reduce_partial_map=reduce[2],
    )  # fmt: skip
    return out
