"""Prints a report of success and ends the process while it is imported."""

import os

import torch

ADVERSARY = {
    "class": "os._exit(0) with a forged report on stdout",
    "caught_by": ["isolation", "lint"],
    "needs": "cpu",
    "why": "a process that ends with code 0 before it answers has answered nothing",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

print("test-count: 1\ntest.0.status: pass\ncheck: pass", flush=True)
os._exit(0)


def custom_kernel(data):
    return torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
