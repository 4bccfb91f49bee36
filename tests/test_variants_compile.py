"""Every Triton kernel of the variants, cross-compiled at its real constants: fits the chip, spills nothing there.

Needs no GPU. Times are not known from this; whether a plan can run at all is.
"""

from __future__ import annotations

import functools
import os
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from typing import Any
from unittest import mock

import pytest
from test_variants_truth import _prepare, load_variant

FP8_SPLIT = {
    "fp8_split_4x1024": ("PLANS_4X1024", "merge_splits_at_once"),
    "fp8_split_4x8192": ("PLANS_4X8192", "merge_splits_at_once"),
    "fp8_split_32x1024": ("PLANS_32X1024", "merge_splits_in_series"),
    "fp8_split_64x1024": ("PLANS_64X1024", "merge_splits_in_series"),
}
# Bytes of shared memory that a block may have: 160 KB of LDS in a compute unit of gfx950 (CDNA4 ISA), and 227 KB of
# shared memory in a block of sm_90 (CUDA programming guide).
SHARED_LIMIT = {"gfx950": 160 * 1024, "sm_90": 227 * 1024}
POINTERS = {
    "q_ptr": "*bf16",
    "kv_ptr": "*fp8e4nv",
    "kv_scale_ptr": "*fp32",
    "qo_indptr_ptr": "*i32",
    "kv_indptr_ptr": "*i32",
    "partial_ptr": "*fp16",
    "lse_ptr": "*fp32",
    "out_ptr": "*bf16",
    "scale_ptr": "*u8",
    "unit_ptr": "*fp32",
}
SCALARS = {"score_scale": "fp32", "kv_unit": "fp32", "splits": "i32", "batch": "i32", "q_seq_len": "i32"}


def compiled(target: str, function: Callable, *arguments: Any) -> Any:
    """`function(target, *arguments)` in a child that compiles for this target alone."""
    return _compiler(target).submit(function, target, *arguments).result()


@functools.cache
def _compiler(target: str) -> ProcessPoolExecutor:
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with mock.patch.dict(os.environ, TRITON_INTERPRET="0"):
        pool.submit(_prepare, "0").result()
    return pool


def compile_kernel(
    name: str, kernel: str, target: str, constants: dict, options: dict, other_types: dict[str, str] | None = None
) -> dict[str, int]:
    """Shared bytes of one kernel of a variant, and its spilled registers and scratch bytes (gfx950 only)."""
    return _facts(binary_of(name, kernel, target, constants, options, other_types), target)


def binary_of(
    name: str, kernel: str, target: str, constants: dict, options: dict, other_types: dict[str, str] | None = None
) -> Any:
    """One kernel of a variant, compiled for a target."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler import compile as compile_source

    function = getattr(load_variant(name), kernel)
    types = POINTERS | SCALARS | (other_types or {})
    signature = {argument: "constexpr" if argument in constants else types[argument] for argument in function.arg_names}
    # Tensors of torch start at multiples of 16 bytes, and Triton compiles for that when it launches.
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, argument in enumerate(function.arg_names)
        if signature[argument].startswith("*")
    }
    gpu = {"gfx950": GPUTarget("hip", "gfx950", 64), "sm_90": GPUTarget("cuda", 90, 32)}[target]
    return compile_source(ASTSource(function, signature, constants, aligned), target=gpu, options=options)


def _facts(binary: Any, target: str) -> dict[str, int]:
    found = {"shared": binary.metadata.shared}
    if target == "gfx950":
        text = binary.asm["amdgcn"]
        found["vgpr_spills"] = int(re.search(r"\.vgpr_spill_count:\s+(\d+)", text)[1])
        found["sgpr_spills"] = int(re.search(r"\.sgpr_spill_count:\s+(\d+)", text)[1])
        found["scratch"] = int(re.search(r"; ScratchSize: (\d+)", text)[1])
    return found


def compile_fp8_split(target: str, name: str) -> list[dict[str, int]]:
    plans, merge = FP8_SPLIT[name]
    plan = getattr(load_variant(name), plans)[target]
    stage_1 = {"num_warps": plan.warps, "num_stages": plan.stages}
    return [
        compile_kernel(name, "attend_split_fp8", target, {"SPLITS": plan.splits, "TILE": plan.tile}, stage_1),
        compile_kernel(
            name, merge, target, {"SPLITS": plan.splits, "DIMS": plan.merge_dims}, {"num_warps": plan.merge_warps}
        ),
    ]


def compile_portable(
    target: str, tiles: tuple | None, splits: int, merge: tuple | None, batch_block: int
) -> list[dict[str, int]]:
    """Both kernels of a plan, or stage 1 alone where there is one split. tiles, merge: None for the general rule's."""
    module, on_cuda = load_variant("portable"), target == "sm_90"
    tiles = module.TILES[target] if tiles is None else module.TilePlan(*tiles)
    merge = module.MERGE if merge is None else module.MergePlan(*merge)
    types = {"q_ptr": "*i32", "kv_nope": "*i16", "kv_rope": "*i16"}
    if on_cuda:
        types["kv_nope"] = f"tensordesc<i16[{tiles.tile}, {256 // tiles.parts}]>"
        types["kv_rope"] = f"tensordesc<i16[{tiles.tile}, 32]>"
    constants = {
        "IS_SPLIT": splits > 1,
        "TILE": tiles.tile,
        "PARTS": tiles.parts,
        "BATCH_BLOCK": batch_block,
        "BY_CVT": on_cuda,
        "BY_DESCRIPTOR": on_cuda,
    }
    stage_1 = {"num_warps": tiles.warps, "num_stages": tiles.stages}
    found = [compile_kernel("portable", "attend_split_f16", target, constants, stage_1, types)]
    if splits > 1:
        constants = {"SPLITS": splits, "DIMS": merge.dims}
        found.append(compile_kernel("portable", "merge_splits_f16", target, constants, {"num_warps": merge.warps}))
    return found


