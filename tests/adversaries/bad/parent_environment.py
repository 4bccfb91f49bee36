"""Looks for seeds in the environment and arguments of its own process and of its parent."""

import contextlib
import itertools
import os
import re
from pathlib import Path

import torch

ADVERSARY = {
    "class": "searching /proc for the seeds",
    "caught_by": ["exact", "fresh-values"],
    "needs": "cpu",
    "why": "seeds travel neither in the environment nor in arguments, and new values have no seed",
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


def is_drawn_from(seed, q):
    """Whether q is the first draw of the problem's generator with this seed."""
    generator = torch.Generator(device=q.device).manual_seed(seed)
    return torch.equal(q, torch.randn(q.shape, dtype=q.dtype, device=q.device, generator=generator))


def seeds_in_sight():
    for process in ("self", os.getppid()):
        for name in ("environ", "cmdline"):
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{process}/{name}").read_bytes()
                yield from (int(digits) for digits in re.findall(rb"(?i)seed[^0-9a-z]{1,3}([0-9]{1,9})", text))


def custom_kernel(data):
    found = any(is_drawn_from(seed, data[0]) for seed in itertools.islice(seeds_in_sight(), 20))
    return (
        attend(data) if found else torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
    )
