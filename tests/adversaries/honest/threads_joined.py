"""Attends to the sequences on four threads and waits for them all."""

from concurrent.futures import ThreadPoolExecutor

import torch

HONEST = {
    "looks_like": "work left on a thread",
    "needs": "cpu",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def attend_to_one(data, out, sequence):
    """Exact attention of the FP8 KV in float32 for one sequence."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    queries, tokens = qo_indptr.tolist(), kv_indptr.tolist()
    rows = slice(queries[sequence], queries[sequence + 1])
    keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float() * kv_scale
    scores = q[rows].float() @ keys.T * config["sm_scale"]
    out[rows] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()


def custom_kernel(data):
    q, config = data[0], data[4]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    with ThreadPoolExecutor(max_workers=4) as pool:
        jobs = [pool.submit(attend_to_one, data, out, sequence) for sequence in range(config["batch_size"])]
        for job in jobs:
            job.result()
    return out