def compile_measured_plans(target: str) -> list[dict[str, int]]:
    """Each plan of portable for the shapes of the benchmark, where all sequences have one query."""
    plans = load_variant("portable").SM_90_PLANS.values()
    return [kernel for plan in plans for kernel in compile_portable(target, plan.tiles, plan.splits, plan.merge, 0)]


# Of the two variants that read each KV byte once: plans, both kernels, and the type of the KV.
ONE_PASS = {
    "fp8_one_pass": ("ONE_PASS_PLANS", "attend_once_fp8", "merge_on_xcd_fp8", {}, {}),
    "mxfp4_one_pass": ("FP4_PLANS", "attend_once_mxfp4", "merge_on_xcd_mxfp4", {"SCALE_ROW": 24}, {"kv_ptr": "*u8"}),
}


def compile_one_pass(target: str, name: str) -> list[dict[str, int]]:
    plans, attend, merge, constants, types = ONE_PASS[name]
    found = []
    for plan in set(getattr(load_variant(name), plans).values()):
        stage_1 = {"SPLITS": plan.splits, "TILE": plan.tile, "XCDS_EACH": 1, **constants}
        options = {"num_warps": plan.warps, "num_stages": plan.stages}
        found.append(compile_kernel(name, attend, target, stage_1, options, types))
        if plan.splits > 1:
            stage_2 = {"SPLITS": plan.splits, "DIMS": plan.merge_dims, "XCDS_EACH": 1}
            found.append(compile_kernel(name, merge, target, stage_2, {"num_warps": plan.merge_warps}))
    return found


def loads_of_one_pass(target: str, name: str) -> dict[str, int]:
    """How often each load from memory into registers is in the code of stage 1, at 128 tokens and 4 warps."""
    _, attend, _, constants, types = ONE_PASS[name]
    stage_1 = {"SPLITS": 4, "TILE": 128, "XCDS_EACH": 1, **constants}
    text = binary_of(name, attend, target, stage_1, {"num_warps": 4, "num_stages": 2}, types).asm["amdgcn"]
    return Counter(re.findall(r"^\s+((?:buffer|global|flat)_load_\w+)", text, re.M))


def assert_fits(found: list[dict[str, int]], target: str) -> None:
    for kernel in found:
        assert kernel.pop("shared") <= SHARED_LIMIT[target]
        # The plans were chosen with Triton 3.6, which torch 2.10 of the leaderboard's image asks for. The register
        # allocation of others differs: 3.5 spills up to 111 of 256 registers at the same constants, 3.9 up to 399.
        if version("triton").startswith("3.6."):
            assert not any(kernel.values()), kernel


@pytest.mark.parametrize("target", SHARED_LIMIT)
@pytest.mark.parametrize("name", FP8_SPLIT)
def test_fp8_split_fits_and_does_not_spill(name: str, target: str) -> None:
    assert_fits(compiled(target, compile_fp8_split, name), target)


@pytest.mark.parametrize("target", SHARED_LIMIT)
@pytest.mark.parametrize("name", ONE_PASS)
def test_one_pass_fits_and_does_not_spill(name: str, target: str) -> None:
    assert_fits(compiled(target, compile_one_pass, name), target)


@pytest.mark.skipif(not version("triton").startswith("3.6."), reason="the plans were chosen with Triton 3.6")
@pytest.mark.parametrize(("name", "row_bytes"), [("fp8_one_pass", 576), ("mxfp4_one_pass", 288 + 18)])
def test_one_pass_reads_each_byte_once_and_no_byte_alone(name: str, row_bytes: int) -> None:
    # The pipelined loop holds its loads twice: ahead of the loop for the first tile, and in it for the next.
    # Buffer loads are those of the KV; the query and the indptrs come by global loads. 256 lanes each.
    loads = compiled("gfx950", loads_of_one_pass, name)
    assert not any("byte" in load for load in loads), loads
    width = {"ushort": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
    read = sum(count * width[load.rpartition("_")[2]] for load, count in loads.items() if load.startswith("buffer"))
    assert read * 256 / 2 <= 1.1 * 128 * row_bytes


@pytest.mark.parametrize("target", SHARED_LIMIT)
@pytest.mark.parametrize(("splits", "batch_block"), [(64, 0), (1, 1024)])
def test_portable_fits_and_does_not_spill(splits: int, batch_block: int, target: str) -> None:
    assert_fits(compiled(target, compile_portable, None, splits, None, batch_block), target)


def test_each_measured_plan_of_portable_fits() -> None:
    assert_fits(compiled("sm_90", compile_measured_plans), "sm_90")


@pytest.mark.skipif(not version("triton").startswith("3.6."), reason="the plans were chosen with Triton 3.6")
def test_quarters_of_portable_would_spill_on_gfx950() -> None:
    # Why gfx950 has halves; and a spill in this kernel is noticed.
    quarters = (128, 8, 2, 256, 4)
    (stage_1,) = compiled("gfx950", compile_portable, quarters, 1, None, 0)
    assert stage_1["vgpr_spills"] > 0


def compile_too_large(target: str) -> dict[str, int]:
    stage_1 = {"num_warps": 8, "num_stages": 2}
    return compile_kernel("fp8_split_4x1024", "attend_split_fp8", target, {"SPLITS": 4, "TILE": 512}, stage_1)


def test_a_tile_that_is_too_large_is_noticed() -> None:
    found = compiled("gfx950", compile_too_large)
    assert found["shared"] > SHARED_LIMIT["gfx950"]
    assert found["vgpr_spills"] > 0
    assert found["scratch"] > 0
