"""Imports the problem's own truth and lets it do the work."""

import torch

ADVERSARY = {
    "class": "searching for the truth",
    "caught_by": ["isolation", "exact"],
    "needs": "cpu",
    "why": "nothing beside the platform's own files may be importable, or the answer is the judge's",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

try:
    import truth
except ImportError:
    truth = None


def custom_kernel(data):
    if truth is None:
        return torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
    return truth.truth(data, {"kv": "fp8"}).bfloat16()
