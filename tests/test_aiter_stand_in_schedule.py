"""The stand-in's schedules are those of aiter's own scheduler, entry for entry."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from aiter_stand_in_call import DecodeCall, offsets

from harness.aiter_stand_in import api
from harness.aiter_stand_in.api import StandInError

GOLDEN = Path(__file__).parent / "golden" / "aiter"
# Written by aiter f3be04a12a's own scheduler source, compiled for the CPU.
UNIFORM = json.loads((GOLDEN / "metadata_golden.json").read_text())
RAGGED = json.loads((GOLDEN / "ragged_schedules.json").read_text())["cases"]
BUFFERS = ("work_info", "work_indptr", "reduce_indptr", "reduce_partial_map")


def fingerprint(values: torch.Tensor) -> str:
    """First 16 hex digits of SHA-256 over the int32 values, as in the golden files."""
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()[:16]


def scheduled(
    kv_lengths: list[int],
    *,
    fast: bool,
    granularity: int,
    max_split: int,
    uniform_q: int = 1,
    q_lengths: list[int] | None = None,
    page_size: int = 1,
    last_page_lengths: list[int] | None = None,
) -> dict[str, torch.Tensor]:
    """What get_mla_metadata_v1 writes, cut to the rows that it writes; unwritten entries hold −7."""
    batch = len(kv_lengths)
    q_lengths = q_lengths or [uniform_q] * batch
    rows = max(batch + 256, batch * max(max_split, 1))
    buffers = {
        "work_metadata_ptrs": torch.zeros(2, dtype=torch.uint64),
        "work_info_set": torch.full((rows, 8), -7, dtype=torch.int32),
        "work_indptr": torch.full((257,), -7, dtype=torch.int32),
        "reduce_indptr": torch.full((batch + 1,), -7, dtype=torch.int32),
        "reduce_final_map": torch.full((batch, 2), -7, dtype=torch.int32),
        "reduce_partial_map": torch.full((rows,), -7, dtype=torch.int32),
    }
    api.get_mla_metadata_v1(
        offsets(q_lengths),
        offsets(kv_lengths),
        torch.tensor(last_page_lengths or [1] * batch, dtype=torch.int32),
        16,
        1,
        True,
        **buffers,
        page_size=page_size,
        kv_granularity=granularity,
        max_seqlen_qo=max(q_lengths),
        uni_seqlen_qo=uniform_q,
        fast_mode=fast,
        max_split_per_batch=max_split,
        intra_batch_mode=not fast,
    )
    works = int(buffers["work_indptr"][-1])
    partials = int(buffers["reduce_indptr"][-1])
    assert (buffers["work_info_set"][works:] == -7).all(), "rows behind the last one were written"
    assert (buffers["reduce_partial_map"][partials:] == -7).all(), "entries behind the last one were written"
    return {
        "work_info": buffers["work_info_set"][:works],
        "work_indptr": buffers["work_indptr"],
        "reduce_indptr": buffers["reduce_indptr"],
        "reduce_partial_map": buffers["reduce_partial_map"][:partials],
        "reduce_final_map": buffers["reduce_final_map"],
    }


@pytest.mark.parametrize("case", UNIFORM.values(), ids=UNIFORM.keys())
def test_the_schedule_of_each_leaderboard_shape_equals_the_real_ones(case: dict) -> None:
    got = scheduled([case["kv"]] * case["bs"], fast=case["fast"], granularity=case["gran"], max_split=case["max_split"])
    assert {name: fingerprint(got[name]) for name in BUFFERS} == case["sha"]
    assert got["work_info"][:3].tolist() == case["work_info_first3"]
    assert got["work_info"][-1].tolist() == case["work_info_last"]
    assert got["work_indptr"][:6].tolist() == case["work_indptr_head"]
    assert got["reduce_indptr"][:5].tolist() == case["reduce_indptr_head"]
    assert len(got["work_info"]) == case["works"]
    assert int((got["work_info"][:, 1] == -1).sum()) == case["direct"]


@pytest.mark.parametrize("case", RAGGED.values(), ids=RAGGED.keys())
def test_ragged_schedules_equal_the_real_ones(case: dict) -> None:
    got = scheduled(
        case["kv_lengths"],
        fast=case["fast"],
        granularity=case["granularity"],
        max_split=case["max_split"],
        uniform_q=case["uniform_q"],
        q_lengths=case["q_lengths"],
        page_size=case["page_size"],
        last_page_lengths=case["last_page_lengths"],
    )
    assert len(got["work_info"]) == case["works"]
    assert {name: fingerprint(got[name]) for name in BUFFERS} == case["sha"]
    unwritten = [-7, -7]
    assert got["reduce_final_map"].tolist() == [row or unwritten for row in case["final_map"]]


def test_every_key_of_a_sequence_is_scheduled_once() -> None:
    lengths = [300, 8000, 1, 64, 1025]
    rows = scheduled(lengths, fast=True, granularity=64, max_split=2)["work_info"].tolist()
    seen = [0] * sum(lengths)
    for _, _, _, _, start, end, _, _ in rows:
        for key in range(start, end):
            seen[key] += 1
    assert seen == [1] * sum(lengths)


def test_fast_mode_leaves_the_final_map_of_a_direct_sequence_unwritten() -> None:
    # 256 units share 8000 keys and 50: the short sequence fits whole behind the rest of the long one.
    got = scheduled([8000, 50], fast=True, granularity=16, max_split=1)
    direct = [row[0] for row in got["work_info"].tolist() if row[1] == -1]
    assert direct == [1]
    assert got["reduce_final_map"].tolist() == [[0, 1], [-7, -7]]


def test_without_fast_mode_every_row_of_the_final_map_is_written() -> None:
    got = scheduled([300, 900], fast=False, granularity=16, max_split=4)
    assert got["reduce_final_map"].tolist() == [[0, 1], [1, 2]]


def test_the_work_metadata_holds_the_addresses_of_its_two_buffers() -> None:
    call = DecodeCall([400])
    call.schedule()
    assert call.metadata.view(torch.int64).tolist() == [call.work_indptr.data_ptr(), call.work_info.data_ptr()]


@pytest.mark.parametrize("length", [1, 195])
def test_a_sequence_under_196_keys_is_refused_without_fast_mode(length: int) -> None:
    with pytest.raises(StandInError, match=rf"sequence 1 has {length} keys; .*divides by zero below 196"):
        scheduled([500, length], fast=False, granularity=16, max_split=4)


def test_196_keys_are_enough_without_fast_mode_and_short_ones_are_fine_with_it() -> None:
    assert len(scheduled([196], fast=False, granularity=16, max_split=4)["work_info"]) == 1
    assert len(scheduled([1, 195], fast=True, granularity=16, max_split=4)["work_info"]) >= 2


def test_info_gives_the_pins_shapes_for_equal_splits() -> None:
    info = api.get_mla_metadata_info_v1(64, 1, 16, torch.float8_e4m3fn, torch.float8_e4m3fn, False, False, 32, True)
    assert info == (
        (2, torch.uint64),
        (257, torch.int32),
        ((64 * 32, 8), torch.int32),
        (65, torch.int32),
        ((64, 2), torch.int32),
        (64 * 32, torch.int32),
    )


def test_info_gives_the_pins_shapes_for_fast_mode() -> None:
    info = api.get_mla_metadata_info_v1(32, 1, 16, torch.float8_e4m3fn, torch.float8_e4m3fn, is_sparse=False)
    assert info[2] == ((32 + 255, 8), torch.int32)
    assert info[5] == (32 + 255, torch.int32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_head_qo": 32}, "16 heads only"),
        ({"is_sparse": True}, "is_sparse=True is not known"),
    ],
)
def test_info_refuses_what_the_stand_in_does_not_know(changes: dict, message: str) -> None:
    arguments = {"batch_size": 4, "max_seqlen_qo": 1, "num_head_qo": 16, "is_sparse": False, **changes}
    with pytest.raises(StandInError, match=message):
        api.get_mla_metadata_info_v1(q_dtype=torch.bfloat16, kv_dtype=torch.bfloat16, **arguments)
