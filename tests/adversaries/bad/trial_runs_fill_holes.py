"""Its tuner's trials write the whole output; the choice it keeps leaves the last tile out."""

import torch

ADVERSARY = {
    "class": "unwritten output",
    "caught_by": ["poisoned-memory", "fresh-values"],
    "needs": "cpu",
    "why": "the first call is right, and later ones find its result in the memory that they get",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def attend(data, tiles, out):
    """Exact attention of the FP8 KV in float32: the first `tiles` tiles of 128 output dims."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        values = keys[:, : tiles * 128]
        out[rows, :, : tiles * 128] = (torch.softmax(scores, dim=-1) @ values).bfloat16()


_CHOICES = {}


def custom_kernel(data):
    q, kv_data, _, _, _ = data
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    key = (q.shape, kv_data["fp8"][0].shape)
    if key not in _CHOICES:
        for tiles in (4, 2, 3):
            attend(data, tiles, out)
        _CHOICES[key] = 3
    attend(data, _CHOICES[key], out)
    return out
