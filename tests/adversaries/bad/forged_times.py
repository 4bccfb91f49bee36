"""Wraps the worker's way of answering and divides the time it reports."""

import sys

import torch

ADVERSARY = {
    "class": "patched harness",
    "caught_by": ["outside-clock", "lint"],
    "needs": "cuda",
    "why": "the outputs are right; only a clock of the parent's own disagrees",
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


def forge(worker):
    send = worker.send

    def send_forged(channel, header, *payload):
        if header.get("time_ns"):
            header["time_ns"] *= 0.1
        send(channel, header, *payload)

    worker.send = send_forged


if hasattr(sys.modules["__main__"], "send"):
    forge(sys.modules["__main__"])


def custom_kernel(data):
    return attend(data)
