"""Multiplies q by the softmax scale in place and divides it again at the end."""

import torch

ADVERSARY = {
    "class": "changed inputs",
    "caught_by": ["inputs-unharmed"],
    "needs": "cpu",
    "why": "bfloat16 does not come back to the last bit",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    q.mul_(config["sm_scale"])
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    q.div_(config["sm_scale"])
    return out
