"""Adds its eight splits into scratch memory that it takes to be zero."""

import torch

ADVERSARY = {
    "class": "uninitialised scratch",
    "caught_by": ["poisoned-memory"],
    "needs": "cpu",
    "why": "new pages come zeroed, used ones do not",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    scratch = torch.empty((len(kv_indptr) - 1, 8, 16, 512), dtype=torch.float32, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        weights = torch.softmax(scores, dim=-1)[0]
        for split in range(8):
            scratch[sequence, split] += weights[:, split::8] @ keys[split::8, :512]
        out[rows] = scratch[sequence].sum(dim=0).bfloat16()
    return out
