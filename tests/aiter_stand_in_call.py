"""One decode call to the aiter stand-in: its tensors, how to run it, and the exact attention of the same numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from harness.aiter_stand_in import api

FP8 = torch.float8_e4m3fn
SM_SCALE = 1 / 24


def offsets(lengths: list[int]) -> torch.Tensor:
    """(len + 1,) int32 running sums from 0."""
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)


def quantised(values: torch.Tensor, dtype: torch.dtype = FP8) -> tuple[torch.Tensor, torch.Tensor]:
    """Values as fp8 with one scale, shape (1,)."""
    scale = (values.abs().amax().float() / torch.finfo(dtype).max).reshape(1)
    return (values.float() / scale).to(dtype), scale


@dataclass
class DecodeCall:
    """q and KV of `lengths` sequences with one query token each, and the buffers of a schedule; change any of it."""

    lengths: list[int]
    q_dtype: torch.dtype = FP8
    kv_dtype: torch.dtype = FP8
    fast: bool = False
    splits: int = 32
    granularity: int = 16
    seed: int = 0
    sm_scale: float = SM_SCALE
    device: str = "cpu"

    def __post_init__(self) -> None:
        generator = torch.Generator(self.device).manual_seed(self.seed)
        batch, keys = len(self.lengths), sum(self.lengths)
        self.q = torch.randn(batch, 16, 576, generator=generator, device=self.device).bfloat16()
        # Drawn as bfloat16, since the longest shape has 1.2 thousand million numbers.
        self.kv = torch.randn(keys, 1, 1, 576, generator=generator, device=self.device, dtype=torch.bfloat16)
        self.q_scale = self.kv_scale = None
        if self.q_dtype != torch.bfloat16:
            self.q, self.q_scale = quantised(self.q, self.q_dtype)
        if self.kv_dtype != torch.bfloat16:
            self.kv, self.kv_scale = quantised(self.kv, self.kv_dtype)
        self.qo_indptr, self.kv_indptr = offsets([1] * batch), offsets(self.lengths)
        self.pages = torch.arange(keys, dtype=torch.int32)
        self.last_page_lens = torch.ones(batch, dtype=torch.int32)
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr(self, name, value.to(self.device))
        self.allocate()

    def allocate(self) -> None:
        """Fresh buffers: schedule entries −7, results NaN, so that what stays unwritten shows."""
        information = api.get_mla_metadata_info_v1(
            len(self.lengths), 1, 16, self.q_dtype, self.kv_dtype, False, self.fast, self.splits, not self.fast
        )
        buffers = [torch.zeros(shape, dtype=dtype, device=self.device) for shape, dtype in information]
        for buffer in buffers[1:]:
            buffer.fill_(-7)
        self.metadata, self.work_indptr, self.work_info, *self.reduce = buffers
        slots = self.reduce[2].shape[0]
        nan, batch = float("nan"), len(self.lengths)
        self.partial = torch.full((slots, 1, 16, 512), nan, device=self.device)
        self.lse = torch.full((slots, 1, 16, 1), nan, device=self.device)
        self.output = torch.full((batch, 16, 512), nan, dtype=torch.bfloat16, device=self.device)

    def schedule(self, **changes: Any) -> None:
        """get_mla_metadata_v1 with this call's tensors, by keyword; `changes` replace arguments."""
        arguments: dict[str, Any] = {
            "seqlens_qo_indptr": self.qo_indptr,
            "seqlens_kv_indptr": self.kv_indptr,
            "kv_last_page_lens": self.last_page_lens,
            "num_heads_per_head_k": 16,
            "num_heads_k": 1,
            "is_causal": True,
            "work_metadata_ptrs": self.metadata,
            "work_info_set": self.work_info,
            "work_indptr": self.work_indptr,
            "reduce_indptr": self.reduce[0],
            "reduce_final_map": self.reduce[1],
            "reduce_partial_map": self.reduce[2],
            "kv_granularity": self.granularity,
            "max_seqlen_qo": 1,
            "uni_seqlen_qo": 1,
            "fast_mode": self.fast,
            "max_split_per_batch": self.splits,
            "intra_batch_mode": not self.fast,
        }
        api.get_mla_metadata_v1(**{**arguments, **changes})

    def stage1(self, **changes: Any) -> None:
        """mla_decode_stage1_asm_fwd with this call's tensors, by keyword; `changes` replace arguments."""
        arguments: dict[str, Any] = {
            "Q": self.q,
            "KV": self.kv,
            "qo_indptr": self.qo_indptr,
            "kv_indptr": self.kv_indptr,
            "kv_page_indices": self.pages,
            "kv_last_page_lens": self.last_page_lens,
            "num_kv_splits_indptr": None,
            "work_meta_data": self.metadata,
            "work_indptr": self.work_indptr,
            "work_info_set": self.work_info,
            "max_seqlen_q": 1,
            "page_size": 1,
            "nhead_kv": 1,
            "softmax_scale": self.sm_scale,
            "splitData": self.partial,
            "splitLse": self.lse,
            "output": self.output,
            "q_scale": self.q_scale,
            "kv_scale": self.kv_scale,
        }
        api.mla_decode_stage1_asm_fwd(**{**arguments, **changes})

    def merge(self, **changes: Any) -> None:
        """mla_reduce_v1 with this call's tensors, by keyword; `changes` replace arguments."""
        arguments: dict[str, Any] = {
            "partial_output": self.partial,
            "partial_lse": self.lse,
            "reduce_indptr": self.reduce[0],
            "reduce_final_map": self.reduce[1],
            "reduce_partial_map": self.reduce[2],
            "max_seqlen_q": 1,
            "final_output": self.output,
        }
        api.mla_reduce_v1(**{**arguments, **changes})

    def run(self) -> torch.Tensor:
        """All three steps; the output."""
        self.schedule()
        self.stage1()
        self.merge()
        return self.output

    def run_unscheduled(self, splits: int | None) -> torch.Tensor:
        """`aiter.mla.mla_decode_fwd` without a schedule, into a fresh output."""
        output = torch.full_like(self.output, float("nan"))
        api.mla.mla_decode_fwd(
            self.q,
            self.kv,
            output,
            self.qo_indptr,
            self.kv_indptr,
            self.pages,
            self.last_page_lens,
            1,
            sm_scale=self.sm_scale,
            num_kv_splits=splits,
            q_scale=self.q_scale,
            kv_scale=self.kv_scale,
        )
        return output

    def exact(self, keys_of_sequence: list[torch.Tensor] | None = None) -> torch.Tensor:
        """Attention of the very same q and KV in float64, over all keys or the given ones of each sequence."""
        rows = self.kv[:, 0, 0, :].float().double() * (1.0 if self.kv_scale is None else self.kv_scale.double())
        q = self.q.float().double() * (1.0 if self.q_scale is None else self.q_scale.double())
        starts = self.kv_indptr.tolist()
        results = []
        for sequence in range(len(self.lengths)):
            keys = rows[starts[sequence] : starts[sequence + 1]]
            if keys_of_sequence is not None:
                keys = rows[keys_of_sequence[sequence]]
            weights = (q[sequence] @ keys.T * self.sm_scale).softmax(dim=-1)
            results.append(weights @ keys[:, :512])
        return torch.stack(results)


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative Frobenius error."""
    return ((result.double() - expected.double()).norm() / expected.double().norm()).item()
