"""Looks for a float64 tensor of the output's shape among all live objects."""

import gc

import torch

ADVERSARY = {
    "class": "searching gc for the truth",
    "caught_by": ["exact", "lint"],
    "needs": "cpu",
    "why": "the truth is made in another process, after the output is there",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    shape = (data[0].shape[0], 16, 512)
    for found in gc.get_objects():
        if type(found) is torch.Tensor and found.dtype == torch.float64 and tuple(found.shape) == shape:
            return found.bfloat16()
    return torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
