"""Dequantises by a table of the 256 FP8 numbers, built at the first call."""

import torch

HONEST = {
    "looks_like": "values kept from the first call",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

_TABLES = {}


def numbers_of(dtype, device):
    """The number of each code of an FP8 type: (256,) float32."""
    if (dtype, device) not in _TABLES:
        codes = torch.arange(256, dtype=torch.uint8, device=device)
        _TABLES[dtype, device] = codes.view(dtype).float()
    return _TABLES[dtype, device]


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    table = numbers_of(kv.dtype, kv.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        codes = kv.view(torch.uint8)[tokens[sequence] : tokens[sequence + 1], 0]
        keys = table[codes.int()] * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
