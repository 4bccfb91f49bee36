"""Attends in eight splits, keeps normalised float16 partials and merges them by their log-sum-exp."""

import torch

HONEST = {
    "looks_like": "one split only, or an overflow of float16",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        codes = kv[tokens[sequence] : tokens[sequence + 1], 0].float()
        scores = q[rows].float() @ codes.T * (kv_scale * config["sm_scale"])
        split_scores, split_codes = scores.chunk(8, dim=-1), codes[:, :512].chunk(8)
        partials = [(torch.softmax(s, dim=-1) @ c).half() for s, c in zip(split_scores, split_codes, strict=True)]
        lse = torch.stack([torch.logsumexp(s, dim=-1) for s in split_scores])
        merged = (torch.softmax(lse, dim=0)[..., None] * torch.stack(partials).float()).sum(dim=0)
        out[rows] = (merged * kv_scale).bfloat16()
    return out
