"""The platform's types for `amd-mixed-mla`, and the problem's constants.

A submission may import from here what the platform's own task.py has: `input_t`, `output_t`, `TestSpec`.
The constants below them exist only in this repository.
"""

from __future__ import annotations

from typing import TypedDict, TypeVar

import torch

# (q, kv_data, qo_indptr, kv_indptr, config):
#   q          (total_q, 16, 576) bfloat16
#   kv_data    {"bf16": (total_kv, 1, 576) bfloat16,
#               "fp8": ((total_kv, 1, 576) float8 e4m3, (1,) float32 scale),
#               "mxfp4": ((total_kv, 1, 288) two e2m1 a byte, (rows, blocks) e8m0 scales, both padded)}
#   qo_indptr, kv_indptr  (batch_size + 1,) int32
#   config     batch_size, num_heads, num_kv_heads, qk_head_dim, kv_lora_rank, qk_rope_head_dim,
#              v_head_dim, q_seq_len, kv_seq_len, sm_scale
input_t = TypeVar("input_t", bound=tuple[torch.Tensor, dict, torch.Tensor, torch.Tensor, dict])
# (total_q, 16, 512) bfloat16
output_t = TypeVar("output_t", bound=torch.Tensor)


class TestSpec(TypedDict):
    """Arguments of `generate_input`, as a case line names them."""

    batchsize: int
    qseqlen: int
    kvseqlen: int
    seed: int


# DeepSeek-R1's absorbed attention: keys are all 576 dimensions of a KV row, values its first 512.
NUM_HEADS = 16
NUM_KV_HEADS = 1
KV_LORA_RANK = 512
QK_ROPE_HEAD_DIM = 64
QK_HEAD_DIM = KV_LORA_RANK + QK_ROPE_HEAD_DIM
V_HEAD_DIM = KV_LORA_RANK
SM_SCALE = QK_HEAD_DIM**-0.5
