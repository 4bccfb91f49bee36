"""Stands in for sgl-flash-mla 1.0.0: its dense decode calls, with their signatures and checks, in plain torch."""

from types import SimpleNamespace

import torch
from paged_attention import attend


def get_mla_metadata(*args, **kwargs):
    return SimpleNamespace(tile_scheduler_metadata=None, num_splits=None), None


def get_mla_decoding_metadata(
    seqlens_k, num_q_tokens_per_head_k, h_k, h_q=None, is_fp8_kvcache=False, topk=None, use_legacy=False
):
    assert use_legacy, "dense fp8 decoding exists only on the legacy side"
    assert (is_fp8_kvcache, topk, num_q_tokens_per_head_k, h_k) == (True, None, 16, 1)
    return torch.zeros((132, 8), dtype=torch.int32), torch.zeros(seqlens_k.numel() + 1, dtype=torch.int32)


def flash_mla_with_kvcache(
    q,
    k_cache,
    block_table,
    cache_seqlens,
    head_dim_v,
    tile_scheduler_metadata,
    num_splits=None,
    softmax_scale=None,
    causal=False,
    is_fp8_kvcache=None,
    indices=None,
    use_legacy=False,
    descale_q=None,
    descale_k=None,
):
    assert use_legacy, "Sparse attention is required"
    assert (num_splits, indices, head_dim_v, k_cache.shape[1:]) == (None, None, 512, (64, 1, 576))
    assert q.dtype == k_cache.dtype
    scale = softmax_scale
    if is_fp8_kvcache:
        assert tile_scheduler_metadata.tile_scheduler_metadata is not None
        assert descale_q.shape == descale_k.shape == (1,)
        q, k_cache = q.float() * descale_q, k_cache.float() * descale_k
    else:
        assert (descale_q, descale_k) == (None, None)
    out = attend(q[:, 0], k_cache[:, :, 0], block_table, cache_seqlens, scale)
    return out.to(torch.bfloat16).unsqueeze(1), None
