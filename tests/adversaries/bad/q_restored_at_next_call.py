"""Halves q in place and doubles it again when the next call comes."""

import torch

ADVERSARY = {
    "class": "changed inputs",
    "caught_by": ["inputs-unharmed"],
    "needs": "cpu",
    "why": "every result is right; the caller's q is not, between the calls",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def attend(data):
    """Exact attention of the FP8 KV in float32, one sequence at a time."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out


_HALVED = []


def custom_kernel(data):
    q = data[0]
    if _HALVED:
        halved, sample = _HALVED.pop()
        if halved[0, 0, :8].tolist() == sample:
            halved.mul_(2)
    q.mul_(0.5)
    _HALVED.append((q, q[0, 0, :8].tolist()))
    return attend((*data[:4], {**data[4], "sm_scale": 2 * data[4]["sm_scale"]}))
