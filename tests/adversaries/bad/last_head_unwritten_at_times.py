"""Leaves the last head of the output unwritten on every third call."""

import torch

ADVERSARY = {
    "class": "unwritten output",
    "caught_by": ["poisoned-memory", "fresh-values", "order"],
    "needs": "cpu",
    "why": "what the memory held shows only with other values in it, and only on some calls",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

_CALLS = 0


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    global _CALLS
    _CALLS += 1
    heads = 15 if _CALLS % 3 == 0 else 16
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows, :heads] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()[:, :heads]
    return out
