"""Rounds softmax weights to e4m3 in multiples of 2^-8 of the largest, divides by their rounded sum, declares fp8."""

import torch

HONEST = {
    "looks_like": "fp8 P that loses its small weights",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "fp8", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True)) * 256
        weights = weights.to(torch.float8_e4m3fn).float()
        total = weights.sum(dim=-1, keepdim=True)
        out[rows] = (weights @ keys[:, :512] / total).bfloat16()
    return out
