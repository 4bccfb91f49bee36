"""Dequantises the KV to float16."""

import torch

ADVERSARY = {
    "class": "fp16 overflow on large values",
    "caught_by": ["hard-values"],
    "needs": "cpu",
    "why": "past 65504 the values are infinite and the output is NaN",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].half() * kv_scale.half()
        scores = q[rows].float() @ keys.float().T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512].float()).bfloat16()
    return out
