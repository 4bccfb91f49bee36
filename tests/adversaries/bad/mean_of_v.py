"""Returns the mean of the values, the same for all heads."""

import torch

ADVERSARY = {
    "class": "mean of V",
    "caught_by": ["exact", "key-sensitivity", "hard-values"],
    "needs": "cpu",
    "why": "right only where all scores are equal",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, _ = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        out[rows] = keys[:, :512].mean(dim=0).bfloat16()
    return out
