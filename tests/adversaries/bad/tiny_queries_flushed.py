"""Sets values of q under the smallest e4m3 number to zero."""

import torch

ADVERSARY = {
    "class": "tiny q flushed",
    "caught_by": ["hard-values"],
    "needs": "cpu",
    "why": "a tiny q still chooses among keys with a large scale",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        rows_q = q[rows].float()
        rows_q = torch.where(rows_q.abs() < 2**-9, 0.0, rows_q)
        scores = rows_q @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
