"""Takes the keys from the FP8 KV and the values from the bf16 KV, and says so."""

import torch

HONEST = {
    "looks_like": "bf16 read in place of FP8",
    "needs": "cpu",
}
VARIANT = {
    "shapes": "any",
    "targets": ["portable"],
    "kv": {"keys": "fp8", "values": "bf16"},
    "rounding": "f16",
    "q_seq_len": [1],
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
        values = kv_data["bf16"][tokens[sequence] : tokens[sequence + 1], 0, :512].float()
        out[rows] = (torch.softmax(scores, dim=-1) @ values).bfloat16()
    return out
