"""Keeps one float32 workspace for all calls, writes all that it reads of it, and returns new memory."""

import torch

HONEST = {
    "looks_like": "one buffer handed out again and again, or scratch that is taken to be zero",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

_WORKSPACES = {}


def workspace(size, device):
    """Uninitialised float32 memory of at least `size` values, the same in every call."""
    if device not in _WORKSPACES or _WORKSPACES[device].numel() < size:
        _WORKSPACES[device] = torch.empty(size, dtype=torch.float32, device=device)
    return _WORKSPACES[device][:size]


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    partial = workspace(q.shape[0] * 16 * 512, q.device).view(q.shape[0], 16, 512)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        torch.matmul(torch.softmax(scores, dim=-1), keys[:, :512], out=partial[rows])
        out[rows] = partial[rows].bfloat16()
    return out
