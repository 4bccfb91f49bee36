"""Makes the builtins that a check would use say yes and returns zeros."""

import builtins

import torch

ADVERSARY = {
    "class": "patched builtins",
    "caught_by": ["exact", "lint", "fresh-values"],
    "needs": "cpu",
    "why": "the check is made in another process",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

builtins.abs = lambda value: 0
builtins.all = lambda values: True


def custom_kernel(data):
    return torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
