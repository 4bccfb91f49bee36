"""The truth that the variants' tests compare with, their inputs, and the children in which Triton runs.

Triton decides when it is imported whether `@triton.jit` compiles or interprets. So kernels run on the CPU in one child
process started with TRITON_INTERPRET=1, and are cross-compiled in another started with TRITON_INTERPRET=0; this process
imports no variant. A test sends a module-level function of its own file and gets plain numbers back.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
SM_SCALE = 576**-0.5

# Limits of the relative Frobenius error against the float64 attention of the same FP8 KV, overall and for the worst
# (query, head) row. Rounding to float16 costs 0.002 and softmax weights in e4m3 0.02; zeros cost 1.
LIMIT = {"f16": 0.01, "fp8": 0.05}


def interpreted(function: Callable, *arguments: Any) -> Any:
    """`function(*arguments)` in the child where Triton's mended interpreter runs the kernels."""
    return _child("1").submit(function, *arguments).result()


def compiled(function: Callable, *arguments: Any) -> Any:
    """`function(*arguments)` in the child where Triton compiles."""
    return _child("0").submit(function, *arguments).result()


@functools.cache
def _child(interpret: str) -> ProcessPoolExecutor:
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with mock.patch.dict(os.environ, TRITON_INTERPRET=interpret):
        pool.submit(_prepare, interpret).result()
    return pool


def _prepare(interpret: str) -> None:
    sys.path.insert(0, str(ROOT))
    torch.set_num_threads(1)
    if interpret == "1":
        from harness.evaluation.interpreter import mend_interpreter

        mend_interpreter()


@functools.cache
def load_variant(name: str) -> ModuleType:
    """variants/NAME.py as a module; only for use in a child."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "variants" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def make_input(
    lengths: Sequence[int],
    queries: Sequence[int] | None = None,
    kv_seq_len: int | None = None,
    kv_dtype: torch.dtype = torch.float8_e4m3fn,
    seed: int = 0,
) -> tuple:
    """Normal q and KV of the platform's structure, with KV lengths and numbers of queries (default 1) per sequence."""
    queries = queries or [1] * len(lengths)
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(sum(queries), 16, 576, generator=generator).bfloat16()
    kv = torch.randn(sum(lengths), 1, 576, generator=generator)
    config = {
        "batch_size": len(lengths),
        "num_heads": 16,
        "num_kv_heads": 1,
        "qk_head_dim": 576,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "v_head_dim": 512,
        "q_seq_len": max(queries),
        "kv_seq_len": kv_seq_len or max(lengths),
        "sm_scale": SM_SCALE,
    }
    return q, {"fp8": quantise(kv, kv_dtype)}, _indptr(queries), _indptr(lengths), config


def quantise(kv: torch.Tensor, kv_dtype: torch.dtype = torch.float8_e4m3fn) -> tuple[torch.Tensor, torch.Tensor]:
    """The platform's FP8 of a KV: one scale, max|kv| / largest number of the type."""
    scale = kv.abs().max() / torch.finfo(kv_dtype).max
    return (kv / scale).to(kv_dtype), scale.reshape(1).float()


def _indptr(lengths: Sequence[int]) -> torch.Tensor:
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)


