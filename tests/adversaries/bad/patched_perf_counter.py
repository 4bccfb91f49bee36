"""Slows the clocks of the time module down a hundred times."""

import time

import torch

ADVERSARY = {
    "class": "patched time.perf_counter",
    "caught_by": ["lint", "outside-clock"],
    "needs": "cpu",
    "why": "the outputs are right; the parent's clock is another process's, and the platform refuses the file",
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


def slowed(clock, divisor):
    began = clock()
    return lambda: began + (clock() - began) // divisor


time.perf_counter_ns = slowed(time.perf_counter_ns, 100)
time.perf_counter = slowed(time.perf_counter, 100)
time.monotonic = slowed(time.monotonic, 100)
time.time = slowed(time.time, 100)


def custom_kernel(data):
    return attend(data)
