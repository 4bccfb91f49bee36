"""torch's scaled_dot_product_attention on the bf16 KV, whatever backend torch picks for it.

The 16 heads share one KV head, so they are given as 16 queries of one head: nothing is expanded. Takes sequences of one
length and one query each.
Source of the call: pytorch.org/docs/stable, torch.nn.functional.scaled_dot_product_attention.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

VARIANT = {
    "shapes": "any",
    "targets": ["portable"],
    "kv": "bf16",
    "rounding": "f16",
    "q_seq_len": [1],
    "ragged": False,
    "peer": {"name": "torch SDPA, bf16", "module": "torch", "package": "torch", "get": "make setup"},
}


def custom_kernel(data):
    # q (batch, 16, 576) bf16; kv_data["bf16"] (batch · length, 1, 576) bf16
    q, kv_data, _, _, config = data
    batch, length = config["batch_size"], config["kv_seq_len"]
    kv = kv_data["bf16"]
    if q.shape[0] != batch or kv.shape[0] != batch * length:
        raise ValueError(f"takes {batch} sequences of one query and {length} keys, got {q.shape[0]} and {kv.shape[0]}")
    keys = kv.view(batch, 1, length, 576)
    queries = q.view(batch, 1, 16, 576)
    with torch.no_grad():
        out = scaled_dot_product_attention(queries, keys, keys[..., :512], scale=config["sm_scale"])
    return out.reshape(batch, 16, 512).contiguous()
