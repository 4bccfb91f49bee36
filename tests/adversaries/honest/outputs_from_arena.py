"""Cuts its outputs from a larger block, each piece once."""

import torch

HONEST = {
    "looks_like": "outputs that share a storage",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

_ARENAS = {}


def new_output(queries, device):
    """Uninitialised (queries, 16, 512) bfloat16: a piece of a block of four that was never handed out before."""
    pieces = _ARENAS.setdefault((queries, device), [])
    if not pieces:
        pieces.extend(torch.empty((4, queries, 16, 512), dtype=torch.bfloat16, device=device))
    return pieces.pop()


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = new_output(q.shape[0], q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
