"""Cuts the KV into equal parts and declares ragged."""

import torch

ADVERSARY = {
    "class": "correct only for contiguous indptr while declaring ragged",
    "caught_by": ["hard-shapes", "fresh-values"],
    "needs": "cpu",
    "why": "right wherever all sequences are as long as each other",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, _, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), range(0, kv.shape[0] + 1, kv.shape[0] // config["batch_size"])
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
