"""Rounds q to e4m3 with a scale of its own and declares f16."""

import torch

ADVERSARY = {
    "class": "fp8 q while declaring f16",
    "caught_by": ["exact"],
    "needs": "cpu",
    "why": "the error of FP8 scores is over the limit of the declared rounding",
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
        q_scale = q[rows].float().abs().amax() / 448
        rounded = (q[rows].float() / q_scale).to(torch.float8_e4m3fn).float() * q_scale
        scores = rounded @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
