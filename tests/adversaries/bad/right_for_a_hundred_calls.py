"""Right on the first hundred calls, zeros ever after."""

import torch

ADVERSARY = {
    "class": "right only on the first calls",
    "caught_by": ["exact", "floor"],
    "needs": "cuda",
    "why": "only a look at the outputs of the timed calls shows it",
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


_CALLS = 0


def custom_kernel(data):
    global _CALLS
    _CALLS += 1
    return (
        attend(data)
        if _CALLS <= 100
        else torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
    )
