"""The aiter variant where aiter is missing, later than the one it is written for, or strange."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from aiter_variant import LIMIT, Run, error_of, inputs, kernel_process, load_variant, refusal


@pytest.fixture(scope="module")
def child() -> Iterator[Run]:
    """Runs a function of this file in a child process that is set up for Triton kernels."""
    with kernel_process() as run:
        yield run


class BrokenAiter:
    """Finds an aiter that fails at import as the PyPI wheel does without ROCm."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "aiter":
            raise RuntimeError("ROCm version file\nnot found")


def without_aiter(broken: bool) -> tuple[str, str]:
    variant = load_variant()
    del sys.modules["aiter"]
    finder = BrokenAiter()
    if broken:
        sys.meta_path.insert(0, finder)
    try:
        return refusal(variant.custom_kernel, inputs(2, 1024))
    finally:
        if broken:
            sys.meta_path.remove(finder)


@pytest.mark.parametrize(
    ("broken", "reason"), [(False, "No module named 'aiter'"), (True, "ROCm version file not found")]
)
def test_it_imports_without_aiter_and_a_call_says_what_is_missing(child: Run, broken: bool, reason: str) -> None:
    kind, text = child(without_aiter, broken)
    assert kind == "ImportError"
    assert "needs AMD's aiter" in text and reason in text and "\n" not in text


def later_aiter() -> ModuleType:
    """Signatures of aiter from June 2026: `lse` before q_scale, num_kv_splits before final_output, both refused if
    they get what belongs elsewhere."""
    from harness.aiter_stand_in import api

    module = types.ModuleType("aiter")
    module.get_mla_metadata_info_v1 = api.get_mla_metadata_info_v1
    module.get_mla_metadata_v1 = api.get_mla_metadata_v1

    def mla_decode_stage1_asm_fwd(
        Q, KV, qo_indptr, kv_indptr, kv_page_indices, kv_last_page_lens, num_kv_splits_indptr, work_meta_data,  # noqa: N803
        work_indptr, work_info_set, max_seqlen_q, page_size, nhead_kv, softmax_scale, splitData, splitLse, output,  # noqa: N803
        lse=None, q_scale=None, kv_scale=None,
    ):  # fmt: skip
        assert lse is None
        api.mla_decode_stage1_asm_fwd(
            Q, KV, qo_indptr, kv_indptr, kv_page_indices, kv_last_page_lens, num_kv_splits_indptr, work_meta_data,
            work_indptr, work_info_set, max_seqlen_q, page_size, nhead_kv, softmax_scale, splitData, splitLse, output,
            q_scale, kv_scale,
        )  # fmt: skip

    def mla_reduce_v1(
        partial_output, partial_lse, reduce_indptr, reduce_final_map, reduce_partial_map, max_seqlen_q, num_kv_splits,
        final_output, final_lse=None,
    ):  # fmt: skip
        assert num_kv_splits == 4
        api.mla_reduce_v1(
            partial_output, partial_lse, reduce_indptr, reduce_final_map, reduce_partial_map, max_seqlen_q,
            final_output, final_lse,
        )  # fmt: skip

    module.mla_decode_stage1_asm_fwd, module.mla_reduce_v1 = mla_decode_stage1_asm_fwd, mla_reduce_v1
    return module


def outputs_of_pin_and_later() -> bool:
    data = inputs(2, 1024)
    return torch.equal(load_variant().custom_kernel(data), load_variant(later_aiter()).custom_kernel(data))


def test_a_later_aiter_with_moved_arguments_gives_the_same_result(child: Run) -> None:
    assert child(outputs_of_pin_and_later)


def strange_aiter(what: str) -> tuple[str, str]:
    module = later_aiter()
    if what == "demands more":

        def mla_reduce_v1(
            partial_output, partial_lse, reduce_indptr, reduce_final_map, reduce_partial_map, max_seqlen_q,
            final_output, layout,
        ):  # fmt: skip
            raise AssertionError("called")

        module.mla_reduce_v1 = mla_reduce_v1
    elif what == "renames":
        module.mla_decode_stage1_asm_fwd = lambda queries, keys: None
    else:
        del module.mla_reduce_v1
    return refusal(load_variant(module).custom_kernel, inputs(2, 1024))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("demands more", "this aiter's mla_reduce_v1 differs in layout;"),
        ("renames", "this aiter's mla_decode_stage1_asm_fwd differs in Q, KV,"),
        ("lacks", "this aiter has no mla_reduce_v1;"),
    ],
)
def test_an_aiter_that_it_does_not_know_is_refused_in_one_line(child: Run, what: str, message: str) -> None:
    kind, text = child(strange_aiter, what)
    assert kind == "ImportError"
    assert message in text and "f3be04a12a" in text and "\n" not in text


def registered_operators() -> tuple[float, list[str]]:
    """aiter as it is on ROCm: functions with hidden signatures around operators registered with torch."""
    reached: list[str] = []
    later = later_aiter()
    library = torch.library.Library("aiter", "DEF")
    tensor, optional = "Tensor(a{}!) {}", "Tensor(a{}!)? {}"
    may_be_none = {"num_kv_splits_indptr", "work_meta_data", "work_indptr", "work_info_set", "reduce_final_map"}
    numbers = {"softmax_scale": "float"} | dict.fromkeys(
        ("max_seqlen_q", "page_size", "nhead_kv", "num_kv_splits"), "SymInt"
    )
    for name in ("mla_decode_stage1_asm_fwd", "mla_reduce_v1"):
        function, fields = getattr(later, name), []
        for index, (key, parameter) in enumerate(inspect.signature(function).parameters.items()):
            if key in numbers:
                fields.append(f"{numbers[key]} {key}")
            elif parameter.default is None:
                fields.append(optional.format(index, key) + "=None")
            else:
                fields.append((optional if key in may_be_none else tensor).format(index, key))
        library.define(f"{name}({', '.join(fields)}) -> ()")

        def implementation(*args: Any, _function: Callable = function, _name: str = name) -> None:
            reached.append(_name)
            _function(*args)

        library.impl(name, implementation, "CompositeExplicitAutograd")
        setattr(later, name, lambda *args, _name=name, **kwargs: getattr(torch.ops.aiter, _name)(*args, **kwargs))
    return error_of(load_variant(later), inputs(2, 1024)), reached


def test_signatures_hidden_behind_registered_operators_are_found(child: Run) -> None:
    relative, reached = child(registered_operators)
    assert relative < LIMIT
    assert reached == ["mla_decode_stage1_asm_fwd", "mla_reduce_v1"]
