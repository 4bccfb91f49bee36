"""The aiter variant where aiter is missing, later than the one it is written for, or strange."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
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


STAGE1 = (
    "Q KV qo_indptr kv_indptr kv_page_indices kv_last_page_lens num_kv_splits_indptr work_meta_data work_indptr"
    " work_info_set max_seqlen_q page_size nhead_kv softmax_scale splitData splitLse output"
)
REDUCE = "partial_output partial_lse reduce_indptr reduce_final_map reduce_partial_map max_seqlen_q"
INFO = (
    "batch_size max_seqlen_qo num_head_qo q_dtype kv_dtype is_sparse fast_mode=True num_kv_splits=32"
    " intra_batch_mode=False"
)
METADATA = (
    "seqlens_qo_indptr seqlens_kv_indptr kv_last_page_lens num_heads_per_head_k num_heads_k is_causal"
    " work_metadata_ptrs work_info_set work_indptr reduce_indptr reduce_final_map reduce_partial_map page_size=1"
    " kv_granularity=16 max_seqlen_qo=-1 uni_seqlen_qo=-1 fast_mode=True topk=-1 max_split_per_batch=-1"
    " intra_batch_mode=False"
)
CONTEXT_PARALLEL = "g_kv_indptr=None cp_world_size=1 cp_rank=0"
SPLIT_COUNT = "valid_split_count=None use_valid_split_count_reduce=0"
PARTS = (
    "is_cp_round_robin=False mla_version=0 dtype_q_nope=None dtype_q_rope=None dtype_kv_nope=None dtype_kv_rope=None"
)

# What changed, by date, in ROCm/aiter's aiter/ops/attention.py from f3be04a12a to e4048607a5.
CHANGES: dict[str, dict[str, str]] = {
    "2026-03-04": {
        "get_mla_metadata_info_v1": INFO,
        "get_mla_metadata_v1": f"{METADATA} dtype_q=None dtype_kv=None",
        "mla_decode_stage1_asm_fwd": f"{STAGE1} q_scale=None kv_scale=None",
        "mla_reduce_v1": f"{REDUCE} final_output final_lse=None",
    },
    "2026-03-16": {"mla_decode_stage1_asm_fwd": f"{STAGE1} lse=None q_scale=None kv_scale=None"},
    "2026-06-11": {
        "get_mla_metadata_info_v1": f"{INFO} max_split_per_batch=-1",
        "mla_reduce_v1": f"{REDUCE} num_kv_splits final_output final_lse=None",
    },
    "2026-06-19": {
        "get_mla_metadata_v1": f"{METADATA} dtype_q=None dtype_kv=None is_cp_round_robin=False",
        "mla_decode_stage1_asm_fwd": f"{STAGE1} lse=None q_scale=None kv_scale=None {CONTEXT_PARALLEL}",
    },
    "2026-06-26": {
        "mla_decode_stage1_asm_fwd": f"{STAGE1} lse=None q_scale=None kv_scale=None {CONTEXT_PARALLEL} {SPLIT_COUNT}"
    },
    "2026-07-13": {"get_mla_metadata_v1": f"{METADATA} {PARTS}"},
    "2026-07-14": {"get_mla_metadata_v1": f"{METADATA} {PARTS} dtype_q=None dtype_kv=None"},
    "2026-08-10": {
        "mla_decode_stage1_asm_fwd": (
            f"{STAGE1} lse=None q_scale=None kv_scale=None {CONTEXT_PARALLEL} {SPLIT_COUNT} causal=True"
        )
    },
}
NEWEST = max(CHANGES)


def signature_of(parameters: str) -> inspect.Signature:
    """A signature from `name name=default …`; a default is a Python literal."""
    kind, listed = inspect.Parameter.POSITIONAL_OR_KEYWORD, []
    for entry in parameters.split():
        name, given, default = entry.partition("=")
        value = ast.literal_eval(default) if given else inspect.Parameter.empty
        listed.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(listed)


def double(name: str, parameters: str) -> Callable:
    """The stand-in's function behind another version's parameters; what it does not know must have its default,
    or say what it says elsewhere: fp8 for a dtype, 4 for the number of splits."""
    from harness.aiter_stand_in import api

    function, signature = getattr(api, name), signature_of(parameters)
    known = inspect.signature(function).parameters

    def called(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        for key in (key for key in signature.parameters if key.startswith("dtype_")):
            assert bound.arguments.get(key) == torch.float8_e4m3fn
        for key, value in bound.arguments.items():
            if key.startswith("dtype_"):
                continue
            if key == "num_kv_splits" and name == "mla_reduce_v1":
                assert value == 4
            elif key not in known:
                assert value == signature.parameters[key].default
        return function(**{key: value for key, value in bound.arguments.items() if key in known})

    called.__signature__ = signature
    called.__name__ = name
    return called


def aiter_of(date: str) -> ModuleType:
    """aiter's four functions as their parameters were on a date of CHANGES."""
    module = types.ModuleType("aiter")
    for day in sorted(CHANGES):
        if day <= date:
            for name, parameters in CHANGES[day].items():
                setattr(module, name, double(name, parameters))
    return module


