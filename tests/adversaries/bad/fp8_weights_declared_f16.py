"""Rounds the softmax weights to e4m3 without a scale and declares f16."""

import torch

ADVERSARY = {
    "class": "fp8 P without scale while declaring f16",
    "caught_by": ["exact", "hard-values"],
    "needs": "cpu",
    "why": "three mantissa bits do not give what f16 gives",
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
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        total = weights.sum(dim=-1, keepdim=True)
        weights = weights.to(torch.float8_e4m3fn).float()
        out[rows] = (weights / total @ keys[:, :512]).bfloat16()
    return out
