"""Puts an event in place of torch's that says a microsecond."""

import torch

ADVERSARY = {
    "class": "patched torch.cuda.Event",
    "caught_by": ["lint", "outside-clock"],
    "needs": "cpu",
    "why": "the outputs are right; a clock bound before the import is not fooled, and the platform refuses the file",
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


class QuickEvent:
    """Has the methods of torch.cuda.Event and measures nothing."""

    def __init__(self, *arguments, **options):
        pass

    def record(self, *arguments):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return 0.001


torch.cuda.Event = QuickEvent


def custom_kernel(data):
    return attend(data)
