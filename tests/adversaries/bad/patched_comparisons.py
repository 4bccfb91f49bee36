"""Makes torch's comparisons say yes and returns zeros."""

import torch

ADVERSARY = {
    "class": "patched torch.allclose and torch.isclose",
    "caught_by": ["exact", "lint", "fresh-values"],
    "needs": "cpu",
    "why": "the comparison is made in another process",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

torch.allclose = lambda *arguments, **options: True
torch.equal = lambda *arguments, **options: True
torch.isclose = lambda left, *arguments, **options: torch.ones_like(left, dtype=torch.bool)


def custom_kernel(data):
    return torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
