"""`get_mla_metadata_info_v1` and `get_mla_metadata_v1`: the buffers of a schedule, and the schedule in them."""

from __future__ import annotations

from itertools import pairwise

import torch

from harness.aiter_stand_in.checks import Checks, StandInError
from harness.aiter_stand_in.schedule import COMPUTE_UNITS, MIN_KEYS_PER_SPLIT, Paging, Schedule, equal_splits, greedy

# Query rows (tokens × heads) that one workgroup holds: longer queries are cut into tiles (kPackedQoLenPerWg).
PACKED_QUERY_ROWS = 128


def get_mla_metadata_info_v1(
    batch_size: int,
    max_seqlen_qo: int,
    num_head_qo: int,
    q_dtype: torch.dtype,
    kv_dtype: torch.dtype,
    is_sparse: bool,
    fast_mode: bool = True,
    num_kv_splits: int = 32,
    intra_batch_mode: bool = False,
) -> tuple:
    """Shape and dtype of work_metadata, work_indptr, work_info_set and reduce_indptr, _final_map and _partial_map.

    For 256 compute units whatever the device. Raises StandInError for other than 16 heads and for sparse attention.
    Source: aiter f3be04a12a, aiter/ops/attention.py.
    """
    function = "get_mla_metadata_info_v1"
    if num_head_qo != 16:
        raise StandInError(f"{function}: num_head_qo is {num_head_qo}; the stand-in knows 16 heads only")
    if is_sparse:
        raise StandInError(f"{function}: is_sparse=True is not known to the stand-in")
    tiles_each = -(-max_seqlen_qo * num_head_qo // PACKED_QUERY_ROWS)
    tiles = batch_size * tiles_each
    if intra_batch_mode:
        works = partials = tiles * num_kv_splits
    elif fast_mode:
        works = (batch_size + COMPUTE_UNITS - 1) * tiles_each
        partials = min(batch_size + COMPUTE_UNITS - 1, (COMPUTE_UNITS - 1) * 2) * tiles_each
    else:
        works = partials = tiles * COMPUTE_UNITS
    return (
        (2, torch.uint64),
        (COMPUTE_UNITS + 1, torch.int32),
        ((works, 8), torch.int32),
        (tiles + 1, torch.int32),
        ((tiles, 2), torch.int32),
        (partials, torch.int32),
    )


def get_mla_metadata_v1(
    seqlens_qo_indptr: torch.Tensor,
    seqlens_kv_indptr: torch.Tensor,
    kv_last_page_lens: torch.Tensor,
    num_heads_per_head_k: int,
    num_heads_k: int,
    is_causal: bool,
    work_metadata_ptrs: torch.Tensor,
    work_info_set: torch.Tensor,
    work_indptr: torch.Tensor,
    reduce_indptr: torch.Tensor,
    reduce_final_map: torch.Tensor,
    reduce_partial_map: torch.Tensor,
    page_size: int = 1,
    kv_granularity: int = 16,
    max_seqlen_qo: int = -1,
    uni_seqlen_qo: int = -1,
    fast_mode: bool = True,
    topk: int = -1,
    max_split_per_batch: int = -1,
    intra_batch_mode: bool = False,
    dtype_q: torch.dtype | None = None,
    dtype_kv: torch.dtype | None = None,
) -> None:
    """Write the schedule of a batch into the six buffers, as the real scheduler would on an MI355X.

    seqlens_qo_indptr, seqlens_kv_indptr: (batch + 1,) int32; kv_last_page_lens: (batch,) int32. Entries that the
    real one leaves unwritten (rows of reduce_final_map in fast mode, what lies behind the last row) stay as they are.
    work_metadata_ptrs gets the addresses of work_indptr and work_info_set.

    Raises TypeError for wrong Python types. Raises StandInError for what the real one checks, for buffers that are
    too small, of a wrong dtype or elsewhere (the real one writes past them), for a kv length under 196 without
    fast mode (the GPU divides by zero), and for the modes that are not known here.
    """
    checks = Checks.on_device_of("get_mla_metadata_v1", "seqlens_kv_indptr", seqlens_kv_indptr)
    kv_indptr = checks.offsets("seqlens_kv_indptr", seqlens_kv_indptr)
    batch_size = len(kv_indptr) - 1
    q_indptr = checks.offsets("seqlens_qo_indptr", seqlens_qo_indptr, batch_size + 1)
    last_pages = checks.tensor("kv_last_page_lens", kv_last_page_lens, torch.int32, (batch_size,))
    checks.power_of_two("page_size", page_size)
    checks.power_of_two("kv_granularity", kv_granularity)
    _check_heads(checks, num_heads_per_head_k, num_heads_k)
    checks.that(checks.integer("topk", topk) < 0, f"topk={topk}: sparse attention is not known to the stand-in")
    checks.integer("max_seqlen_qo", max_seqlen_qo)
    checks.integer("uni_seqlen_qo", uni_seqlen_qo)
    checks.integer("max_split_per_batch", max_split_per_batch)

    if fast_mode:
        q_starts = _query_starts(checks, q_indptr, uni_seqlen_qo)
        checks.that(max_split_per_batch != 0, "max_split_per_batch is 0, expected at least 1, or -1 for no limit")
        paging = Paging(page_size, last_pages.tolist())
        schedule = greedy(kv_indptr, q_starts, paging, kv_granularity, max_split_per_batch)
    else:
        checks.that(
            intra_batch_mode,
            "the schedule v1_1 (fast_mode=False, intra_batch_mode=False) is not known to the stand-in;"
            " use fast_mode=True or intra_batch_mode=True",
        )
        checks.that(uni_seqlen_qo >= 1, f"uni_seqlen_qo is {uni_seqlen_qo}, expected at least 1 without fast mode")
        checks.that(max_split_per_batch >= 1, f"max_split_per_batch is {max_split_per_batch}, expected at least 1")
        _query_starts(checks, q_indptr, uni_seqlen_qo)
        _check_lengths(checks, kv_indptr)
        schedule = equal_splits(kv_indptr, uni_seqlen_qo, kv_granularity, max_split_per_batch)

    checks.tensor("work_metadata_ptrs", work_metadata_ptrs, torch.uint64, (2,))
    checks.tensor("work_info_set", work_info_set, torch.int32, (None, 8))
    checks.tensor("work_indptr", work_indptr, torch.int32, (COMPUTE_UNITS + 1,))
    checks.tensor("reduce_indptr", reduce_indptr, torch.int32, (None,))
    checks.tensor("reduce_final_map", reduce_final_map, torch.int32, (None, 2))
    checks.tensor("reduce_partial_map", reduce_partial_map, torch.int32, (None,))
    checks.at_least("work_info_set", work_info_set.shape[0], len(schedule.work), "rows")
    checks.at_least("reduce_indptr", reduce_indptr.shape[0], batch_size + 1, "entries")
    checks.at_least("reduce_final_map", reduce_final_map.shape[0], batch_size, "rows")
    checks.at_least("reduce_partial_map", reduce_partial_map.shape[0], len(schedule.partial_map), "entries")

    _write_schedule(schedule, work_info_set, work_indptr, reduce_indptr, reduce_final_map, reduce_partial_map)
    addresses = [work_indptr.data_ptr(), work_info_set.data_ptr()]
    work_metadata_ptrs.view(torch.int64).copy_(torch.tensor(addresses, dtype=torch.int64))


def _check_heads(checks: Checks, num_heads_per_head_k: int, num_heads_k: int) -> None:
    checks.integer("num_heads_per_head_k", num_heads_per_head_k)
    checks.integer("num_heads_k", num_heads_k)
    checks.that(
        (num_heads_per_head_k, num_heads_k) == (16, 1),
        f"{num_heads_k} KV heads with {num_heads_per_head_k} query heads each; the stand-in knows 1 with 16 only",
    )


def _query_starts(checks: Checks, q_indptr: list[int], uniform: int) -> list[int]:
    """Query offsets as the scheduler sees them: from `uniform` where it is given, else from the tensor."""
    lengths = {later - earlier for earlier, later in pairwise(q_indptr)}
    longest = PACKED_QUERY_ROWS // 16
    checks.that(
        all(1 <= length <= longest for length in lengths),
        f"query lengths {sorted(lengths)}: the stand-in knows 1 to {longest} (one tile a sequence)",
    )
    if uniform >= 1:
        checks.that(lengths == {uniform}, f"uni_seqlen_qo is {uniform}, but seqlens_qo_indptr says {sorted(lengths)}")
    return q_indptr


def _check_lengths(checks: Checks, kv_indptr: list[int]) -> None:
    for sequence, (start, end) in enumerate(pairwise(kv_indptr)):
        checks.that(
            end - start >= MIN_KEYS_PER_SPLIT,
            f"sequence {sequence} has {end - start} keys; without fast mode the GPU divides by zero below"
            f" {MIN_KEYS_PER_SPLIT}",
        )


def _write_schedule(
    schedule: Schedule,
    work_info_set: torch.Tensor,
    work_indptr: torch.Tensor,
    reduce_indptr: torch.Tensor,
    reduce_final_map: torch.Tensor,
    reduce_partial_map: torch.Tensor,
) -> None:
    def write(target: torch.Tensor, values: list) -> None:
        if values:
            target.copy_(torch.tensor(values, dtype=torch.int32))

    write(work_info_set[: len(schedule.work)], schedule.work)
    write(work_indptr, schedule.work_indptr)
    write(reduce_indptr[: len(schedule.reduce_indptr)], schedule.reduce_indptr)
    reduce_indptr[len(schedule.reduce_indptr) :] = schedule.reduce_indptr[-1]
    rows = torch.tensor(list(schedule.final_map), dtype=torch.int64, device=reduce_final_map.device)
    ranges = torch.tensor(list(schedule.final_map.values()), dtype=torch.int32, device=reduce_final_map.device)
    if len(rows):
        reduce_final_map[rows] = ranges
    write(reduce_partial_map[: len(schedule.partial_map)], schedule.partial_map)
