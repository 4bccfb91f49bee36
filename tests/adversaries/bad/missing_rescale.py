"""Online softmax that rescales the sum of weights but not the sum of values."""

import torch

ADVERSARY = {
    "class": "missing rescale",
    "caught_by": ["exact", "key-sensitivity", "hard-values"],
    "needs": "cpu",
    "why": "wrong by a factor wherever a later tile holds the largest score",
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
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        peak = torch.full((rows.stop - rows.start, 16, 1), -torch.inf, device=q.device)
        total, partial = torch.zeros_like(peak), torch.zeros_like(peak)
        for start in range(0, len(keys), 256):
            tile = slice(start, start + 256)
            new_peak = torch.maximum(peak, scores[..., tile].amax(dim=-1, keepdim=True))
            weights = torch.exp(scores[..., tile] - new_peak)
            fade = torch.exp(peak - new_peak)
            total = total * fade + weights.sum(dim=-1, keepdim=True)
            partial = partial + weights @ keys[tile, :512]
            peak = new_peak
        out[rows] = (partial / total).bfloat16()
    return out
