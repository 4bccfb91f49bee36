"""Returns a tensor that attends only once somebody looks at it."""

import torch

ADVERSARY = {
    "class": "lazy output",
    "caught_by": ["exact"],
    "needs": "cpu",
    "why": "the work would be done after the clock has stopped",
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


class Later(torch.Tensor):
    """Holds its inputs and becomes the result at the first operation on it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = tuple(attend(value.data_later) if type(value) is cls else value for value in args)
        return func(*args, **(kwargs or {}))


def custom_kernel(data):
    later = torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device).as_subclass(Later)
    later.data_later = data
    return later
