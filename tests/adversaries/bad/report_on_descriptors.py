"""Writes a report of success to the report's descriptor, or to all that are open."""

import contextlib
import os
import stat

import torch

ADVERSARY = {
    "class": "writing results to the report's descriptor",
    "caught_by": ["isolation", "exact", "lint"],
    "needs": "cpu",
    "why": "the report's descriptor is not the child's, and garbage on the channel is a failure",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

REPORT = b"test-count: 1\ntest.0.status: pass\ncheck: pass\n"


def custom_kernel(data):
    named = os.environ.get("POPCORN_FD", "")
    for descriptor in [int(named)] if named.isdigit() else range(3, 64):
        with contextlib.suppress(OSError):
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                os.write(descriptor, REPORT)
    return torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
