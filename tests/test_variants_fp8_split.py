"""The four FP8 split-KV variants: right on their shapes, free of the hazards of the designs they come from."""

from __future__ import annotations

import ast

import pytest
import torch
from test_variants_truth import (
    LIMIT,
    ROOT,
    errors,
    exact_attention,
    interpreted,
    load_variant,
    make_input,
    peaky_input,
    quantise,
    worst_error,
)

SHAPES = {"fp8_split_4x1024": 1024, "fp8_split_4x8192": 8192, "fp8_split_32x1024": 1024, "fp8_split_64x1024": 1024}
ALL = pytest.mark.parametrize("name", SHAPES)
# One variant for each way of merging; what is tested with it does not depend on the shape.
EACH_MERGE = pytest.mark.parametrize("name", ["fp8_split_4x1024", "fp8_split_32x1024"])
# One variant for what happens in stage 1, whose text is the same in all four.
ONE = "fp8_split_32x1024"
ORDINARY = [300, 17]


def own_shape_error(name: str) -> float:
    return worst_error(name, make_input([SHAPES[name]]))


@ALL
def test_variant_is_right_on_a_slice_of_its_shape(name: str) -> None:
    assert interpreted(own_shape_error, name) < LIMIT["fp8"]


def ragged_error(name: str, lengths: list[int]) -> float:
    return worst_error(name, make_input(lengths, kv_seq_len=SHAPES[name]))


@ALL
def test_variant_takes_any_lengths_and_any_batch(name: str) -> None:
    # Shorter than a tile, around its borders, and so short that most splits are empty.
    lengths = [1, 63, 64, 65, 1023] if name == ONE else [1, 65]
    assert interpreted(ragged_error, name, lengths) < LIMIT["fp8"]


def error_after_change(name: str, change: str) -> tuple[float, float]:
    """The error of a call after `change` was made in place, and that of the output of the call before it."""
    data = make_input(ORDINARY, kv_seq_len=SHAPES[name])
    q, kv_data, _, kv_indptr, config = data
    first = load_variant(name).custom_kernel(data)
    if change == "kv scale":
        kv_data["fp8"][1].mul_(8)
    elif change == "kv bytes":
        kv_data["fp8"][0].copy_(quantise(torch.randn(sum(ORDINARY), 1, 576))[0])
    elif change == "q":
        q.copy_(torch.randn_like(q))
    elif change == "kv_indptr":
        kv_indptr[1] = 100
    elif change == "sm_scale":
        config["sm_scale"] *= 3
    return worst_error(name, data), max(errors(first, exact_attention(data)))


@pytest.mark.parametrize("change", ["kv scale", "kv bytes", "q", "kv_indptr", "sm_scale"])
def test_second_call_sees_what_changed_in_place(change: str) -> None:
    error, stale = interpreted(error_after_change, ONE, change)
    assert error < LIMIT["fp8"]
    assert stale > LIMIT["fp8"]


def scaled_query_error(name: str, factor: float) -> float:
    q, kv_data, qo_indptr, kv_indptr, config = make_input(ORDINARY, kv_seq_len=SHAPES[name])
    return worst_error(name, (q * factor, kv_data, qo_indptr, kv_indptr, config | {"sm_scale": 576**-0.5 / factor}))


@pytest.mark.parametrize("factor", [1000.0, 1e-4, 1e-20])
def test_large_and_tiny_queries_keep_their_digits(factor: float) -> None:
    # The scale of the scores makes up for the factor, so only a clipped or vanished q can change the result.
    # A cast of q without a scale clips at 448 and gives zeros below 2^-10.
    assert interpreted(scaled_query_error, ONE, factor) < LIMIT["fp8"]


def zero_query_error(name: str) -> float:
    q, *rest = make_input(ORDINARY, kv_seq_len=SHAPES[name])
    q[:, 3] = 0
    return worst_error(name, (q, *rest))


def test_zero_query_gives_the_mean_of_the_values() -> None:
    assert interpreted(zero_query_error, ONE) < LIMIT["fp8"]


def peaky_error(name: str) -> float:
    return worst_error(name, peaky_input(SHAPES[name]))


@EACH_MERGE
def test_small_weights_beside_a_large_one_survive(name: str) -> None:
    # Without a scale on the weights the same input costs over 0.05: see test_variants_truth.
    assert interpreted(peaky_error, name) < LIMIT["fp8"]


def constant_value_error(name: str) -> float:
    q, kv_data, *rest = make_input(ORDINARY, kv_seq_len=SHAPES[name])
    kv_data["fp8"][0][:, :, :512] = torch.tensor(1.0).to(torch.float8_e4m3fn)
    return worst_error(name, (q, kv_data, *rest))


