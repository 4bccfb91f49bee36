"""The stand-in's merge of the splits, and its two-stage call."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from aiter_stand_in_call import DecodeCall

from harness.aiter_stand_in import api
from harness.aiter_stand_in.api import StandInError


def int32(values: list) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def partial_results(slots: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """(slots, 1, 16, 512) outputs and (slots, 1, 16, 1) log-sum-exps that differ by several nats."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(slots, 1, 16, 512, generator=generator), 3 * torch.randn(slots, 1, 16, 1, generator=generator)


def merged(partial: torch.Tensor, lse: torch.Tensor, slots: list[int]) -> torch.Tensor:
    """The slots' outputs weighted by the softmax of their log-sum-exps, in float64: (16, 512)."""
    weights = lse[slots, 0].double().softmax(dim=0)
    return (weights * partial[slots, 0].double()).sum(dim=0)


@pytest.mark.parametrize("splits", [2, 3, 4, 5, 64, 65, 256])
def test_splits_are_weighted_by_their_log_sum_exp(splits: int) -> None:
    partial, lse = partial_results(splits)
    output = torch.zeros(1, 16, 512, dtype=torch.float16)
    api.mla_reduce_v1(partial, lse, int32([0, splits]), int32([[0, 1]]), int32(list(range(splits))), 1, output)
    # float16 holds 11 bits: half a unit of numbers below 4.
    assert (output[0].double() - merged(partial, lse, list(range(splits)))).abs().max() < 2e-3


def test_a_scrambled_partial_map_and_final_map_are_followed() -> None:
    partial, lse = partial_results(6)
    output = torch.full((3, 16, 512), 7.0, dtype=torch.float16)
    api.mla_reduce_v1(partial, lse, int32([0, 2, 5]), int32([[2, 3], [0, 1]]), int32([5, 1, 4, 0, 2]), 1, output)
    assert (output[2].double() - merged(partial, lse, [5, 1])).abs().max() < 2e-3
    assert (output[0].double() - merged(partial, lse, [4, 0, 2])).abs().max() < 2e-3
    assert (output[1] == 7.0).all(), "a row that is in no group was written"


def test_groups_of_one_split_or_none_are_left_alone() -> None:
    partial, lse = partial_results(2)
    output = torch.full((2, 16, 512), 7.0, dtype=torch.bfloat16)
    # The final map of such groups may hold anything: fast mode leaves it unwritten.
    final_map = int32([[-999, 2**30], [-999, 2**30]])
    api.mla_reduce_v1(partial, lse, int32([0, 0, 1]), final_map, int32([-1]), 1, output)
    assert (output == 7.0).all()


def test_the_result_is_rounded_to_bf16_with_ties_to_even() -> None:
    # Two equal splits of 1.00390625, half way between 1 and 1.0078125: to even is 1.
    partial = torch.full((2, 1, 16, 512), 1 + 2**-8)
    output = torch.zeros(1, 16, 512, dtype=torch.bfloat16)
    api.mla_reduce_v1(partial, torch.zeros(2, 1, 16, 1), int32([0, 2]), int32([[0, 1]]), int32([0, 1]), 1, output)
    assert (output == 1.0).all()


def test_without_a_final_map_each_group_follows_the_one_before() -> None:
    partial, lse = partial_results(8)
    output = torch.zeros(4, 16, 512, dtype=torch.float16)
    # Two groups of two splits, two query rows each: slots 0 and 2, 4 and 6.
    api.mla_reduce_v1(partial, lse, int32([0, 2, 4]), None, int32([0, 2, 4, 6]), 2, output)
    for row, slots in enumerate([[0, 2], [1, 3], [4, 6], [5, 7]]):
        assert (output[row].double() - merged(partial, lse, slots)).abs().max() < 2e-3


