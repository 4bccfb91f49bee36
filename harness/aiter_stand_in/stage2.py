"""The second stage of `mla_decode_fwd` without a schedule: a Triton kernel in aiter, plain torch here.

Source: aiter f3be04a12a, aiter/mla.py, `_fwd_kernel_stage2_asm` and `get_meta_param`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from harness.aiter_stand_in import dtypes
from harness.aiter_stand_in.checks import Checks, StandInError
from harness.aiter_stand_in.schedule import COMPUTE_UNITS

# What one more split costs, in keys, in aiter's choice of their number.
SPLIT_OVERHEAD = 84.1
MOST_SPLITS = 16

# With fp8 queries (16 rows) no sequence gets more splits than it has blocks of this many keys on average.
FP8_BLOCK_KEYS = 128


@functools.lru_cache
def get_meta_param(
    num_kv_splits: int | None, bs: int, total_kv: int, nhead: int, max_seqlen_q: int, dtype: torch.dtype
) -> tuple[int, torch.Tensor]:
    """The number of splits for a call without a schedule, and their offsets, (bs + 1,) int32 on the GPU.

    Kept, as aiter keeps it: the same arguments give the same tensor. Raises StandInError for other than 16 query rows.
    """
    if nhead * max_seqlen_q != 16:
        raise StandInError(
            f"get_meta_param: {nhead} heads with {max_seqlen_q} query tokens; the stand-in knows 16 heads with one"
        )
    keys = total_kv / bs
    if num_kv_splits is None:
        num_kv_splits = max(range(1, MOST_SPLITS + 1), key=lambda splits: _expected_use(bs, splits, keys))
    if dtype == dtypes.fp8:
        num_kv_splits = min(num_kv_splits, int(keys + FP8_BLOCK_KEYS - 1) // FP8_BLOCK_KEYS)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return num_kv_splits, torch.arange(bs + 1, dtype=torch.int32, device=device) * num_kv_splits


def _expected_use(batch_size: int, splits: int, keys: float) -> float:
    """The share of the device that `splits` splits a sequence keep busy with keys, by aiter's estimate."""
    works = batch_size * splits
    waves = -(-works // COMPUTE_UNITS)
    return works / (waves * COMPUTE_UNITS) * keys / (keys + SPLIT_OVERHEAD * splits)


@dataclass(frozen=True)
class Stage2Kernel:
    """Launched as Triton kernels are, `kernel[batch, heads](...)`; `grid` is None until then."""

    grid: tuple[int, ...] | None = None

    def __getitem__(self, grid: tuple[int, ...]) -> Stage2Kernel:
        return Stage2Kernel(tuple(grid))

    @torch.no_grad()
    def __call__(
        self,
        Mid_O: torch.Tensor,  # noqa: N803  (aiter's own names)
        Mid_lse: torch.Tensor,  # noqa: N803
        O: torch.Tensor,  # noqa: E741, N803
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        num_kv_splits_indptr: torch.Tensor,
        stride_mid_ob: int,
        stride_mid_oh: int,
        stride_mid_os: int,
        stride_obs: int,
        stride_oh: int,
        MAYBE_FINAL_OUT: bool,  # noqa: N803
        BATCH_NUM: int,  # noqa: N803
        BLOCK_DV: int,  # noqa: N803
        Lv: int,  # noqa: N803
        mgc: int,
        **launch_options: Any,
    ) -> None:
        """Merge each sequence's splits that had a tile of `mgc` keys, by their natural log-sum-exp, into O.

        Mid_O: (tokens, splits, heads, Lv) float32; Mid_lse: (tokens, splits, heads, 1) float32; the strides are
        those of Mid_lse (token, head, split) and of O (token, head). One query token a sequence. Splits that
        num_kv_splits_indptr does not count are left out, with their keys, as in aiter. Raises TypeError, StandInError.
        """
        checks = Checks.on_device_of("_fwd_kernel_stage2_asm", "Mid_O", Mid_O)
        checks.that(self.grid is not None, "launch it as kernel[batch, heads](...)")
        batch, heads = (*self.grid, 1)[:2]
        checks.that(not MAYBE_FINAL_OUT, "MAYBE_FINAL_OUT is for other than 16 heads with one query token")
        checks.that(batch == BATCH_NUM, f"BATCH_NUM is {BATCH_NUM}, the grid has {batch} sequences")
        splits = Mid_O.shape[1] if Mid_O.dim() == 4 else None
        partials = checks.tensor("Mid_O", Mid_O, torch.float32, (batch, splits, heads, Lv))
        lse = checks.tensor("Mid_lse", Mid_lse, torch.float32, (batch, splits, heads, 1))
        checks.tensor("O", O, (torch.bfloat16, torch.float16), (batch, heads, Lv), contiguous=False)
        strides = (stride_mid_ob, stride_mid_oh, stride_mid_os, stride_obs, stride_oh)
        expected = (lse.stride(0), lse.stride(2), lse.stride(1), O.stride(0), O.stride(1))
        checks.that(strides == expected and O.stride(2) == 1, f"the strides are {strides}, expected {expected}")
        query = checks.offsets("qo_indptr", qo_indptr, batch + 1)
        checks.that(query == list(range(batch + 1)), "other than one query token a sequence")
        keys = torch.tensor(checks.offsets("kv_indptr", kv_indptr, batch + 1), device=O.device).diff()
        offsets = checks.offsets("num_kv_splits_indptr", num_kv_splits_indptr, batch + 1)
        used = torch.minimum(torch.tensor(offsets, device=O.device).diff(), -(-keys // mgc))
        checks.that(int(used.max()) <= splits, f"a sequence has {int(used.max())} splits; Mid_O holds {splits}")

        inside = torch.arange(splits, device=O.device) < used[:, None]
        each = lse[..., 0].masked_fill(~inside[..., None], float("-inf"))
        weights = torch.exp(each - each.amax(dim=1, keepdim=True))[..., None]
        summed = torch.where(inside[..., None, None], partials, 0.0).mul_(weights).sum(dim=1)
        O.copy_(summed / weights.sum(dim=1))
