"""The MXFP4 KV made bf16 by aiter's helpers, and attention without a schedule."""

import torch
from aiter.mla import mla_decode_fwd
from aiter.utility.fp4_utils import e8m0_to_f32, mxfp4_to_f32

VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "mxfp4", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    packed, scales = kv_data["mxfp4"]
    rows = packed.shape[0]
    values = mxfp4_to_f32(packed.view(rows, 288)).view(rows, 18, 32)
    kv = (values * e8m0_to_f32(scales[:rows, :18])[..., None]).to(torch.bfloat16).view(rows, 1, 1, 576)
    batch = config["batch_size"]
    out = torch.empty((batch, 16, 512), dtype=torch.bfloat16, device="cuda")
    pages = torch.arange(rows, dtype=torch.int32, device="cuda")
    ones = torch.ones(batch, dtype=torch.int32, device="cuda")
    mla_decode_fwd(q, kv, out, qo_indptr, kv_indptr, pages, ones, 1, sm_scale=config["sm_scale"])
    return out
