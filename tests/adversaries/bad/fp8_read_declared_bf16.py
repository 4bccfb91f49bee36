"""Reads the FP8 KV and declares bf16."""

import torch

ADVERSARY = {
    "class": "fp8 KV read while declaring bf16",
    "caught_by": ["exact", "hard-values"],
    "needs": "cpu",
    "why": "the rounding of the KV costs about 0.03, three times the limit of the declared rounding",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "bf16", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
