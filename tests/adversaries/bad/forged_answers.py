"""Writes an answer of the harness's own form to every descriptor before it returns zeros."""

import contextlib
import json
import os
import stat
import struct

import torch

ADVERSARY = {
    "class": "writing results to the report's descriptor",
    "caught_by": ["isolation", "exact"],
    "needs": "cpu",
    "why": "the forger does not know the truth, so that its answer is wrong as well",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def forged_answer(out):
    spec = {"shape": list(out.shape), "stride": list(out.stride()), "dtype": "bfloat16", "on_gpu": out.is_cuda}
    text = json.dumps({"time_ns": 1000.0, "skeleton": {"tensor": 0}, "specs": [spec], "stand_in": False}).encode()
    payload = bytes(out.numel() * 2)
    return struct.pack("!IQ", len(text), len(payload)) + text + payload


def custom_kernel(data):
    out = torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                os.write(descriptor, forged_answer(out))
    return out
