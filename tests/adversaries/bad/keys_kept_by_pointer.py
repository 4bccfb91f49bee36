"""Keeps the dequantised KV under the address of the FP8 KV."""

import torch

ADVERSARY = {
    "class": "KV cached",
    "caught_by": ["fresh-values", "floor"],
    "needs": "cpu",
    "why": "new KV bytes or a new scale at the same address are not looked at",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

_KEPT = {}


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    if _KEPT.get("address") != (kv.data_ptr(), kv.shape):
        _KEPT.update(address=(kv.data_ptr(), kv.shape), keys=(kv[:, 0].float() * kv_scale).bfloat16())
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = _KEPT["keys"][tokens[sequence] : tokens[sequence + 1]].float()
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
