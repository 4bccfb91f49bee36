"""Has a thread watch q and attend as soon as it changes, before the call and its clock."""

import threading
import time

import torch

ADVERSARY = {
    "class": "work left on a thread",
    "caught_by": ["fresh-values", "outside-clock"],
    "needs": "cpu",
    "why": "a new KV under the same q is not seen; where all inputs are watched, only a clock over many calls shows it",
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


_WATCHED = {}


def key_of(data):
    return (data[0].data_ptr(), *data[0][0, 0, :8].tolist())


def watch():
    while True:
        time.sleep(0.002)
        data = _WATCHED["data"]
        key = key_of(data)
        if key != _WATCHED.get("key"):
            _WATCHED.update(result=attend(data), key=key)


def custom_kernel(data):
    _WATCHED["data"] = data
    if "thread" not in _WATCHED:
        _WATCHED["thread"] = threading.Thread(target=watch, daemon=True)
        _WATCHED["thread"].start()
    if _WATCHED.get("key") == key_of(data):
        return _WATCHED["result"].clone()
    return attend(data)
