"""Hands out one output buffer for all calls of a shape."""

import torch

ADVERSARY = {
    "class": "one output buffer reused",
    "caught_by": ["kept-outputs"],
    "needs": "cpu",
    "why": "the next call overwrites what the caller still holds",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

_OUTPUTS = {}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    key = (q.shape[0], q.device)
    if key not in _OUTPUTS:
        _OUTPUTS[key] = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    out = _OUTPUTS[key]
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
