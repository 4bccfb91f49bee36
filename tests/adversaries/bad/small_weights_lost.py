"""Drops weights under a thousandth of the largest from the numerator and keeps them in the sum."""

import torch

ADVERSARY = {
    "class": "lost P weights",
    "caught_by": ["hard-values"],
    "needs": "cpu",
    "why": "peaky rows lose a part of their mass, normal ones next to nothing",
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
        weights = torch.where(weights < 1e-3, 0.0, weights)
        out[rows] = (weights / total @ keys[:, :512]).bfloat16()
    return out
