"""Scales the scores by the root of 512, the value dims, and not of 576."""

import torch

ADVERSARY = {
    "class": "wrong softmax scale",
    "caught_by": ["exact", "hard-values"],
    "needs": "cpu",
    "why": "6 % too sharp, within the platform's tolerance",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["v_head_dim"] ** -0.5
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
