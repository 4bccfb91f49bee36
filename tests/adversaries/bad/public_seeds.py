"""Knows the inputs of the public seeds, and guesses for all others."""

import torch

ADVERSARY = {
    "class": "regenerated reference inputs",
    "caught_by": ["fresh-values", "hard-values", "hard-shapes"],
    "needs": "cpu",
    "why": "the seeds stand in the task file; values that no seed gives show it",
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


def is_drawn_from(seed, q):
    """Whether q is the first draw of the problem's generator with this seed."""
    generator = torch.Generator(device=q.device).manual_seed(seed)
    return torch.equal(q, torch.randn(q.shape, dtype=q.dtype, device=q.device, generator=generator))


SEEDS = (4217, 4220, 5412, 5415, 1357, 1360, 9823, 9826)


def custom_kernel(data):
    q = data[0]
    if any(is_drawn_from(seed, q) for seed in SEEDS):
        return attend(data)
    return (q[..., :512] / 24).contiguous()
