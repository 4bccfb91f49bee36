"""The aiter variant's schedules: every key once, whatever kv_indptr says, and anew in every call."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import pytest
import torch
from aiter_variant import DEVICE, LIMIT, Run, error, exact, inputs, kernel_process, load_variant

from harness.aiter_stand_in.schedule import MIN_KEYS_PER_SPLIT, equal_splits


@pytest.fixture(scope="module")
def child() -> Iterator[Run]:
    """Runs a function of this file in a child process that is set up for Triton kernels."""
    with kernel_process() as run:
        yield run


def lengths_that_lose_keys(granularity: int, max_split: int, batch: int) -> list[int]:
    """Sequence lengths up to 3000 whose equal splits (aiter's v1_0 schedule) do not reach the last key."""
    lost = []
    for length in range(MIN_KEYS_PER_SPLIT, 3001):
        rows = equal_splits([length * sequence for sequence in range(batch + 1)], 1, granularity, max_split).work
        last = {row[0]: row[5] for row in rows}
        if any(end != (sequence + 1) * length for sequence, end in last.items()):
            lost.append(length)
    return lost


def equal_split_plans() -> list[tuple[int, int]]:
    """(granularity, most splits) of the plans that use aiter's equal splits."""
    variant = load_variant()
    plans = [*variant.PLANS.values(), *variant.PLANS_BY_LENGTH.values()]
    return [(plan.granularity, plan.max_splits) for plan in plans if not plan.fast_mode]


@pytest.mark.parametrize("batch", [1, 64, 256])
def test_equal_splits_of_its_plans_reach_the_last_key_of_every_length(child: Run, batch: int) -> None:
    for granularity, max_split in set(child(equal_split_plans)):
        assert lengths_that_lose_keys(granularity, max_split, batch) == []


@pytest.mark.parametrize("granularity", [16, 32, 64, 128])
@pytest.mark.parametrize("max_split", [2, 3, 4, 8, 32])
def test_no_granularity_up_to_128_loses_keys(granularity: int, max_split: int) -> None:
    assert lengths_that_lose_keys(granularity, max_split, 1) == []


def test_granularity_256_would_lose_the_last_keys_of_513_to_516() -> None:
    assert lengths_that_lose_keys(256, 32, 1) == [513, 514, 515, 516]


# --- its own scheduler ---

RAGGED = [
    [1024] * 5,
    [1, 63, 64, 65, 127, 128, 129, 1023],
    [195, 196, 391, 392, 393, 513, 514, 516, 517],
    [8192, 1, 5000],
    [1],
]


def own_schedule(lengths: list[int], max_splits: int) -> dict[str, list]:
    variant = load_variant()
    kv_indptr = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=DEVICE)
    schedule = variant.schedule_own_splits(variant.OwnSplits(max_splits), kv_indptr)
    works = int(schedule.work_indptr[-1])
    return {
        "addresses": schedule.metadata.view(torch.int64).tolist(),
        "expected_addresses": [schedule.work_indptr.data_ptr(), schedule.work_info.data_ptr()],
        "work_indptr": schedule.work_indptr.tolist(),
        "work_info": schedule.work_info[:works].tolist(),
        "partial_map": schedule.partial_map[:works].tolist(),
        "reduce_indptr": schedule.reduce_indptr.tolist(),
        "final_map": schedule.final_map.tolist(),
    }


@pytest.mark.parametrize("max_splits", [1, 3, 32])
@pytest.mark.parametrize("lengths", RAGGED)
def test_its_own_schedule_has_every_key_once_and_is_of_aiters_form(
    child: Run, lengths: list[int], max_splits: int
) -> None:
    got = child(own_schedule, lengths, max_splits)
    starts = [0, *accumulate(lengths)]
    assert got["addresses"] == got["expected_addresses"]
    assert got["work_indptr"][0] == 0 and len(got["work_indptr"]) == 257
    shares = [later - earlier for earlier, later in zip(got["work_indptr"], got["work_indptr"][1:], strict=False)]
    assert max(shares) - min(shares) <= 1 and shares == sorted(shares, reverse=True)
    for sequence, length in enumerate(lengths):
        rows = [(index, row) for index, row in enumerate(got["work_info"]) if row[0] == sequence]
        assert 1 <= len(rows) <= max_splits
        keys = [key for _, row in rows for key in range(row[4], row[5])]
        assert keys == list(range(starts[sequence], starts[sequence] + length))
        for index, row in rows:
            assert row[1] == (-1 if len(rows) == 1 else index) == got["partial_map"][index]
            assert row[2:4] == [sequence, sequence + 1] and row[7] == 0
            assert row[6] == starts[sequence + 1] - row[5]
            assert row[5] == starts[sequence + 1] or (row[5] - row[4]) % 128 == 0
        assert got["reduce_indptr"][sequence : sequence + 2] == [rows[0][0], rows[-1][0] + 1]
        assert got["final_map"][sequence] == [sequence, sequence + 1]


def own_works(batch: int, length: int) -> int:
    return len(own_schedule([length] * batch, 32)["work_info"])


@pytest.mark.parametrize(
    ("batch", "length", "works"), [(32, 8192, 256), (64, 8192, 256), (256, 1024, 256), (256, 8192, 256)]
)
def test_its_own_schedule_gives_each_unit_one_piece_at_the_leaderboards_shapes(
    child: Run, batch: int, length: int, works: int
) -> None:
    assert child(own_works, batch, length) == works


def error_of_own_schedule(lengths: list[int]) -> float:
    variant, data = load_variant(), list(inputs(len(lengths), 1024))
    keys = sum(lengths)
    kv, scale = inputs(1, max(keys, 1024), seed=5)[1]["fp8"]
    data[1] = {"fp8": (kv[:keys], scale)}
    data[3] = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=DEVICE)
    output = variant.decode_with_aiter(tuple(data), variant.OwnSplits(32))
    return error(output, exact(tuple(data)))


@pytest.mark.parametrize("lengths", RAGGED)
def test_with_its_own_schedule_any_lengths_give_the_attention_of_all_keys(child: Run, lengths: list[int]) -> None:
    assert child(error_of_own_schedule, lengths) < LIMIT


def errors_around_a_new_indptr() -> tuple[float, float]:
    variant, data = load_variant(), inputs(2, 1024)
    plan = variant.OwnSplits(32)
    variant.decode_with_aiter(data, plan)
    # Past torch's version counter, as another library's kernel would write.
    data[3].data.copy_(torch.tensor([0, 7, 2048], dtype=torch.int32))
    expected = exact(data)
    stale = exact((*data[:3], torch.tensor([0, 1024, 2048], dtype=torch.int32), data[4]))
    return error(variant.decode_with_aiter(data, plan), expected), error(stale, expected)


def test_its_own_schedule_follows_an_indptr_that_changes_in_place(child: Run) -> None:
    fresh, stale = child(errors_around_a_new_indptr)
    assert fresh < LIMIT < stale


def error_at_a_whole_shape(batch: int, length: int) -> float:
    variant, data = load_variant(), inputs(batch, length)
    return error(variant.decode_with_aiter(data, variant.OwnSplits(32)), exact(data))


@pytest.mark.gpu
@pytest.mark.parametrize(("batch", "length"), [(32, 8192), (64, 8192), (256, 1024)])
def test_whole_shapes_with_its_own_schedule_on_a_gpu(child: Run, batch: int, length: int) -> None:
    assert child(error_at_a_whole_shape, batch, length) < LIMIT
