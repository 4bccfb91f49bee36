"""The aiter variant in a child process of its own, its inputs, and exact attention for them.

On a machine without a GPU its Triton kernels run in Triton's interpreter, which must be chosen before Triton is
imported: so each test's work is a function at the top level of its file that runs in one child process.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

PATH = Path(__file__).parent.parent / "variants" / "aiter_a8w8_persistent.py"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FN, FNUZ = torch.float8_e4m3fn, torch.float8_e4m3fnuz
# Triton has the fnuz type on AMD only, and in its interpreter.
FP8_TYPES = [FN, FNUZ] if DEVICE == "cpu" else [FN]

# Relative Frobenius error of fp8 arithmetic (q and softmax weights) on normal values: 0.028 to 0.032 was seen.
LIMIT = 0.05

Run = Callable[..., Any]


@contextmanager
def kernel_process() -> Iterator[Run]:
    """Runs functions of the test files in a child process that is set up for Triton kernels."""
    with pytest.MonkeyPatch.context() as patch:
        if DEVICE == "cpu":
            patch.setenv("TRITON_INTERPRET", "1")
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
            yield lambda function, *arguments: pool.submit(function, *arguments).result(timeout=120)


def load_variant(aiter: ModuleType | None = None) -> ModuleType:
    """A fresh copy of the variant that finds `aiter` (the stand-in where None) as aiter."""
    from harness import aiter_stand_in

    if DEVICE == "cpu":
        from harness.evaluation.interpreter import mend_fp8_casts

        mend_fp8_casts()
    sys.modules["aiter"] = aiter or aiter_stand_in.api
    spec = importlib.util.spec_from_file_location("variant_under_test", PATH)
    variant = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(variant)
    return variant


def inputs(batch: int, length: int, *, seed: int = 0, dtype: torch.dtype = FN, q_factor: float = 1.0) -> tuple:
    """The platform's input tuple, without the KV formats that the variant does not read."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(batch, 16, 576, generator=generator) * q_factor
    kv = torch.randn(batch * length, 1, 576, generator=generator)
    scale = (kv.abs().amax() / torch.finfo(dtype).max).reshape(1)
    indptr = torch.arange(batch + 1, dtype=torch.int32, device=DEVICE)
    config = {
        "batch_size": batch,
        "num_heads": 16,
        "num_kv_heads": 1,
        "qk_head_dim": 576,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "v_head_dim": 512,
        "q_seq_len": 1,
        "kv_seq_len": length,
        "sm_scale": 1 / 24,
    }
    fp8 = ((kv / scale).to(dtype).to(DEVICE), scale.to(DEVICE))
    return q.bfloat16().to(DEVICE), {"fp8": fp8}, indptr.clone(), indptr * length, config


def exact(data: tuple) -> torch.Tensor:
    """Attention of the bf16 q and the dequantised KV in float64, as kv_indptr and sm_scale say."""
    q, kv_data, _, kv_indptr, config = data
    kv, scale = kv_data["fp8"]
    rows = kv[:, 0].float().double() * scale.double()
    ends = kv_indptr.tolist()
    results = []
    for sequence, (start, end) in enumerate(pairwise(ends)):
        weights = (q[sequence].double() @ rows[start:end].T * config["sm_scale"]).softmax(dim=-1)
        results.append(weights @ rows[start:end, :512])
    return torch.stack(results)


def error(output: torch.Tensor, expected: torch.Tensor) -> float:
    return ((output.double() - expected).norm() / expected.norm()).item()


def error_of(variant: ModuleType, data: tuple) -> float:
    """Relative error of one call against exact attention."""
    return error(variant.custom_kernel(data), exact(data))


def refusal(function: Callable, *arguments: Any) -> tuple[str, str]:
    """The kind and text of the error that a call raises."""
    try:
        function(*arguments)
    except Exception as raised:
        return type(raised).__name__, str(raised)
    return "", "no error"
