"""Reads the sequence boundaries once for each shape."""

import torch

ADVERSARY = {
    "class": "schedule cached",
    "caught_by": ["fresh-values"],
    "needs": "cpu",
    "why": "the same number of keys can be cut into other sequences",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

_SCHEDULES = {}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    key = (q.shape, kv.shape)
    if key not in _SCHEDULES:
        _SCHEDULES[key] = (qo_indptr.tolist(), kv_indptr.tolist())
    queries, tokens = _SCHEDULES[key]
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
