"""Rounds the length up to 1024 or 8192 and reads on into the next sequence."""

import torch

ADVERSARY = {
    "class": "constants taken for lengths",
    "caught_by": ["hard-shapes", "fresh-values"],
    "needs": "cpu",
    "why": "right for the two public lengths",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        length = 1024 if config["kv_seq_len"] <= 1024 else 8192
        keys = kv[tokens[sequence] : tokens[sequence] + length, 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
