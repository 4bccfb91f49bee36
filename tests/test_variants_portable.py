"""The portable variant against a float64 attention, on any input that it says it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from test_variants_fp8_split import reads_of_each_kv_byte
from test_variants_truth import (
    LIMIT,
    ROOT,
    errors,
    exact_attention,
    interpreted,
    load_variant,
    make_input,
    peaky_input,
    worst_error,
)

NAME = "portable"
KV_DTYPES = {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}
EACH_NUMBER_OF_PARTS = pytest.mark.parametrize("parts", [2, 4])


def with_parts(parts: int, function: Callable, *arguments: Any) -> Any:
    """`function(*arguments)` where custom_kernel takes the dims in so many parts; on a CPU it plans as on gfx950."""
    module = load_variant(NAME)
    with mock.patch.dict(module.TILES, gfx950=module.TILES["gfx950"]._replace(parts=parts)):
        return function(*arguments)


def as_on_sm_90(function: Callable, *arguments: Any) -> Any:
    """`function(*arguments)` where custom_kernel plans as on sm_90, and reads through descriptors.

    With an e4m3fnuz KV, because the decoding of e4m3fn is PTX there, which the interpreter does not take.
    """
    module = load_variant(NAME)
    with (
        mock.patch.object(module, "target_of", lambda device: "sm_90"),
        mock.patch.object(torch.cuda, "get_device_capability", lambda device: (9, 0)),
        mock.patch.object(module, "decode_f16", wraps=module.decode_f16) as decode,
        mock.patch.object(
            module.TensorDescriptor, "from_tensor", wraps=module.TensorDescriptor.from_tensor
        ) as descriptors,
    ):
        result = function(*arguments)
    assert descriptors.call_count == 2 * decode.call_count > 0
    return result


def error_of(lengths: list[int], queries: list[int] | None = None, kv_type: str = "e4m3fn") -> float:
    return worst_error(NAME, make_input(lengths, queries, kv_dtype=KV_DTYPES[kv_type]))


@EACH_NUMBER_OF_PARTS
@pytest.mark.parametrize("kv_type", KV_DTYPES)
def test_lengths_around_the_tiles_are_right(kv_type: str, parts: int) -> None:
    assert interpreted(with_parts, parts, error_of, [1, 63, 64, 65, 257], None, kv_type) < LIMIT["f16"]


@pytest.mark.parametrize("length", [1024, 8192])
def test_a_slice_of_each_benchmark_length_is_right(length: int) -> None:
    assert interpreted(error_of, [length]) < LIMIT["f16"]


@pytest.mark.parametrize(
    ("lengths", "queries"), [([1, 63, 64, 65, 300], None), ([300, 7, 130], [1, 4, 2]), ([300, 7], [3, 3])]
)
def test_ragged_lengths_and_queries_are_right_through_descriptors(lengths: list[int], queries: list[int]) -> None:
    # What a descriptor reads behind a sequence is the next one's, and must have no weight.
    assert interpreted(as_on_sm_90, error_of, lengths, queries, "e4m3fnuz") < LIMIT["f16"]


def planned_error(batch: int, length: int) -> float:
    """The error of the plan of a benchmark shape on sm_90, with one of its sequences."""
    module, data = load_variant(NAME), make_input([length], kv_dtype=torch.float8_e4m3fnuz)
    plan = module.SM_90_PLANS[batch, length]
    output = module.decode_f16(data, plan.tiles, plan.splits, plan.merge)
    return max(errors(output, exact_attention(data)))


BENCHMARK_SHAPES = [
    (case["batchsize"], case["kvseqlen"]) for case in yaml.safe_load((ROOT / "task.yml").read_text())["benchmarks"]
]


@pytest.mark.parametrize(("batch", "length"), [shape for shape in BENCHMARK_SHAPES if shape[1] <= 1024] + [(4, 8192)])
def test_the_plan_of_a_shape_on_sm_90_is_right_on_a_slice_of_it(batch: int, length: int) -> None:
    assert interpreted(as_on_sm_90, planned_error, batch, length) < LIMIT["f16"]


def split_error(lengths: list[int], queries: list[int], splits: int, parts: int) -> float:
    """The error with a given number of splits and parts; a query that sees no key must get zeros."""
    module, data = load_variant(NAME), make_input(lengths, queries)
    tiles = module.TILES["gfx950"]._replace(parts=parts)
    output, truth = module.decode_f16(data, tiles, splits, module.MERGE), exact_attention(data)
    assert not output[truth.abs().sum(-1) == 0].any()
    return max(errors(output, truth))


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    sequences=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 4)), min_size=1, max_size=3),
    splits=st.sampled_from([1, 2, 8]),
    parts=st.sampled_from([2, 4]),
)
def test_ragged_lengths_and_queries_are_right_with_any_number_of_splits_and_parts(
    sequences: list[tuple[int, int]], splits: int, parts: int
) -> None:
    lengths, queries = (list(column) for column in zip(*sequences, strict=True))
    assert interpreted(split_error, lengths, queries, splits, parts) < LIMIT["f16"]


@pytest.mark.parametrize(("splits", "parts"), [(1, 2), (1, 4), (4, 4)])
@pytest.mark.parametrize("queries", [[3, 3, 3], [4, 1, 2]])
def test_queries_that_see_no_key_get_zeros(queries: list[int], splits: int, parts: int) -> None:
    assert interpreted(split_error, [1, 2, 40], queries, splits, parts) < LIMIT["f16"]


def error_after_change(change: str) -> tuple[float, float]:
    """The error of a call after `change` was made in place, and that of the output of the call before it."""
    data = make_input([150, 17], [2, 2])
    q, kv_data, qo_indptr, kv_indptr, config = data
    first = load_variant(NAME).custom_kernel(data)
    if change == "kv scale":
        kv_data["fp8"][1].mul_(8)
    elif change == "kv bytes":
        kv_data["fp8"][0].view(torch.uint8).bitwise_xor_(128)
    elif change == "q":
        q.neg_()
    elif change == "kv_indptr":
        kv_indptr[1] = 100
    elif change == "qo_indptr":
        qo_indptr[1] = 1
        config["q_seq_len"] = 3
    elif change == "sm_scale":
        config["sm_scale"] *= 3
    return worst_error(NAME, data), max(errors(first, exact_attention(data)))


@pytest.mark.parametrize("change", ["kv scale", "kv bytes", "q", "kv_indptr", "qo_indptr", "sm_scale"])
def test_second_call_sees_what_changed_in_place(change: str) -> None:
    error, stale = interpreted(error_after_change, change)
    assert error < LIMIT["f16"]
    assert stale > LIMIT["f16"]


def scaled_query_error(factor: float) -> float:
    q, kv_data, qo_indptr, kv_indptr, config = make_input([300, 17])
    return worst_error(NAME, (q * factor, kv_data, qo_indptr, kv_indptr, config | {"sm_scale": 576**-0.5 / factor}))


@pytest.mark.parametrize("factor", [1e6, 1000.0, 1e-4, 1e-20])
def test_large_and_tiny_queries_keep_their_digits(factor: float) -> None:
    # 1e6 is past float16, 1e-20 far below it; the scale of the scores makes up for the factor.
    assert interpreted(scaled_query_error, factor) < LIMIT["f16"]


def peaky_error() -> float:
    return worst_error(NAME, peaky_input())


def test_small_weights_beside_a_large_one_survive() -> None:
    assert interpreted(peaky_error) < LIMIT["f16"]


def every_byte_error(kv_type: str) -> float:
    """One token a sequence, so that the output is the value itself: every finite FP8 number must come out exactly."""
    dtype = KV_DTYPES[kv_type]
    numbers = torch.arange(256, dtype=torch.uint8).view(dtype)
    kv = numbers[numbers.float().isfinite()].repeat(3)[:576].reshape(1, 1, 576)
    q, _, qo_indptr, kv_indptr, config = make_input([1])
    output = load_variant(NAME).custom_kernel((q, {"fp8": (kv, torch.ones(1))}, qo_indptr, kv_indptr, config))
    return (output[0].float() - kv[0, 0, :512].float()).abs().max().item()


@EACH_NUMBER_OF_PARTS
@pytest.mark.parametrize("kv_type", KV_DTYPES)
def test_every_fp8_number_is_decoded_exactly(kv_type: str, parts: int) -> None:
    assert interpreted(with_parts, parts, every_byte_error, kv_type) == 0


def odd_views_error() -> float:
    """q and the KV as views with gaps between rows, and a KV that starts inside a pair of bytes."""
    data = make_input([70, 5])
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, scale = kv_data["fp8"]
    gaps = torch.zeros(2, 16, 600, dtype=torch.bfloat16)
    gaps[..., :576] = q
    shifted = torch.zeros(kv.numel() + 1, dtype=torch.uint8)
    shifted[1:] = kv.view(torch.uint8).flatten()
    odd = shifted[1:].view(torch.float8_e4m3fn).view(kv.shape)
    return worst_error(NAME, (gaps[..., :576], {"fp8": (odd, scale)}, qo_indptr, kv_indptr, config))


def test_views_with_gaps_or_an_odd_start_are_right() -> None:
    assert interpreted(odd_views_error) < LIMIT["f16"]


@EACH_NUMBER_OF_PARTS
def test_every_kv_byte_is_loaded_exactly_once(parts: int) -> None:
    assert interpreted(with_parts, parts, reads_of_each_kv_byte, NAME) == (1, 1)


def two_outputs() -> tuple[bool, bool]:
    module = load_variant(NAME)
    first = module.custom_kernel(make_input([300, 17]))
    kept = first.clone()
    second = module.custom_kernel(make_input([300, 17], seed=1))
    shared = first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    return shared, torch.equal(first, kept) and not torch.equal(first, second)


def test_outputs_of_two_calls_are_kept_apart() -> None:
    shared, unharmed = interpreted(two_outputs)
    assert not shared
    assert unharmed


def refusal(wrong: str) -> str:
    q, kv_data, qo_indptr, kv_indptr, config = make_input([5, 7])
    if wrong == "8 heads":
        q = q[:, :8]
    elif wrong == "e5m2 KV":
        kv_data = {"fp8": (kv_data["fp8"][0].view(torch.float8_e5m2), kv_data["fp8"][1])}
    try:
        load_variant(NAME).custom_kernel((q, kv_data, qo_indptr, kv_indptr, config))
    except ValueError as error:
        return str(error)
    return "taken"


@pytest.mark.parametrize(
    ("wrong", "named"), [("8 heads", "q heads and dims (8, 576)"), ("e5m2 KV", "fp8 KV dtype torch.float8_e5m2")]
)
def test_other_input_is_refused_in_one_line_that_names_it(wrong: str, named: str) -> None:
    message = interpreted(refusal, wrong)
    assert named in message
    assert "\n" not in message


def counts_of_splits() -> list[int]:
    module = load_variant(NAME)
    tiles = module.TILES["sm_90"]
    return [module.split_count(*sizes, tiles) for sizes in ((1, 1), (4, 1024), (32, 8192), (1024, 100000), (3, 70))]


def test_number_of_splits_is_a_power_of_two_that_fills_the_device_once() -> None:
    assert interpreted(counts_of_splits) == [1, 16, 8, 1, 2]


def plan_of(target: str, queries: int, batch: int, rows: int) -> tuple[int, int, bool]:
    """Splits, parts, and whether it is the measured plan of this shape."""
    module = load_variant(NAME)
    plan = module.plan_for(target, queries, batch, rows)
    return plan.splits, plan.tiles.parts, plan is module.SM_90_PLANS.get((batch, rows // batch))


@pytest.mark.parametrize(("batch", "length"), BENCHMARK_SHAPES)
def test_sm_90_has_a_measured_plan_for_each_benchmark_shape(batch: int, length: int) -> None:
    assert interpreted(plan_of, "sm_90", batch, batch, batch * length)[2]


@pytest.mark.parametrize(
    ("target", "queries", "batch", "rows", "splits", "parts"),
    [
        ("sm_90", 16, 4, 4 * 1024, 16, 4),  # four queries a sequence
        ("sm_90", 32, 32, 32 * 1000, 8, 4),
        ("sm_90", 1, 1, 1, 1, 4),
        ("gfx950", 32, 32, 32 * 1024, 8, 2),
        ("other", 32, 32, 32 * 1024, 8, 2),
    ],
)
def test_any_other_shape_or_target_follows_the_rule(
    target: str, queries: int, batch: int, rows: int, splits: int, parts: int
) -> None:
    assert interpreted(plan_of, target, queries, batch, rows) == (splits, parts, False)


def oddities_of_plans() -> list[str]:
    module = load_variant(NAME)
    found = []
    for (batch, length), (splits, tiles, merge) in module.SM_90_PLANS.items():
        if splits & (splits - 1) or not 1 <= splits <= module.MOST_SPLITS or splits * tiles.tile > length:
            found.append(f"{batch}x{length}: {splits} splits of {tiles.tile} tokens")
        if tiles.parts not in (2, 4) or 512 % merge.dims:
            found.append(f"{batch}x{length}: {tiles.parts} parts, {merge.dims} dims")
    return found


def test_measured_plans_split_into_whole_tiles() -> None:
    assert interpreted(oddities_of_plans) == []
