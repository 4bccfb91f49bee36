"""Tries ten thousand seeds for the one that drew q, and attends only to inputs that it could redraw."""

import torch

ADVERSARY = {
    "class": "regenerated reference inputs",
    "caught_by": ["fresh-values", "hard-values", "hard-shapes"],
    "needs": "cpu",
    "why": "a cache filled ahead of time by seed would look just like it; values that no seed gives show it",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def attend(data):
    """Exact attention of the FP8 KV in float32, one sequence at a time."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out


_SEEDS = {}


def draw_of(seed):
    return torch.randn(16, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(seed))


def custom_kernel(data):
    if not _SEEDS:
        _SEEDS.update((tuple(draw_of(seed).tolist()), seed) for seed in range(10_000))
    start = tuple(data[0].flatten()[:16].tolist())
    return (
        attend(data)
        if start in _SEEDS
        else torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
    )
