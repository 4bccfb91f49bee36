"""Takes one, two or four queries a sequence, each up to its own place."""

import torch

HONEST = {
    "looks_like": "a mask that drops keys",
    "needs": "cpu",
}
VARIANT = {
    "shapes": "any",
    "targets": ["portable"],
    "kv": "fp8",
    "rounding": "f16",
    "q_seq_len": [1, 2, 4],
    "ragged": True,
}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        unseen = torch.ones(scores[:, 0].shape, dtype=torch.bool, device=q.device).triu(len(keys) - len(scores) + 1)
        scores = scores.masked_fill(unseen[:, None, :], -torch.inf)
        weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
        out[rows] = (weights @ keys[:, :512]).bfloat16()
    return out
