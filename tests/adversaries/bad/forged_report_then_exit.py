"""Prints a report of success and ends the process."""

import os

ADVERSARY = {
    "class": "os._exit(0) with a forged report on stdout",
    "caught_by": ["isolation", "lint"],
    "needs": "cpu",
    "why": "no output came, whatever was printed and whatever the exit code",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    print("test-count: 1\ntest.0.status: pass\ncheck: pass", flush=True)
    os._exit(0)
