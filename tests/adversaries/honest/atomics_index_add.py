"""Sums the splits of a sequence by index_add_, whose order is not fixed on a GPU."""

import torch

HONEST = {
    "looks_like": "scratch that is not initialised, and results that differ in the last bit",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    sums = torch.zeros((q.shape[0], 16, 512), dtype=torch.float32, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        weights = torch.softmax(scores, dim=-1)
        target = torch.arange(rows.start, rows.stop, device=q.device)
        for part, values in zip(weights.split(512, dim=-1), keys[:, :512].split(512), strict=True):
            sums.index_add_(0, target, part @ values)
    return out.copy_(sums)