def same_output_as_the_stand_ins(date: str) -> bool:
    data = inputs(2, 1024)
    return torch.equal(load_variant().custom_kernel(data), load_variant(aiter_of(date)).custom_kernel(data))


@pytest.mark.parametrize("date", CHANGES)
def test_aiter_with_the_parameters_of_each_date_gives_the_same_result(child: Run, date: str) -> None:
    assert child(same_output_as_the_stand_ins, date)


def test_the_first_of_these_versions_has_the_stand_ins_parameters() -> None:
    from harness.aiter_stand_in import api

    for name, parameters in CHANGES[min(CHANGES)].items():
        own = inspect.signature(getattr(api, name)).parameters.values()
        wanted = signature_of(parameters).parameters.values()
        assert [(p.name, p.default) for p in own] == [(p.name, p.default) for p in wanted]


def strange_aiter(what: str) -> tuple[str, str]:
    module = aiter_of(NEWEST)
    if what == "demands more":

        def mla_reduce_v1(
            partial_output, partial_lse, reduce_indptr, reduce_final_map, reduce_partial_map, max_seqlen_q,
            final_output, layout,
        ):  # fmt: skip
            raise AssertionError("called")

        module.mla_reduce_v1 = mla_reduce_v1
    elif what == "hides":
        module.mla_reduce_v1 = lambda *args, **kwargs: None
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
        ("hides", "this aiter hides the parameters of mla_reduce_v1;"),
    ],
)
def test_an_aiter_that_it_does_not_know_is_refused_in_one_line(child: Run, what: str, message: str) -> None:
    kind, text = child(strange_aiter, what)
    assert kind == "ImportError"
    assert message in text and "f3be04a12a" in text and "\n" not in text


def registered_operators() -> tuple[float, list[str]]:
    """aiter as it is on ROCm: functions with hidden signatures around operators registered with torch."""
    reached: list[str] = []
    later = aiter_of(NEWEST)
    library = torch.library.Library("aiter", "DEF")
    tensor, optional = "Tensor(a{}!) {}", "Tensor(a{}!)? {}"
    may_be_none = {"num_kv_splits_indptr", "work_meta_data", "work_indptr", "work_info_set", "reduce_final_map"}
    counts = "max_seqlen_q page_size nhead_kv num_kv_splits cp_world_size cp_rank use_valid_split_count_reduce"
    numbers = {"softmax_scale": "float", "causal": "bool"} | dict.fromkeys(counts.split(), "SymInt")
    for name in ("mla_decode_stage1_asm_fwd", "mla_reduce_v1"):
        function, fields = getattr(later, name), []
        for index, (key, parameter) in enumerate(inspect.signature(function).parameters.items()):
            if key in numbers:
                default = "" if parameter.default is parameter.empty else f"={parameter.default}"
                fields.append(f"{numbers[key]} {key}{default}")
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


def test_the_document_has_each_change_of_a_parameter() -> None:
    document = (Path(__file__).parents[1] / "docs" / "aiter-variant.md").read_text()
    assert [date for date in CHANGES if f"| {date} |" not in document] == []
