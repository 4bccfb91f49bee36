"""Keeps the float32 copy of q under the address of q."""

import torch

ADVERSARY = {
    "class": "q cached",
    "caught_by": ["fresh-values"],
    "needs": "cpu",
    "why": "a new q at the same address is not looked at",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

_COPIES = {}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    if _COPIES.get("address") != (q.data_ptr(), q.shape):
        _COPIES.update(address=(q.data_ptr(), q.shape), q=q.float())
    q = _COPIES["q"]
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows] @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