def exact_attention(data: tuple) -> torch.Tensor:
    """The float64 attention of the FP8 KV: (total_q, 16, 512); query i of n sees keys up to kv_len - n + i."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv = kv_data["fp8"][0].double() * kv_data["fp8"][1].double()
    out = torch.zeros(q.shape[0], 16, 512, dtype=torch.float64)
    for sequence in range(len(kv_indptr) - 1):
        keys = kv[kv_indptr[sequence] : kv_indptr[sequence + 1], 0]
        first, end = int(qo_indptr[sequence]), int(qo_indptr[sequence + 1])
        for row in range(first, end):
            seen = keys[: max(0, len(keys) - (end - 1 - row))]
            if len(seen):
                weights = (q[row].double() @ seen.T * config["sm_scale"]).softmax(-1)
                out[row] = weights @ seen[:, :512]
    return out


def errors(output: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    """The relative Frobenius error over everything, and the worst over any (query, head) row that is not zero."""
    difference = output.double() - truth
    norms = truth.norm(dim=-1)
    worst = (difference.norm(dim=-1) / norms.clamp(min=1e-300))[norms > 0]
    return (difference.norm() / truth.norm()).item(), worst.max().item()


def worst_error(name: str, data: tuple) -> float:
    """The larger of the two errors of a variant on an input; only for use in a child. Checks the output's form too."""
    output = load_variant(name).custom_kernel(data)
    assert type(output) is torch.Tensor
    assert (output.shape, output.dtype) == ((data[0].shape[0], 16, 512), torch.bfloat16)
    assert output.is_contiguous()
    assert bool(output.isfinite().all())
    return max(errors(output, exact_attention(data)))


def peaky_input(kv_seq_len: int = 1024) -> tuple:
    """One sequence where, for every head, one key stands 8 nats above 1023 others, which keep a quarter of the mass.

    The others share a mean, so that their mass shows in the output.
    """
    q, _, qo_indptr, _, config = make_input([1024], kv_seq_len=kv_seq_len)
    q[:] = q[:, :1]
    direction = q[0, 0].double() / q[0, 0].double().norm()
    generator = torch.Generator().manual_seed(1)
    kv = torch.randn(1024, 576, generator=generator).double() + torch.randn(576, generator=generator).double()
    kv -= (kv @ direction)[:, None] * direction
    kv[700] += direction * (8 / (SM_SCALE * q[0, 0].double().norm()))
    return q, {"fp8": quantise(kv.float()[:, None])}, qo_indptr, torch.tensor([0, 1024], dtype=torch.int32), config


def test_truth_equals_torch_attention_with_a_bottom_right_causal_mask() -> None:
    data = make_input([40], [3])
    q, kv_data, *_ = data
    kv = (kv_data["fp8"][0].double() * kv_data["fp8"][1].double())[:, 0]
    mask = torch.ones(3, 40, dtype=torch.bool).tril(37)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.double().transpose(0, 1),
        kv.expand(16, -1, -1),
        kv[:, :512].expand(16, -1, -1),
        attn_mask=mask,
        scale=SM_SCALE,
    )
    # float64 throughout, so only the order of summation differs.
    assert torch.allclose(exact_attention(data), expected.transpose(0, 1), rtol=0, atol=1e-12)


def test_truth_gives_zeros_to_a_query_that_sees_no_key() -> None:
    truth = exact_attention(make_input([1], [3]))
    assert not truth[:2].any()
    assert truth[2].any()


@pytest.mark.parametrize("candidate", ["zeros", "query", "mean of V", "half of the keys", "unscaled P"])
def test_limits_refuse_an_output_that_is_not_the_attention(candidate: str) -> None:
    data = peaky_input() if candidate == "unscaled P" else make_input([1024])
    q, kv_data, _, kv_indptr, config = data
    kv = kv_data["fp8"][0].double() * kv_data["fp8"][1].double()
    half = (q, {"fp8": tuple(part[::2] for part in kv_data["fp8"])}, data[2], kv_indptr // 2, config)
    scores = (q[0].double() @ kv[:, 0].T) * config["sm_scale"]
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    rounded = weights.to(torch.float8_e4m3fn).double()
    output = {
        "zeros": torch.zeros(1, 16, 512),
        "query": q[..., :512] / 24,
        "mean of V": kv[:, 0, :512].mean(0).expand(1, 16, 512),
        "half of the keys": exact_attention(half),
        "unscaled P": (rounded @ kv[:, 0, :512] / weights.sum(-1, keepdim=True))[None],
    }[candidate]
    assert max(errors(output, exact_attention(data))) > LIMIT["fp8"]
