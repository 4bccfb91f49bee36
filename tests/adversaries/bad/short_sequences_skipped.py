"""Gives zeros for sequences of fewer than 16 keys."""

import torch

ADVERSARY = {
    "class": "kv length 1 wrong",
    "caught_by": ["hard-shapes"],
    "needs": "cpu",
    "why": "no public case is as short",
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
        out[rows] = 0 if len(keys) < 16 else (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
