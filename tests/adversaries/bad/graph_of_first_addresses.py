"""Records a graph over the first inputs of a shape and replays it for all others."""

import torch

ADVERSARY = {
    "class": "captured graph with stale inputs",
    "caught_by": ["new-address", "floor"],
    "needs": "cuda",
    "why": "the graph reads the first inputs' memory wherever the new ones are",
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
_HELD = []


def record(data):
    q, kv_data, _, _, config = data
    kv, kv_scale = kv_data["fp8"]
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    attend_even(q, kv, kv_scale, out, config)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        attend_even(q, kv, kv_scale, out, config)
    return graph, out


def custom_kernel(data):
    key = (data[0].shape, data[1]["fp8"][0].shape)
    if key not in _GRAPHS:
        _GRAPHS[key] = record(data)
        _HELD.append(data)
    graph, out = _GRAPHS[key]
    graph.replay()
    return out.clone()
