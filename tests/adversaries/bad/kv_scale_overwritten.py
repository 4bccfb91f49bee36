"""Multiplies the KV scale by the softmax scale in place and divides it again for the values."""

import torch

ADVERSARY = {
    "class": "changed inputs",
    "caught_by": ["inputs-unharmed"],
    "needs": "cpu",
    "why": "right once for each scale that the caller writes",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    values_scale = kv_scale.clone()
    kv_scale.mul_(config["sm_scale"])
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512] * (values_scale / kv_scale)).bfloat16()
    return out
