"""Returns one small constant."""

import torch

ADVERSARY = {
    "class": "constant",
    "caught_by": ["exact", "fresh-values", "key-sensitivity", "hard-values", "floor"],
    "needs": "cpu",
    "why": "as near to the truth as zeros are under the platform's rule",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q = data[0]
    return torch.full((q.shape[0], 16, 512), 0.01, dtype=torch.bfloat16, device=q.device)
