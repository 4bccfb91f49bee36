"""Looks for the clock on the call stack and returns zeros when it is timed."""

import sys

import torch

ADVERSARY = {
    "class": "stack detection",
    "caught_by": ["exact", "floor"],
    "needs": "cuda",
    "why": "timed calls must be verified as well as those before them",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def attend(data):
    """Exact attention of the FP8 KV in float32, one sequence at a time."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        rows = slice(queries[sequence], queries[sequence + 1])
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
        scores = q[rows].float() @ keys.T * config["sm_scale"]
        out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()
    return out


CLOCKS = ("queued", "exposed", "time", "timed", "_run_single_benchmark", "run_single_benchmark")


def custom_kernel(data):
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in CLOCKS:
            return torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
        frame = frame.f_back
    return attend(data)
