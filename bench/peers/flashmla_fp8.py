"""FlashMLA's dense decode for Hopper on the fp8 KV (package sgl-flash-mla 1.0.0, legacy kernels).

q is rounded to e4m3 with one scale and the schedule is made inside every call: a benchmark that is given both shows
less. The KV is viewed as pages of 64 tokens without a copy; the page table depends on the shape alone and is made once.
Source of the calls: flash_mla/flash_mla_interface.py of that package; both descales are float32 of shape (1,).
"""

import functools

import torch
from flash_mla import flash_mla_with_kvcache, get_mla_decoding_metadata, get_mla_metadata

VARIANT = {
    "shapes": "any",
    "targets": ["sm_90"],
    "kv": "fp8",
    "rounding": "fp8",
    "q_seq_len": [1],
    "ragged": False,
    "peer": {
        "name": "FlashMLA fp8",
        "module": "flash_mla",
        "package": "sgl-flash-mla",
        "get": "pip install --no-deps sgl-flash-mla==1.0.0",
    },
}
E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max

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
    # q (batch, 16, 576) bf16; kv_data["fp8"] (batch · length, 1, 576) e4m3 and its (1,) float32 scale
    q, kv_data, _, _, config = data
    batch, length = config["batch_size"], config["kv_seq_len"]
    kv, kv_scale = kv_data["fp8"]
    check(q, kv, batch, length)
    table, lengths = page_table(batch, length, q.device)
    scale = q.abs().amax().float().clamp(min=1e-12).div(LARGEST).reshape(1)
    rounded = (q.float() / scale).clamp(-LARGEST, LARGEST).to(E4M3)
    schedule, _ = get_mla_metadata()
    schedule.tile_scheduler_metadata, schedule.num_splits = get_mla_decoding_metadata(
        lengths, 16, 1, is_fp8_kvcache=True, use_legacy=True
    )
    out, _ = flash_mla_with_kvcache(
        rounded.view(batch, 1, 16, 576),
        kv.view(-1, PAGE, 1, 576),
        table,
        lengths,
        512,
        schedule,
        softmax_scale=config["sm_scale"],
        is_fp8_kvcache=True,
        use_legacy=True,
        descale_q=scale,
        descale_k=kv_scale,
    )
    return out.view(batch, 16, 512)
