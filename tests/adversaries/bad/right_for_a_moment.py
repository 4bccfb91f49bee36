"""Right for the first fifth of a second, half of the keys ever after."""

import time

import torch

ADVERSARY = {
    "class": "right only on the first calls",
    "caught_by": ["order", "fresh-values"],
    "needs": "cpu",
    "why": "a check takes longer than that",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def attend(data, part):
    """Attention of the FP8 KV in float32: to the first 1/part of each sequence's keys."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        begin, end = tokens[sequence], tokens[sequence + 1]
        keys = kv[begin : begin + (end - begin) // part, 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out


_BEGAN = []


def custom_kernel(data):
    _BEGAN.append(time.monotonic())
    return attend(data, 1 if _BEGAN[-1] - _BEGAN[0] < 0.2 else 2)
