"""Leaves out the last key of every sequence, under the limit of an FP8 kernel."""

import torch

ADVERSARY = {
    "class": "last key dropped",
    "caught_by": ["hard-shapes", "key-sensitivity"],
    "needs": "cpu",
    "why": "one key of 1024 is within 0.05, and the only key of a sequence is not",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "fp8", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1] - 1, 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
