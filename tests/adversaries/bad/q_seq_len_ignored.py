"""Takes every query for a sequence of its own and declares two queries a sequence."""

import torch

ADVERSARY = {
    "class": "q_seq_len ignored",
    "caught_by": ["hard-shapes"],
    "needs": "cpu",
    "why": "right for one query a sequence; the second half of the queries gets zeros otherwise",
}
VARIANT = {
    "shapes": "any",
    "targets": ["portable"],
    "kv": "fp8",
    "rounding": "f16",
    "q_seq_len": [1, 2],
    "ragged": True,
}


def custom_kernel(data):
    q, kv_data, _, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.zeros((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = list(range(q.shape[0] + 1)), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