def test_rounded_weights_and_their_sum_agree() -> None:
    # With all values equal the output is that value, to bfloat16 (2^-9): the weights cancel only if summed as rounded.
    assert interpreted(constant_value_error, ONE) < 0.004


def two_outputs(name: str) -> tuple[bool, bool]:
    module, one = load_variant(name), make_input(ORDINARY, kv_seq_len=SHAPES[name])
    first = module.custom_kernel(one)
    kept = first.clone()
    second = module.custom_kernel(make_input(ORDINARY, kv_seq_len=SHAPES[name], seed=1))
    shared = first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    return shared, torch.equal(first, kept) and not torch.equal(first, second)


@EACH_MERGE
def test_outputs_of_two_calls_are_kept_apart(name: str) -> None:
    shared, unharmed = interpreted(two_outputs, name)
    assert not shared
    assert unharmed


def reads_of_each_kv_byte(name: str) -> tuple[int, int]:
    """The fewest and the most times that a call loads a byte of the KV; also used by the other variants' tests."""
    import numpy as np
    from triton.runtime.interpreter import InterpreterBuilder

    data = make_input([1024], kv_seq_len=SHAPES.get(name, 1024))
    if name == "fp8_split_4x8192":
        data = make_input([8192])
    kv = data[1]["fp8"][0]
    begin, reads = kv.data_ptr(), np.zeros(kv.numel(), dtype=np.int64)
    original = InterpreterBuilder.create_masked_load

    def counting(self, pointers, mask, *rest):
        width = pointers.get_element_ty().primitive_bitwidth // 8
        first = pointers.data[np.broadcast_to(mask.data, pointers.data.shape)].astype(np.int64).ravel() - begin
        inside = first[(first >= 0) & (first < reads.size)]
        for byte in range(width):
            np.add.at(reads, inside + byte, 1)
        return original(self, pointers, mask, *rest)

    InterpreterBuilder.create_masked_load = counting
    try:
        load_variant(name).custom_kernel(data)
    finally:
        InterpreterBuilder.create_masked_load = original
    return int(reads.min()), int(reads.max())


@ALL
def test_every_kv_byte_is_loaded_exactly_once(name: str) -> None:
    assert interpreted(reads_of_each_kv_byte, name) == (1, 1)


def refusal(name: str, wrong: str) -> str:
    q, kv_data, qo_indptr, kv_indptr, config = make_input([5, 7], kv_seq_len=SHAPES[name])
    if wrong == "q_seq_len 2":
        config["q_seq_len"] = 2
    elif wrong == "kv_seq_len 512":
        config["kv_seq_len"] = 512
    elif wrong == "8 heads":
        q = q[:, :8]
    elif wrong == "float32 q":
        q = q.float()
    elif wrong == "e4m3fnuz KV":
        kv_data = {"fp8": (kv_data["fp8"][0].view(torch.float8_e4m3fnuz), kv_data["fp8"][1])}
    elif wrong == "values of 256 dims":
        config["v_head_dim"] = 256
    try:
        load_variant(name).custom_kernel((q, kv_data, qo_indptr, kv_indptr, config))
    except ValueError as error:
        return str(error)
    return "taken"


@ALL
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("q_seq_len 2", "q_seq_len 2 (takes 1)"),
        ("kv_seq_len 512", "kv_seq_len 512 (takes "),
        ("8 heads", "q shape (2, 8, 576) (takes (2, 16, 576))"),
        ("float32 q", "q dtype torch.float32 (takes torch.bfloat16)"),
        ("e4m3fnuz KV", "fp8 KV dtype torch.float8_e4m3fnuz (takes torch.float8_e4m3fn)"),
        ("values of 256 dims", "v_head_dim 256 (takes 512)"),
    ],
)
def test_other_input_is_refused_in_one_line_that_names_it(name: str, wrong: str, named: str) -> None:
    message = interpreted(refusal, name, wrong)
    assert named in message
    assert "\n" not in message


def test_definitions_of_one_name_are_the_same_text() -> None:
    texts: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    for name in SHAPES:
        source = (ROOT / "variants" / f"{name}.py").read_text()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names, first = [node.name], min([node.lineno, *(d.lineno for d in node.decorator_list)])
            elif isinstance(node, ast.Assign):
                names, first = [target.id for target in node.targets], node.lineno
            else:
                continue
            text = "\n".join(source.splitlines()[first - 1 : node.end_lineno])
            for defined in names:
                texts.setdefault(defined, set()).add(text)
                counts[defined] = counts.get(defined, 0) + 1
    own = {"VARIANT", "custom_kernel"}
    assert {defined for defined, different in texts.items() if len(different) > 1} == own
    assert counts["attend_split_fp8"] == 4
