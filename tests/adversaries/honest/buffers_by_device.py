"""Keeps q's float32 copy in a buffer for each device and fills it anew in every call."""

import torch

HONEST = {
    "looks_like": "q cached by pointer",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

_BUFFERS = {}


def copied(q):
    """q in float32, in memory that the next call overwrites."""
    buffer = _BUFFERS.get(q.device)
    if buffer is None or buffer.numel() < q.numel():
        buffer = _BUFFERS[q.device] = torch.empty(q.numel(), dtype=torch.float32, device=q.device)
    return buffer[: q.numel()].view(q.shape).copy_(q)


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    q = copied(q)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows] @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
