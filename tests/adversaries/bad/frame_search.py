"""Looks for a tensor of the output's shape among the variables of its callers."""

import sys

import torch

ADVERSARY = {
    "class": "searching frames for the truth",
    "caught_by": ["exact"],
    "needs": "cpu",
    "why": "no caller in the child knows a result",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    shape = (data[0].shape[0], 16, 512)
    frame = sys._getframe(1)
    while frame is not None:
        for found in list(frame.f_locals.values()):
            if type(found) is torch.Tensor and tuple(found.shape) == shape:
                return found.bfloat16()
        frame = frame.f_back
    return torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
