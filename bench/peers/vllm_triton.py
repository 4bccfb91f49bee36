"""vLLM's Triton MLA decode on the bf16 KV, with the four KV splits that vLLM's own backend uses.

The KV is viewed as pages of 64 tokens without a copy; the page table depends on the shape alone and is made once.
Output, log-sum-exp and partial results are allocated inside every call, as vLLM's backend does.
Source of the call: vllm-project/vllm, vllm/v1/attention/backends/mla/triton_mla.py and
vllm/v1/attention/ops/triton_decode_attention.py (2025-2026; vllm/attention/ops before that). Older versions have no
`lse` and newer ones have `is_mla`: the signature says which.
"""

import functools
import inspect

import torch

try:
    from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd
except ImportError:
    from vllm.attention.ops.triton_decode_attention import decode_attention_fwd

VARIANT = {
    "shapes": "any",
    "targets": ["sm_80", "sm_90", "sm_100", "gfx942", "gfx950"],
    "kv": "bf16",
    "rounding": "f16",
    "q_seq_len": [1],
    "ragged": False,
    "peer": {
        "name": "vLLM Triton bf16",
        "module": "vllm",
        "package": "vllm",
        "get": "pip install vllm, which pins its own torch",
    },
}
SPLITS = 4
PARAMETERS = inspect.signature(decode_attention_fwd).parameters
IS_MLA = {"is_mla": True} if "is_mla" in PARAMETERS else {}

PAGE = 64


@functools.cache
def page_table(batch, length, device):
    """Of sequences that lie one after the other: (batch, length / 64) int32 pages and (batch,) int32 lengths.

    They depend on the shape alone, so they are made once, as a scratch buffer would be.
    """
    pages = torch.arange(batch * length // PAGE, dtype=torch.int32, device=device).view(batch, -1)
    return pages, torch.full((batch,), length, dtype=torch.int32, device=device)


def check(q, kv, batch, length):
    """Refuse what does not lie in whole pages of one length."""
    if q.shape[0] != batch or kv.shape[0] != batch * length or length % PAGE:
        raise ValueError(
            f"takes {batch} sequences of one query and {length} keys in whole pages of {PAGE}, "
            f"got {q.shape[0]} queries and {kv.shape[0]} keys"
        )


def custom_kernel(data):
    # q (batch, 16, 576) bf16; kv_data["bf16"] (batch · length, 1, 576) bf16
    q, kv_data, _, _, config = data
    batch, length = config["batch_size"], config["kv_seq_len"]
    kv = kv_data["bf16"]
    check(q, kv, batch, length)
    table, lengths = page_table(batch, length, q.device)
    paged = kv.view(-1, PAGE, 1, 576)
    out = torch.zeros((batch, 16, 512), dtype=q.dtype, device=q.device)
    lse = {"lse": torch.zeros((batch, 16), dtype=q.dtype, device=q.device)} if "lse" in PARAMETERS else {}
    partial = torch.empty((batch, 16, SPLITS, 513), dtype=torch.float32, device=q.device)
    decode_attention_fwd(
        q=q,
        k_buffer=paged,
        v_buffer=paged[..., :512],
        o=out,
        req_to_token=table,
        b_seq_len=lengths,
        attn_logits=partial,
        num_kv_splits=SPLITS,
        sm_scale=config["sm_scale"],
        page_size=PAGE,
        **lse,
        **IS_MLA,
    )
    return out
