"""Every wrong argument is refused by name: what aiter checks, and what it would silently misread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from aiter_stand_in_call import FP8, DecodeCall, offsets

from harness.aiter_stand_in import stage1
from harness.aiter_stand_in.api import StandInError, mla

BF16 = torch.bfloat16
Changes = Callable[[DecodeCall], dict[str, Any]]


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers with a gap behind each, so that it is not contiguous."""
    wide = torch.zeros((*tensor.shape, 2), dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


def elsewhere(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on another device (one without storage)."""
    return tensor.to("meta")


SCHEDULE_REFUSALS: dict[str, tuple[Changes, str]] = {
    "kv offsets of another dtype": (
        lambda c: {"seqlens_kv_indptr": c.kv_indptr.long()},
        "seqlens_kv_indptr is int64, expected int32",
    ),
    "q offsets of another dtype": (lambda c: {"seqlens_qo_indptr": c.qo_indptr.long()}, "seqlens_qo_indptr is int64"),
    "q offsets with gaps": (
        lambda c: {"seqlens_qo_indptr": strided(c.qo_indptr)},
        "seqlens_qo_indptr is not contiguous",
    ),
    "kv offsets with gaps": (
        lambda c: {"seqlens_kv_indptr": strided(c.kv_indptr)},
        "seqlens_kv_indptr is not contiguous",
    ),
    "q offsets of another batch": (
        lambda c: {"seqlens_qo_indptr": c.qo_indptr[:-1]},
        r"seqlens_qo_indptr has shape \(2,\), expected \(3\)",
    ),
    "q offsets elsewhere": (
        lambda c: {"seqlens_qo_indptr": elsewhere(c.qo_indptr)},
        "seqlens_qo_indptr is on meta, expected cpu",
    ),
    "kv offsets that start late": (lambda c: {"seqlens_kv_indptr": c.kv_indptr + 1}, "seqlens_kv_indptr starts at 1"),
    "kv offsets that fall": (
        lambda c: {"seqlens_kv_indptr": torch.tensor([0, 600, 500], dtype=torch.int32)},
        "seqlens_kv_indptr falls",
    ),
    "no sequences": (
        lambda c: {"seqlens_kv_indptr": torch.zeros(1, dtype=torch.int32)},
        "seqlens_kv_indptr has 1 entries, expected at least 2",
    ),
    "page lengths of another size": (
        lambda c: {"kv_last_page_lens": c.last_page_lens[:1]},
        r"kv_last_page_lens has shape \(1,\)",
    ),
    "page lengths of another dtype": (
        lambda c: {"kv_last_page_lens": c.last_page_lens.long()},
        "kv_last_page_lens is int64",
    ),
    "page lengths with gaps": (
        lambda c: {"kv_last_page_lens": strided(c.last_page_lens)},
        "kv_last_page_lens is not contiguous",
    ),
    "granularity": (lambda c: {"kv_granularity": 48}, "kv_granularity is 48, expected a power of two"),
    "granularity zero": (lambda c: {"kv_granularity": 0}, "kv_granularity is 0, expected a power of two"),
    "page size": (lambda c: {"page_size": 3}, "page_size is 3, expected a power of two"),
    "heads": (lambda c: {"num_heads_per_head_k": 32}, "1 KV heads with 32 query heads each"),
    "KV heads": (lambda c: {"num_heads_k": 2}, "2 KV heads"),
    "sparse": (lambda c: {"topk": 64}, "topk=64: sparse attention is not known"),
    "the schedule v1_1": (lambda c: {"intra_batch_mode": False}, "the schedule v1_1 .* is not known"),
    "no uniform q length": (lambda c: {"uni_seqlen_qo": -1}, "uni_seqlen_qo is -1, expected at least 1"),
    "another q length": (lambda c: {"uni_seqlen_qo": 2}, r"uni_seqlen_qo is 2, but seqlens_qo_indptr says \[1\]"),
    "q longer than a tile": (
        lambda c: {"seqlens_qo_indptr": offsets([9, 9]), "uni_seqlen_qo": 9},
        r"query lengths \[9\]: the stand-in knows 1 to 8",
    ),
    "no limit of splits": (lambda c: {"max_split_per_batch": -1}, "max_split_per_batch is -1, expected at least 1"),
    "metadata of another dtype": (
        lambda c: {"work_metadata_ptrs": torch.zeros(2, dtype=torch.int64)},
        "work_metadata_ptrs is int64, expected uint64",
    ),
    "metadata of another size": (
        lambda c: {"work_metadata_ptrs": torch.zeros(1, dtype=torch.uint64)},
        r"work_metadata_ptrs has shape \(1,\)",
    ),
    "work rows of another dtype": (lambda c: {"work_info_set": c.work_info.long()}, "work_info_set is int64"),
    "work rows of another width": (lambda c: {"work_info_set": c.work_info[:, :7]}, "work_info_set has shape"),
    "too few work rows": (lambda c: {"work_info_set": c.work_info[:2]}, "work_info_set has 2 rows, expected at least"),
    "work rows elsewhere": (lambda c: {"work_info_set": elsewhere(c.work_info)}, "work_info_set is on meta"),
    "work offsets for other units": (lambda c: {"work_indptr": c.work_indptr[:133]}, r"work_indptr has shape \(133,\)"),
    "work offsets of another dtype": (lambda c: {"work_indptr": c.work_indptr.long()}, "work_indptr is int64"),
    "too few reduce offsets": (
        lambda c: {"reduce_indptr": c.reduce[0][:2]},
        "reduce_indptr has 2 entries, expected at least 3",
    ),
    "reduce offsets of another dtype": (lambda c: {"reduce_indptr": c.reduce[0].long()}, "reduce_indptr is int64"),
    "too few final rows": (lambda c: {"reduce_final_map": c.reduce[1][:1]}, "reduce_final_map has 1 rows"),
    "final rows of another dtype": (lambda c: {"reduce_final_map": c.reduce[1].long()}, "reduce_final_map is int64"),
    "too few partial entries": (lambda c: {"reduce_partial_map": c.reduce[2][:3]}, "reduce_partial_map has 3 entries"),
    "partial entries of another dtype": (
        lambda c: {"reduce_partial_map": c.reduce[2].long()},
        "reduce_partial_map is int64",
    ),
}


@pytest.mark.parametrize(("changes", "message"), SCHEDULE_REFUSALS.values(), ids=SCHEDULE_REFUSALS.keys())
def test_the_scheduler_refuses(changes: Changes, message: str) -> None:
    call = DecodeCall([900, 400])
    with pytest.raises(StandInError, match=f"get_mla_metadata_v1: {message}"):
        call.schedule(**changes(call))


def test_fast_mode_refuses_no_splits_at_all() -> None:
    with pytest.raises(StandInError, match="max_split_per_batch is 0"):
        DecodeCall([900], fast=True).schedule(max_split_per_batch=0)


STAGE1_REFUSALS: dict[str, tuple[Changes, str]] = {
    "q not contiguous": (lambda c: {"Q": strided(c.q.view(torch.uint8)).view(FP8)}, "Q is not contiguous"),
    "q of another dtype": (lambda c: {"Q": c.q.half()}, "Q is float16, expected float8_e4m3fn or"),
    "q with other heads": (lambda c: {"Q": c.q[:, :8].contiguous()}, r"Q has shape \(2, 8, 576\)"),
    "KV without a page dimension": (lambda c: {"KV": c.kv[:, 0]}, r"KV has shape \(1300, 1, 576\)"),
    "KV of another row": (lambda c: {"KV": c.kv[..., :512]}, r"KV has shape \(1300, 1, 1, 512\)"),
    "KV of another dtype": (lambda c: {"KV": c.kv.to(torch.float16)}, "KV is float16"),
    "KV elsewhere": (lambda c: {"KV": elsewhere(c.kv)}, "KV is on meta, expected cpu"),
    "KV with gaps inside a row": (lambda c: {"KV": strided(c.kv.view(torch.uint8)).view(FP8)}, "the last dimension"),
    "two KV heads": (lambda c: {"nhead_kv": 2}, "nhead_kv is 2, expected 1"),
    "two query tokens": (lambda c: {"max_seqlen_q": 2}, "max_seqlen_q=2: the stand-in knows the kernels for one query"),
    "page size": (lambda c: {"page_size": 3}, "page_size is 3, expected a power of two"),
    "fp8 q with bf16 KV": (lambda c: {"KV": c.kv.to(BF16)}, "float8_e4m3fn queries with bfloat16 KV: no such kernel"),
    "two fp8 types": (
        lambda c: {"KV": c.kv.float().to(torch.float8_e4m3fnuz)},
        "float8_e4m3fn queries with float8_e4m3fnuz KV: no such kernel",
    ),
    "no q scale": (lambda c: {"q_scale": None}, "fp8 queries need both q_scale and kv_scale"),
    "no KV scale": (lambda c: {"kv_scale": None}, "fp8 queries need both q_scale and kv_scale"),
    "a scale for each head": (lambda c: {"q_scale": torch.ones(16)}, "q_scale has 16 elements, expected 1"),
    "a scale of another dtype": (lambda c: {"kv_scale": c.kv_scale.bfloat16()}, "kv_scale is bfloat16"),
    "a scale elsewhere": (lambda c: {"kv_scale": elsewhere(c.kv_scale)}, "kv_scale is on meta"),
    "output of another dtype": (lambda c: {"output": c.output.float()}, "output is float32, expected bfloat16"),
    "output of another size": (lambda c: {"output": c.output[:1]}, r"output has shape \(1, 16, 512\)"),
    "output with gaps": (lambda c: {"output": strided(c.output)}, "output is not contiguous"),
    "partials of another dtype": (lambda c: {"splitData": c.partial.bfloat16()}, "splitData is bfloat16"),
    "partials of another shape": (lambda c: {"splitData": c.partial[:, 0]}, "splitData has shape"),
    "partials with gaps": (lambda c: {"splitData": strided(c.partial)}, "splitData is not contiguous"),
    "too few partials": (lambda c: {"splitData": c.partial[:2]}, "splitData has 2 slots, expected at least"),
    "partials elsewhere": (lambda c: {"splitData": elsewhere(c.partial)}, "splitData is on meta"),
    "log-sum-exps of another dtype": (lambda c: {"splitLse": c.lse.double()}, "splitLse is float64"),
    "log-sum-exps of another shape": (lambda c: {"splitLse": c.lse[..., 0]}, "splitLse has shape"),
    "too few log-sum-exps": (lambda c: {"splitLse": c.lse[:2]}, "splitLse has 2 slots"),
    "q offsets of another dtype": (lambda c: {"qo_indptr": c.qo_indptr.long()}, "qo_indptr is int64"),
    "kv offsets of another batch": (lambda c: {"kv_indptr": c.kv_indptr[:-1]}, "kv_indptr has shape"),
    "page indices of another dtype": (lambda c: {"kv_page_indices": c.pages.long()}, "kv_page_indices is int64"),
    "page indices with gaps": (lambda c: {"kv_page_indices": strided(c.pages)}, "kv_page_indices is not contiguous"),
    "too few page indices": (lambda c: {"kv_page_indices": c.pages[:-1]}, "kv_page_indices has 1299 entries"),
    "page indices past KV": (lambda c: {"kv_page_indices": c.pages + 1}, "kv_page_indices run from 1 to 1300"),
    "page indices below 0": (lambda c: {"kv_page_indices": c.pages - 1}, "kv_page_indices run from -1"),
    "page lengths of another size": (
        lambda c: {"kv_last_page_lens": c.last_page_lens[:1]},
        "kv_last_page_lens has shape",
    ),
    "no work offsets": (lambda c: {"work_indptr": None}, "work_indptr and work_info_set are needed"),
    "no work rows": (lambda c: {"work_info_set": None}, "work_indptr and work_info_set are needed"),
    "metadata of another dtype": (
        lambda c: {"work_meta_data": torch.zeros(2, dtype=torch.int64)},
        "work_meta_data is int64, expected uint64",
    ),
    "metadata that was never written": (
        lambda c: {"work_meta_data": torch.zeros(2, dtype=torch.uint64)},
        "work_meta_data holds the addresses of other buffers",
    ),
    "other work rows than the metadata's": (lambda c: {"work_info_set": c.work_info.clone()}, "work_meta_data holds"),
    "other work offsets than the metadata's": (
        lambda c: {"work_indptr": c.work_indptr.clone()},
        "work_meta_data holds",
    ),
}


@pytest.mark.parametrize(("changes", "message"), STAGE1_REFUSALS.values(), ids=STAGE1_REFUSALS.keys())
def test_stage_1_refuses(changes: Changes, message: str) -> None:
    call = DecodeCall([900, 400])
    call.schedule()
    with pytest.raises(StandInError, match=f"mla_decode_stage1_asm_fwd: {message}"):
        call.stage1(**changes(call))
    assert torch.isnan(call.partial).all(), "a refused call wrote results"


def test_kv_past_the_kernels_32_bit_offsets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stage1.MAX_KV_BYTES == 2**32
    call = DecodeCall([400])
    call.schedule()
    monkeypatch.setattr(stage1, "MAX_KV_BYTES", 400 * 576)
    call.stage1()
    monkeypatch.setattr(stage1, "MAX_KV_BYTES", 400 * 576 - 1)
    with pytest.raises(StandInError, match="KV spans 230400 bytes; the kernels reach 230399"):
        call.stage1()


WORK_REFUSALS: dict[str, tuple[Callable[[DecodeCall], None], str]] = {
    "a row without keys": (lambda c: c.work_info[0, 4:6].fill_(0), "a work row has no keys"),
    "a row of two query tokens": (lambda c: c.work_info[0, 3:4].fill_(2), "other than one query token"),
    "a row past the queries": (lambda c: c.work_info[0, 2:4].copy_(torch.tensor([2, 3])), "query row 2; Q has 2"),
    "a row before the keys": (lambda c: c.work_info[0, 4:5].fill_(-5), "starts below 0"),
    "a slot past the partials": (lambda c: c.work_info[0, 1:2].fill_(999), "splitData has 64 slots"),
    "work offsets that fall": (lambda c: c.work_indptr[3:4].fill_(9), "work_indptr falls"),
    "work offsets past the rows": (lambda c: c.work_indptr[-1:].fill_(999), "work_info_set has 64 rows"),
}


@pytest.mark.parametrize(("damage", "message"), WORK_REFUSALS.values(), ids=WORK_REFUSALS.keys())
def test_stage_1_refuses_work_that_leads_past_its_buffers(damage: Callable[[DecodeCall], None], message: str) -> None:
    call = DecodeCall([900, 400])
    call.schedule()
    damage(call)
    with pytest.raises(StandInError, match=message):
        call.stage1()


def test_a_clone_of_the_metadata_serves_the_same_buffers_and_goes_stale_with_others() -> None:
    call = DecodeCall([900, 400])
    call.schedule()
    clone = call.metadata.clone()
    call.stage1(work_meta_data=clone)
    call.allocate()
    call.schedule()
    with pytest.raises(StandInError, match="stale"):
        call.stage1(work_meta_data=clone)


def test_without_the_metadata_the_two_buffers_are_taken_as_they_are() -> None:
    with_it, without = DecodeCall([900, 400]), DecodeCall([900, 400])
    expected = with_it.run()
    without.schedule()
    without.stage1(work_meta_data=None)
    without.merge()
    assert torch.equal(without.output, expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Q": [1.0]}, "Q must be a torch.Tensor, not list"),
        ({"KV": None}, "KV must be a torch.Tensor, not NoneType"),
        ({"splitData": 3}, "splitData must be a torch.Tensor, not int"),
        ({"q_scale": 0.5}, "q_scale must be a torch.Tensor, not float"),
        ({"softmax_scale": torch.tensor(1.0)}, "softmax_scale must be a float, not Tensor"),
        ({"max_seqlen_q": 1.0}, "max_seqlen_q must be an int, not float"),
        ({"page_size": True}, "page_size must be an int, not bool"),
    ],
)
def test_wrong_python_types_are_type_errors(changes: dict[str, Any], message: str) -> None:
    call = DecodeCall([900])
    call.schedule()
    with pytest.raises(TypeError, match=message):
        call.stage1(**changes)


def test_fp8_kv_with_bf16_queries_needs_its_scale() -> None:
    call = DecodeCall([900], BF16, FP8)
    call.schedule()
    with pytest.raises(StandInError, match="fp8 KV needs kv_scale"):
        call.stage1(kv_scale=None)


def test_without_a_schedule_bf16_queries_have_no_kernel_for_fp8_kv() -> None:
    call = DecodeCall([900], BF16, FP8)
    with pytest.raises(StandInError, match="without a schedule: no such kernel"):
        call.stage1(num_kv_splits_indptr=offsets([1]))


@pytest.mark.parametrize(
    ("shape", "dtype", "splits", "message"),
    [
        ((1, 2, 16, 512), torch.bfloat16, 2, "splitData is bfloat16, expected float32"),
        ((1, 1, 16, 512), torch.float32, 1, "splitData is float32, expected bfloat16"),
        ((2, 2, 16, 512), torch.float32, 2, r"splitData has shape \(2, 2, 16, 512\)"),
        ((1, 2, 16, 512), torch.float32, 3, "gives a sequence 3 splits; splitData has 2"),
    ],
)
def test_without_a_schedule_the_split_buffers_must_fit(
    shape: tuple[int, ...], dtype: torch.dtype, splits: int, message: str
) -> None:
    call = DecodeCall([900])
    with pytest.raises(StandInError, match=message):
        call.stage1(
            num_kv_splits_indptr=offsets([splits]),
            splitData=torch.empty(shape, dtype=dtype),
            splitLse=torch.empty((1, shape[1], 16, 1)),
        )


def test_without_a_schedule_a_sequence_without_keys_is_refused() -> None:
    call = DecodeCall([900, 0])
    with pytest.raises(StandInError, match="a sequence has no keys"):
        call.run_unscheduled(4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logit_cap": 30.0}, "logit_cap is 30.0; aiter does not support it"),
        ({"q": torch.zeros(1, 32, 576)}, "the stand-in knows 16 heads only"),
        ({"o": torch.zeros(1, 16, 512)}, "o is float32, expected bfloat16"),
        ({"work_meta_data": torch.zeros(2, dtype=torch.uint64)}, "reduce_indptr and reduce_partial_map are needed"),
        (
            {
                "work_meta_data": torch.zeros(2, dtype=torch.uint64),
                "reduce_indptr": offsets([1]),
                "reduce_partial_map": offsets([1]),
                "num_kv_splits_indptr": offsets([1]),
            },
            "num_kv_splits_indptr with work_meta_data",
        ),
    ],
)
def test_mla_decode_fwd_refuses(changes: dict[str, Any], message: str) -> None:
    call = DecodeCall([900])
    arguments = {
        "q": call.q,
        "kv_buffer": call.kv,
        "o": call.output,
        "qo_indptr": call.qo_indptr,
        "kv_indptr": call.kv_indptr,
        "kv_indices": call.pages,
        "kv_last_page_lens": call.last_page_lens,
        "max_seqlen_q": 1,
        **changes,
    }
    with pytest.raises(StandInError, match=message):
        mla.mla_decode_fwd(**arguments)


def test_the_choice_of_splits_knows_16_query_rows_only() -> None:
    with pytest.raises(StandInError, match="32 heads with 1 query tokens; the stand-in knows 16 heads with one"):
        mla.get_meta_param(None, 4, 4096, 32, 1, BF16)


def test_the_choice_of_splits_is_aiters() -> None:
    # By hand from aiter's formula: b·s / (waves · 256) · keys / (keys + 84.1 s), the first largest of s = 1 … 16.
    assert mla.get_meta_param(None, 64, 64 * 8192, 16, 1, BF16)[0] == 4
    assert mla.get_meta_param(None, 256, 256 * 1024, 16, 1, BF16)[0] == 1
    assert mla.get_meta_param(None, 4, 4 * 8192, 16, 1, BF16)[0] == 16
    # With fp8 queries at most one split for each 128 keys.
    splits, split_indptr = mla.get_meta_param(16, 2, 2 * 300, 16, 1, FP8)
    assert (splits, split_indptr.tolist()) == (3, [0, 3, 6])


STAGE2_REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "another number of heads": ({"grid": (2, 8)}, r"Mid_O has shape \(2, 4, 16, 512\), expected \(2, 4, 8, 512\)"),
    "another number of sequences": ({"grid": (3, 16)}, "BATCH_NUM is 2, the grid has 3 sequences"),
    "an output that is final already": ({"MAYBE_FINAL_OUT": True}, "MAYBE_FINAL_OUT is for other than 16 heads"),
    "partials of another dtype": ({"Mid_O": torch.zeros(2, 4, 16, 512).half()}, "Mid_O is float16"),
    "log-sum-exps of another shape": ({"Mid_lse": torch.zeros(2, 4, 16)}, "Mid_lse has shape"),
    "strides of another tensor": ({"stride_mid_ob": 1}, r"the strides are \(1, "),
    "two query tokens": ({"qo_indptr": offsets([1, 2])}, "other than one query token a sequence"),
    "more splits than there are": ({"num_kv_splits_indptr": offsets([4, 5])}, "a sequence has 5 splits; Mid_O holds 4"),
    "output of another dtype": ({"O": torch.zeros(2, 16, 512)}, "O is float32"),
}


@pytest.mark.parametrize(("changes", "message"), STAGE2_REFUSALS.values(), ids=STAGE2_REFUSALS.keys())
def test_the_merge_without_a_schedule_refuses(changes: dict[str, Any], message: str) -> None:
    lse, output = torch.zeros(2, 4, 16, 1), torch.zeros(2, 16, 512, dtype=BF16)
    arguments: dict[str, Any] = {
        "Mid_O": torch.zeros(2, 4, 16, 512),
        "Mid_lse": lse,
        "O": output,
        "qo_indptr": offsets([1, 1]),
        "kv_indptr": offsets([900, 400]),
        "num_kv_splits_indptr": offsets([4, 4]),
        "stride_mid_ob": lse.stride(0),
        "stride_mid_oh": lse.stride(2),
        "stride_mid_os": lse.stride(1),
        "stride_obs": output.stride(0),
        "stride_oh": output.stride(1),
        "MAYBE_FINAL_OUT": False,
        "BATCH_NUM": 2,
        "BLOCK_DV": 512,
        "Lv": 512,
        "mgc": 64,
        "num_warps": 4,
        **changes,
    }
    grid = arguments.pop("grid", (2, 16))
    with pytest.raises(StandInError, match=f"_fwd_kernel_stage2_asm: {message}"):
        mla._fwd_kernel_stage2_asm[grid](**arguments)


def test_the_merge_without_a_schedule_is_launched_on_a_grid() -> None:
    with pytest.raises(StandInError, match=r"launch it as kernel\[batch, heads\]"):
        mla._fwd_kernel_stage2_asm(
            *[torch.zeros(1)] * 6, *[1] * 5, MAYBE_FINAL_OUT=False, BATCH_NUM=1, BLOCK_DV=512, Lv=512, mgc=64
        )


def test_splits_that_the_offsets_do_not_count_are_left_out_with_their_keys_as_in_aiter() -> None:
    # The kernel deals tiles to as many splits as splitData has; the merge takes as many as the offsets say.
    call = DecodeCall([256], BF16, BF16)
    call.sm_scale = 0.0
    output = torch.full_like(call.output, float("nan"))
    mla.mla_decode_fwd(
        call.q, call.kv, output, call.qo_indptr, call.kv_indptr, call.pages, call.last_page_lens, 1,
        sm_scale=call.sm_scale, num_kv_splits=2, num_kv_splits_indptr=offsets([1]),
    )  # fmt: skip
    first = call.kv[(torch.arange(256) // 64) % 2 == 0, 0, 0, :512].float().mean(dim=0)
    assert (output[0].float() - first).abs().max() < 0.01
