"""`mla_reduce_v1`: the partial results of each sequence's splits, weighted by their log-sum-exp and summed."""

from __future__ import annotations

from itertools import pairwise

import torch

from harness.aiter_stand_in.checks import Checks
from harness.aiter_stand_in.schedule import COMPUTE_UNITS

HEADS = 16
VALUE_DIM = 512

# From this many splits on the real kernel normalises the weights first; below, it divides at the end.
NORMALISED_FIRST = 4


@torch.no_grad()
def mla_reduce_v1(
    partial_output: torch.Tensor,
    partial_lse: torch.Tensor,
    reduce_indptr: torch.Tensor,
    reduce_final_map: torch.Tensor | None,
    reduce_partial_map: torch.Tensor,
    max_seqlen_q: int,
    final_output: torch.Tensor,
    final_lse: torch.Tensor | None = None,
) -> None:
    """Merge the splits of each group into its rows of `final_output`; groups of one split or none are left alone.

    partial_output: (slots, [1,] 16, 512) float32; partial_lse: (slots, [1,] 16[, 1]) float32, natural log;
    reduce_indptr: (groups + 1,) int32; reduce_final_map: (groups, 2) int32, or None where every group has the same
    number of query rows; reduce_partial_map: (reduce_indptr[-1],) int32; final_output: (rows, 16, 512) bf16 or fp16;
    final_lse: (rows, 16) float32. Rounded to nearest, ties to even. Raises TypeError and StandInError.
    Source: aiter f3be04a12a, csrc/kernels/mla/reduce.cu.
    """
    checks = Checks.on_device_of("mla_reduce_v1", "partial_output", partial_output)
    middle = (1,) if partial_output.dim() == 4 else ()
    partials = checks.tensor("partial_output", partial_output, torch.float32, (None, *middle, HEADS, VALUE_DIM))
    partials = partials.view(-1, HEADS, VALUE_DIM)
    slots = partials.shape[0]
    checks.tensor("final_output", final_output, (torch.bfloat16, torch.float16), (None, HEADS, VALUE_DIM), False)
    checks.that(final_output.stride(2) == 1, "the last dimension of final_output is not contiguous")
    if final_lse is not None:
        checks.tensor("final_lse", final_lse, torch.float32, (final_output.shape[0], HEADS))
    lse = _lse_rows(checks, partial_lse, slots)
    checks.integer("max_seqlen_q", max_seqlen_q)
    checks.that(max_seqlen_q >= 1, f"max_seqlen_q is {max_seqlen_q}, expected at least 1")

    groups = _groups(checks, reduce_indptr, reduce_final_map, reduce_partial_map)
    for split_count, members in groups.items():
        rows = torch.tensor([row for row, _ in members])
        sources = torch.tensor([source for _, source in members])
        in_range = int(rows.min()) >= 0 and int(rows.max()) < final_output.shape[0]
        checks.that(in_range, f"a group's rows are not among the {final_output.shape[0]} of final_output")
        in_range = int(sources.min()) >= 0 and int(sources.max()) < slots
        checks.that(in_range, f"reduce_partial_map points past the {slots} slots of partial_output")
        rows, sources = rows.to(checks.device), sources.to(checks.device)
        merge = _merge_normalised if split_count >= NORMALISED_FIRST else _merge_online
        merged, merged_lse = merge(partials, lse, sources)
        final_output[rows] = merged.to(final_output.dtype)
        if final_lse is not None:
            final_lse[rows] = merged_lse


def _lse_rows(checks: Checks, partial_lse: torch.Tensor, slots: int) -> torch.Tensor:
    shapes = {2: (slots, HEADS), 3: (slots, 1, HEADS), 4: (slots, 1, HEADS, 1)}
    shape = shapes.get(partial_lse.dim(), shapes[2]) if isinstance(partial_lse, torch.Tensor) else shapes[2]
    return checks.tensor("partial_lse", partial_lse, torch.float32, shape).view(slots, HEADS)


def _groups(
    checks: Checks,
    reduce_indptr: torch.Tensor,
    reduce_final_map: torch.Tensor | None,
    reduce_partial_map: torch.Tensor,
) -> dict[int, list[tuple[int, list[int]]]]:
    """Output rows that have something to merge, by number of splits: (row, slots of its partial results)."""
    offsets = checks.offsets("reduce_indptr", reduce_indptr)
    slots = checks.tensor("reduce_partial_map", reduce_partial_map, torch.int32, (None,)).tolist()
    checks.at_least("reduce_partial_map", len(slots), offsets[-1], "entries")
    ranges = None
    if reduce_final_map is not None:
        ranges = checks.tensor("reduce_final_map", reduce_final_map, torch.int32, (None, 2)).tolist()
        checks.at_least("reduce_final_map", len(ranges), len(offsets) - 1, "rows")
    groups: dict[int, list[tuple[int, list[int]]]] = {}
    for group, (begin, end) in enumerate(pairwise(offsets)):
        splits = end - begin
        checks.that(splits <= COMPUTE_UNITS, f"group {group} has {splits} splits; the kernel holds {COMPUTE_UNITS}")
        if splits <= 1:
            continue
        if ranges is None:
            length = slots[begin + 1] - slots[begin]
            first, last = group * length, (group + 1) * length
        else:
            first, last = ranges[group]
        for row in range(first, last):
            groups.setdefault(splits, []).append((row, [slot + row - first for slot in slots[begin:end]]))
    return groups


def _merge_online(
    partials: torch.Tensor, lse: torch.Tensor, sources: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two or three splits: running maximum, one division at the end. sources: (rows, splits) slots."""
    output, maximum = partials[sources[:, 0]], lse[sources[:, 0]]
    total = torch.ones_like(maximum)
    for split in sources.unbind(1)[1:]:
        new = torch.maximum(maximum, lse[split])
        old_weight, new_weight = torch.exp(maximum - new), torch.exp(lse[split] - new)
        output = old_weight[..., None] * output + new_weight[..., None] * partials[split]
        total = total * old_weight + new_weight
        maximum = new
    return output / total[..., None], _total_lse(maximum, total)


def _merge_normalised(
    partials: torch.Tensor, lse: torch.Tensor, sources: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Four splits or more: weights exp(lse − total lse), then a sum in order. sources: (rows, splits) slots."""
    each = lse[sources]
    maximum = each.amax(dim=1)
    total_lse = _total_lse(maximum, torch.exp(each - maximum[:, None]).sum(dim=1))
    weights = torch.exp(each - total_lse[:, None])
    output = torch.zeros_like(partials[sources[:, 0]])
    for split, slots in enumerate(sources.unbind(1)):
        output += weights[:, split, :, None] * partials[slots]
    return output, total_lse


def _total_lse(maximum: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    empty = (total == 0) | torch.isnan(total)
    return torch.where(empty, float("inf"), torch.log(total) + maximum)
