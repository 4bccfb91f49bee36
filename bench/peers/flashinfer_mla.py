"""FlashInfer's MLA decode on the bf16 KV (package flashinfer-python, backend chosen by FlashInfer).

`plan`, its schedule, is made inside every call, from lengths that the host knows (`config`), as a server would: on the
queued clock its host part hides behind the clear, on the exposed clock it shows. The KV is viewed as pages of 64 tokens
without a copy; workspace and page numbers depend on the shape alone and are made once.
Source of the calls: docs.flashinfer.ai/api/mla.html, BatchMLAPagedAttentionWrapper.
"""

import functools

import torch
from flashinfer.mla import BatchMLAPagedAttentionWrapper

VARIANT = {
    "shapes": "any",
    "targets": ["sm_80", "sm_90"],
    "kv": "bf16",
    "rounding": "f16",
    "q_seq_len": [1],
    "ragged": False,
    "peer": {
        "name": "FlashInfer bf16",
        "module": "flashinfer",
        "package": "flashinfer-python",
        "get": "pip install flashinfer-python",
    },
}
PAGE = 64
# What FlashInfer's documentation recommends.
WORKSPACE_BYTES = 128 << 20


@functools.cache
def wrapper(device):
    return BatchMLAPagedAttentionWrapper(torch.empty(WORKSPACE_BYTES, dtype=torch.int8, device=device))


@functools.cache
def layout(batch, length, device):
    """On the host, (batch + 1,) int32 indptrs of queries and pages and (batch,) lengths; the pages on the device."""
    sequences = torch.arange(batch + 1, dtype=torch.int32)
    pages = torch.arange(batch * length // PAGE, dtype=torch.int32, device=device)
    return sequences, sequences * (length // PAGE), torch.full((batch,), length, dtype=torch.int32), pages


def custom_kernel(data):
    # q (batch, 16, 576) bf16; kv_data["bf16"] (batch · length, 1, 576) bf16
    q, kv_data, _, _, config = data
    batch, length = config["batch_size"], config["kv_seq_len"]
    kv = kv_data["bf16"]
    if q.shape[0] != batch or kv.shape[0] != batch * length or length % PAGE:
        raise ValueError(
            f"takes {batch} sequences of one query and {length} keys in whole pages of {PAGE}, "
            f"got {q.shape[0]} queries and {kv.shape[0]} keys"
        )
    queries, page_indptr, lengths, pages = layout(batch, length, q.device)
    decode = wrapper(q.device)
    decode.plan(queries, page_indptr, pages, lengths, 16, 512, 64, PAGE, False, config["sm_scale"], q.dtype, kv.dtype)
    paged = kv.view(-1, PAGE, 576)
    return decode.run(q[..., :512], q[..., 512:], paged[..., :512], paged[..., 512:])
