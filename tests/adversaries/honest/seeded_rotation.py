"""Flips the signs of the same seeded random dims in q and in the keys, which changes no score."""

import functools

import torch

HONEST = {
    "looks_like": "inputs regenerated from a seed",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


@functools.cache
def random_signs(device):
    """(576,) float32 of plus and minus one, drawn on the CPU so that all devices have the same."""
    bits = torch.randint(0, 2, (576,), generator=torch.Generator().manual_seed(4220))
    return (bits * 2 - 1).float().to(device)


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    signs = random_signs(q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = (q[rows].float() * signs) @ (keys * signs).T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out
