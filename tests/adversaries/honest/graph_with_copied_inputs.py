"""Replays a graph for each shape on copies of the inputs that every call makes anew."""

import torch

HONEST = {
    "looks_like": "a captured graph that replays stale inputs",
    "needs": "cuda",
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
    kv, kv_scale = kv_data["fp8"]
    copies = [q.clone(), kv.view(torch.uint8).clone(), kv_scale.clone()]
    arguments = (copies[0], copies[1].view(kv.dtype), copies[2])
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    attend_even(*arguments, out, config)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        attend_even(*arguments, out, config)
    return graph, copies, out


def custom_kernel(data):
    q, kv_data, _, _, config = data
    kv, kv_scale = kv_data["fp8"]
    key = (q.shape, kv.shape, config["batch_size"], config["sm_scale"], q.device)
    if key not in _GRAPHS:
        _GRAPHS[key] = record(data)
    graph, copies, out = _GRAPHS[key]
    for copy, tensor in zip(copies, (q, kv.view(torch.uint8), kv_scale), strict=True):
        copy.copy_(tensor)
    graph.replay()
    return out.clone()
