"""FlashInfer's MLA wrapper with its signatures, in plain torch."""

from itertools import pairwise

import torch
from paged_attention import attend


class BatchMLAPagedAttentionWrapper:
    def __init__(self, float_workspace_buffer, backend="auto"):
        assert float_workspace_buffer.nbytes >= 128 << 20

    def plan(
        self, qo_indptr, kv_indptr, kv_indices, kv_len_arr, num_heads, head_dim_ckv, head_dim_kpe, page_size, causal,
        sm_scale, q_data_type, kv_data_type,
    ):  # fmt: skip
        assert (num_heads, head_dim_ckv, head_dim_kpe, causal) == (16, 512, 64, False)
        assert qo_indptr.diff().eq(1).all()
        assert q_data_type == kv_data_type == torch.bfloat16
        bounds = kv_indptr.tolist()
        rows = [kv_indices[begin:end] for begin, end in pairwise(bounds)]
        self._plan = (torch.stack(rows), kv_len_arr, page_size, sm_scale)

    def run(self, q_nope, q_pe, ckv_cache, kpe_cache):
        table, lengths, page_size, scale = self._plan
        pages = torch.cat((ckv_cache, kpe_cache), dim=-1)
        assert pages.shape[1:] == (page_size, 576)
        return attend(torch.cat((q_nope, q_pe), dim=-1), pages, table, lengths, scale).to(q_nope.dtype)
