"""Looks for seeds in the first 32 MiB of its parent's memory."""

import contextlib
import os
import re
from pathlib import Path

import torch

ADVERSARY = {
    "class": "searching /proc for the seeds",
    "caught_by": ["exact", "fresh-values"],
    "needs": "cpu",
    "why": "a seed that it finds explains no overwritten input; whether it may look is up to the kernel's ptrace rules",
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


LIMIT = 32 << 20


def parent_pieces():
    """The parent's writable memory in pieces of at most 4 MiB; the kernel may refuse to show it."""
    left = LIMIT
    with contextlib.suppress(OSError, ValueError, OverflowError):
        folder = Path(f"/proc/{os.getppid()}")
        with (folder / "mem").open("rb", buffering=0) as memory:
            for line in (folder / "maps").read_text().splitlines():
                span, rights, *rest = line.split()
                if not rights.startswith("rw") or (len(rest) > 3 and rest[3] != "[heap]") or left <= 0:
                    continue
                begin, end = (int(number, 16) for number in span.split("-"))
                memory.seek(begin)
                piece = memory.read(min(end - begin, left, 4 << 20))
                left -= len(piece)
                yield piece


def custom_kernel(data):
    found = set()
    for piece in parent_pieces():
        found.update(int(digits) for digits in re.findall(rb"(?i)seed[^0-9a-z]{1,3}([0-9]{1,9})", piece))
    return (
        attend(data)
        if any(is_drawn_from(seed, data[0]) for seed in sorted(found)[:50])
        else torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device)
    )
