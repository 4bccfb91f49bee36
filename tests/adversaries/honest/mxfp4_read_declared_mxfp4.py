"""Reads the MXFP4 KV with its padded scales, and says so."""

import torch

HONEST = {
    "looks_like": "a KV of several times the error",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "mxfp4", "rounding": "f16", "q_seq_len": [1], "ragged": True}

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def read_mxfp4(packed, scales, begin, end):
    """Rows begin..end in float32: two e2m1 a byte, low nibble first, an e8m0 scale for each 32 of them."""
    codes = packed.view(torch.uint8)[begin:end, 0]
    values = torch.tensor(E2M1, device=codes.device)[torch.stack((codes & 15, codes >> 4), dim=-1).int()]
    exponents = scales.view(torch.uint8)[begin:end, :18].float() - 127
    return (values.view(-1, 18, 32) * torch.exp2(exponents)[..., None]).view(-1, 576)


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    packed, scales = kv_data["mxfp4"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = read_mxfp4(packed, scales, tokens[sequence], tokens[sequence + 1])
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