@pytest.mark.parametrize("splits", [2, 9])
def test_the_final_log_sum_exp_is_that_of_all_splits(splits: int) -> None:
    partial, lse = partial_results(splits)
    output, final = torch.zeros(1, 16, 512, dtype=torch.bfloat16), torch.zeros(1, 16)
    api.mla_reduce_v1(partial, lse, int32([0, splits]), int32([[0, 1]]), int32(list(range(splits))), 1, output, final)
    assert (final[0].double() - lse[:, 0, :, 0].double().logsumexp(dim=0)).abs().max() < 1e-5


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "partials of another dtype": ({"partial_output": torch.zeros(4, 1, 16, 512).half()}, "partial_output is float16"),
    "partials of another width": ({"partial_output": torch.zeros(4, 1, 16, 128)}, "partial_output has shape"),
    "log-sum-exps of another size": ({"partial_lse": torch.zeros(3, 1, 16, 1)}, "partial_lse has shape"),
    "log-sum-exps of another dtype": ({"partial_lse": torch.zeros(4, 1, 16, 1).double()}, "partial_lse is float64"),
    "offsets of another dtype": ({"reduce_indptr": torch.tensor([0, 2])}, "reduce_indptr is int64"),
    "offsets past the map": ({"reduce_indptr": int32([0, 5])}, "reduce_partial_map has 4 entries"),
    "offsets that fall": ({"reduce_indptr": int32([0, 2, 1])}, "reduce_indptr falls"),
    "final map of another size": ({"reduce_indptr": int32([0, 2, 4])}, "reduce_final_map has 1 rows"),
    "final map of another dtype": ({"reduce_final_map": torch.tensor([[0, 1]])}, "reduce_final_map is int64"),
    "final rows past the output": ({"reduce_final_map": int32([[1, 2]])}, "not among the 1 of final_output"),
    "slots past the partials": ({"reduce_partial_map": int32([0, 4, 0, 0])}, "points past the 4 slots"),
    "slots below 0": ({"reduce_partial_map": int32([0, -1, 0, 0])}, "points past the 4 slots"),
    "output of another dtype": ({"final_output": torch.zeros(1, 16, 512)}, "final_output is float32"),
    "output elsewhere": ({"final_output": torch.zeros(1, 16, 512, device="meta").half()}, "final_output is on meta"),
    "log-sum-exp out of another size": ({"final_lse": torch.zeros(2, 16)}, "final_lse has shape"),
    "no query rows": ({"max_seqlen_q": 0}, "max_seqlen_q is 0"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_the_merge_refuses(changes: dict[str, Any], message: str) -> None:
    partial, lse = partial_results(4)
    arguments = {
        "partial_output": partial,
        "partial_lse": lse,
        "reduce_indptr": int32([0, 2]),
        "reduce_final_map": int32([[0, 1]]),
        "reduce_partial_map": int32([0, 1, 2, 3]),
        "max_seqlen_q": 1,
        "final_output": torch.zeros(1, 16, 512, dtype=torch.bfloat16),
        **changes,
    }
    with pytest.raises(StandInError, match=f"mla_reduce_v1: .*{message}"):
        api.mla_reduce_v1(**arguments)


def test_more_splits_than_the_kernel_holds_are_refused() -> None:
    partial, lse = partial_results(257)
    output = torch.zeros(1, 16, 512, dtype=torch.bfloat16)
    with pytest.raises(StandInError, match="group 0 has 257 splits; the kernel holds 256"):
        api.mla_reduce_v1(partial, lse, int32([0, 257]), int32([[0, 1]]), int32(list(range(257))), 1, output)


@pytest.mark.parametrize("fast", [False, True])
def test_mla_decode_fwd_is_the_two_stages_in_one_call(fast: bool) -> None:
    apart, together = DecodeCall([900, 400], fast=fast), DecodeCall([900, 400], fast=fast)
    expected = apart.run()
    together.schedule()
    logits, lse = api.mla.mla_decode_fwd(
        together.q,
        together.kv,
        together.output,
        together.qo_indptr,
        together.kv_indptr,
        together.pages,
        together.last_page_lens,
        1,
        sm_scale=together.sm_scale,
        q_scale=together.q_scale,
        kv_scale=together.kv_scale,
        work_meta_data=together.metadata,
        work_indptr=together.work_indptr,
        work_info_set=together.work_info,
        reduce_indptr=together.reduce[0],
        reduce_final_map=together.reduce[1],
        reduce_partial_map=together.reduce[2],
        return_lse=True,
    )
    assert torch.equal(together.output, expected)
    assert logits.shape == together.partial.shape and lse.shape == (2, 16)
