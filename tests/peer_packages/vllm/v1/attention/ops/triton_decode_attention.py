"""vLLM's decode attention with its signature, in plain torch."""

from paged_attention import attend


def decode_attention_fwd(
    q, k_buffer, v_buffer, o, lse, req_to_token, b_seq_len, attn_logits, num_kv_splits, sm_scale, page_size=1,
    logit_cap=0.0, k_scale=None,
):  # fmt: skip
    assert num_kv_splits == attn_logits.shape[2]
    assert attn_logits.shape == (*q.shape[:2], num_kv_splits, v_buffer.shape[-1] + 1)
    assert k_buffer.shape[1:] == (page_size, 1, 576)
    assert v_buffer.data_ptr() == k_buffer.data_ptr()
    o.copy_(attend(q, k_buffer[:, :, 0], req_to_token, b_seq_len, sm_scale))
