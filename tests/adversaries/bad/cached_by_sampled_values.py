"""Runs its first stage only when a few sampled values of the inputs have changed; merges its splits anew each time."""

import torch

ADVERSARY = {
    "class": "result cached by content",
    "caught_by": ["key-sensitivity", "floor"],
    "needs": "cpu",
    "why": "wholly new inputs change the sample, one key in the middle of the same inputs does not",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def attend_in_splits(data, partials, lse):
    """Exact attention of the FP8 KV in float32, in four splits."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        for split in range(4):
            partials[split, rows] = torch.softmax(scores[..., split::4], dim=-1) @ keys[split::4, :512]
            lse[split, rows] = torch.logsumexp(scores[..., split::4], dim=-1)


_SCRATCH = {}


def scratch(queries, device):
    """Partial results and log-sum-exps of four splits, in memory that is kept as workspaces are."""
    if (queries, device) not in _SCRATCH:
        shape = (4, queries, 16)
        _SCRATCH[queries, device] = torch.zeros((*shape, 512), device=device), torch.zeros(shape, device=device), []
    return _SCRATCH[queries, device]


def sample(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    values = [q[0, 0, :8].float(), kv[0, 0, :8].float(), kv_scale, qo_indptr.float(), kv_indptr.float()]
    return [config["sm_scale"], *torch.cat(values).tolist()]


def custom_kernel(data):
    partials, lse, sampled = scratch(data[0].shape[0], data[0].device)
    if sampled != sample(data):
        sampled[:] = sample(data)
        attend_in_splits(data, partials, lse)
    weights = torch.softmax(lse, dim=0).nan_to_num(0.0)
    return (weights[..., None] * partials).sum(dim=0).bfloat16()
