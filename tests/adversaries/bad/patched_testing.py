"""Makes torch.testing and the problem's own check say yes and returns zeros."""

import torch

import reference

ADVERSARY = {
    "class": "patched torch.testing",
    "caught_by": ["exact", "lint", "fresh-values"],
    "needs": "cpu",
    "why": "the check is made in another process",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

torch.testing.assert_close = lambda *arguments, **options: None
reference.check_implementation = lambda data, output: (True, "")


def custom_kernel(data):
    return torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
