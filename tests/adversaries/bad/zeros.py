"""Returns zeros."""

import torch

ADVERSARY = {
    "class": "zeros",
    "caught_by": ["exact", "fresh-values", "key-sensitivity", "hard-values", "floor"],
    "needs": "cpu",
    "why": "the outputs at kv 8192 are so small that the platform's rule lets zeros pass",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q = data[0]
    return torch.zeros((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
