"""FlashMLA's dense decode for Hopper on the bf16 KV (package sgl-flash-mla 1.0.0, legacy kernels).

The KV is viewed as pages of 64 tokens, which the kernel wants, without a copy. The schedule is made anew inside every
call, which FlashMLA's own benchmark leaves out; the page table depends on the shape alone and is made once.
Source of the call: flash_mla/flash_mla_interface.py of that package; deepseek-ai/FlashMLA, README (2025), for a build
that has no `use_legacy`.
"""

import functools
import inspect

import torch
from flash_mla import flash_mla_with_kvcache, get_mla_metadata

VARIANT = {
    "shapes": "any",
    "targets": ["sm_90"],
    "kv": "bf16",
    "rounding": "f16",
    "q_seq_len": [1],
    "ragged": False,
    "peer": {
        "name": "FlashMLA bf16",
        "module": "flash_mla",
        "package": "sgl-flash-mla",
        "get": "pip install --no-deps sgl-flash-mla==1.0.0",
    },
}
LEGACY = {"use_legacy": True} if "use_legacy" in inspect.signature(flash_mla_with_kvcache).parameters else {}

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
    schedule, _ = get_mla_metadata()
    out, _ = flash_mla_with_kvcache(
        q.view(batch, 1, 16, 576),
        kv.view(-1, PAGE, 1, 576),
        table,
        lengths,
        512,
        schedule,
        softmax_scale=config["sm_scale"],
        **LEGACY,
    )
    return out.view(batch, 16, 512)
