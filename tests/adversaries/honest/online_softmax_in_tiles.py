"""Online softmax over tiles of 512 keys, each dequantised once."""

import torch

HONEST = {
    "looks_like": "a missing rescale",
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
        peak = torch.full((rows.stop - rows.start, 16, 1), -1e30, device=q.device)
        total, partial = torch.zeros_like(peak), torch.zeros((*peak.shape[:2], 512), device=q.device)
        for start in range(tokens[sequence], tokens[sequence + 1], 512):
            keys = kv[start : min(start + 512, tokens[sequence + 1]), 0].float() * kv_scale
            scores = q[rows].float() @ keys.T * config["sm_scale"]
            new_peak = torch.maximum(peak, scores.amax(dim=-1, keepdim=True))
            weights, fade = torch.exp(scores - new_peak), torch.exp(peak - new_peak)
            total = total * fade + weights.sum(dim=-1, keepdim=True)
            partial = partial * fade + weights @ keys[:, :512]
            peak = new_peak
        out[rows] = (partial / total).bfloat16()
    return out
