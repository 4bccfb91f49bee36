"""Swaps the first two keys of every sequence in place."""

import torch

ADVERSARY = {
    "class": "changed inputs",
    "caught_by": ["inputs-unharmed"],
    "needs": "cpu",
    "why": "attention does not mind the order of the keys; whoever owns the cache does",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        if tokens[sequence + 1] - tokens[sequence] > 1:
            pair = kv.view(torch.uint8)[tokens[sequence] : tokens[sequence] + 2]
            pair.copy_(pair.flip(0))
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
