"""Rounds lengths of 64 and more down to whole blocks of 64."""

import torch

ADVERSARY = {
    "class": "last partial block dropped",
    "caught_by": ["hard-shapes", "fresh-values"],
    "needs": "cpu",
    "why": "the shapes of the leaderboard have no partial block",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def whole_blocks(length):
    return length - length % 64 if length >= 64 else length


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        length = whole_blocks(tokens[sequence + 1] - tokens[sequence])
        keys = kv[tokens[sequence] : tokens[sequence] + length, 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
