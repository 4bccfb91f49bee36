"""Replays a graph on copies of the inputs, made anew only when an address changes."""

import torch

ADVERSARY = {
    "class": "captured graph with stale inputs",
    "caught_by": ["fresh-values", "floor"],
    "needs": "cuda",
    "why": "new values at the same address never reach the graph",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": False}


def attend_even(q, kv, kv_scale, out, config):
    """Attention for sequences of one length, without a look at any value: what a graph can record."""
    batch = config["batch_size"]
    length = kv.shape[0] // batch
    for sequence in range(batch):
        keys = kv[sequence * length : (sequence + 1) * length, 0].float() * kv_scale
        scores = q[sequence].float() @ keys.T * config["sm_scale"]
        out[sequence] = (torch.softmax(scores, dim=-1) @ keys[:, :512]).bfloat16()


_GRAPHS = {}


def record(data):
    q, kv_data, _, _, config = data
    static = [tensor.clone() for tensor in (q, kv_data["fp8"][0].view(torch.uint8), kv_data["fp8"][1])]
    arguments = (static[0], static[1].view(kv_data["fp8"][0].dtype), static[2])
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    attend_even(*arguments, out, config)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        attend_even(*arguments, out, config)
    return {"graph": graph, "out": out, "static": static, "address": None}


def custom_kernel(data):
    q, kv_data, _, _, _ = data
    inputs = [q, kv_data["fp8"][0].view(torch.uint8), kv_data["fp8"][1]]
    key = (q.shape, inputs[1].shape)
    if key not in _GRAPHS:
        _GRAPHS[key] = record(data)
    kept = _GRAPHS[key]
    address = [tensor.data_ptr() for tensor in inputs]
    if address != kept["address"]:
        for static, tensor in zip(kept["static"], inputs, strict=True):
            static.copy_(tensor)
        kept["address"] = address
    kept["graph"].replay()
    return kept["out"].clone()
