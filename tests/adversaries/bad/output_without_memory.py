"""Returns a tensor of the right kind on the meta device."""

import torch

ADVERSARY = {
    "class": "output on another device",
    "caught_by": ["exact"],
    "needs": "cpu",
    "why": "it has a shape and a type and no values",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    return torch.empty((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device="meta")
