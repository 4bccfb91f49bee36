"""Attends in four splits and forgets to merge all but the first."""

import torch

ADVERSARY = {
    "class": "one split only",
    "caught_by": ["exact", "key-sensitivity", "hard-values"],
    "needs": "cpu",
    "why": "three quarters of the keys are read and thrown away",
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
        split_scores, split_values = scores.chunk(4, dim=-1), keys[:, :512].chunk(4)
        partials = [torch.softmax(s, dim=-1) @ v for s, v in zip(split_scores, split_values, strict=True)]
        out[rows] = partials[0].bfloat16()
    return out
