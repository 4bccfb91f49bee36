"""Honest submissions of the kinds that people write give no finding at all."""

from __future__ import annotations

import pytest

from harness.lint import lint_source

HEAD = "#!POPCORN leaderboard amd-mixed-mla\n#!POPCORN gpu MI355X\n"

HONEST = {
    "autotuned Triton kernel": '''
"""Decode attention, split over the keys."""
import torch
import triton
import triton.language as tl
from task import input_t, output_t

VARIANT = {"shapes": ["4x1024"], "kv": "fp8"}


@triton.autotune(configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128) for w in (4, 8)], key=["length"])
@triton.jit
def stage1(q, kv, scale, partial, lse, length, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    for start in tl.range(0, length, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        keys = tl.load(kv + rows * 576, mask=rows < length)
        tl.store(partial + rows, keys)


@triton.jit
def stage2(partial, lse, out, SPLITS: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(out + pid, tl.load(partial + pid))


def custom_kernel(data: input_t) -> output_t:
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, scale = kv_data["fp8"]
    batch, splits = config["batch_size"], 8
    partial = torch.empty((batch, splits, 16, 512), dtype=torch.bfloat16, device=q.device)
    lse = torch.empty((batch, splits, 16), dtype=torch.float32, device=q.device)
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    stage1[lambda meta: (batch, splits)](q, kv, scale, partial, lse, config["kv_seq_len"])
    stage2[(batch,)](partial, lse, out, SPLITS=splits)
    return out
''',
    "extension compiled by load_inline": '''
import os
import torch
from torch.utils.cpp_extension import load_inline

os.environ.setdefault("PYTORCH_ROCM_ARCH", "gfx950")
os.environ["CXX"] = "clang++"

CPP = "torch::Tensor decode(torch::Tensor q, torch::Tensor kv);"
HIP = r"""
#include <hip/hip_runtime.h>
#define CAT(a, b) a##b
__global__ void decode_kernel(const float* q, const float* kv, float* out) { out[threadIdx.x] = q[threadIdx.x]; }
torch::Tensor decode(torch::Tensor q, torch::Tensor kv) {
  auto out = torch::empty_like(q);
  decode_kernel<<<1, 64>>>(q.data_ptr<float>(), kv.data_ptr<float>(), out.data_ptr<float>());
  return out;
}
"""
module = load_inline(name="decode", cpp_sources=[CPP], cuda_sources=[HIP], functions=["decode"], verbose=False)


def custom_kernel(data):
    q, kv_data, *_ = data
    return module.decode(q, kv_data["bf16"])
''',
    "optional aiter with a fallback": """
import importlib.util
import torch

HAS_AITER = importlib.util.find_spec("aiter") is not None
try:
    from aiter.mla import mla_decode_fwd
except ImportError:
    mla_decode_fwd = None


def _fallback(q, kv, out):
    out.copy_(torch.nn.functional.scaled_dot_product_attention(q, kv, kv[..., :512]))


def custom_kernel(data):
    q, kv_data, *_ = data
    out = torch.empty_like(q[..., :512])
    if mla_decode_fwd is None:
        _fallback(q, kv_data["bf16"], out)
    else:
        mla_decode_fwd(q, kv_data["bf16"], out)
    return out
""",
    "tests in the main block": """
import torch


def custom_kernel(data):
    q, kv_data, *_ = data
    return torch.softmax(q @ kv_data["bf16"].transpose(-1, -2), -1) @ kv_data["bf16"][..., :512]


def _bench(data):
    import time

    torch.cuda.synchronize()
    time.sleep(0.1)
    start = time.perf_counter()
    custom_kernel(data)
    torch.cuda.synchronize()
    print(f"took {time.perf_counter() - start}")


if __name__ == "__main__":
    import sys
    from reference import check_implementation, generate_input

    size = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    data = generate_input(size, 1, 1024, 42)
    _bench(data)
    good, message = check_implementation(data, custom_kernel(data))
    sys.exit(0 if good else message)
""",
    "dataclasses and an enum": """
from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

import torch


class Path(enum.Enum):
    SHORT = "short"
    LONG = "long"


@dataclass(frozen=True)
class Config:
    path: Path
    splits: int = 8
    tags: tuple[str, ...] = field(default_factory=tuple)


@dataclass
class Problem:
    q: torch.Tensor
    kv: torch.Tensor

    @property
    def batch(self) -> int:
        return self.q.shape[0]


def pick(problem: Problem) -> Config:
    return replace(Config(Path.SHORT), splits=4) if problem.batch > 64 else Config(Path.LONG)


def custom_kernel(data):
    q, kv_data, *_ = data
    problem = Problem(q, kv_data["bf16"])
    config = pick(problem)
    out = torch.zeros_like(q[..., :512])
    for split in range(config.splits):
        out += torch.matmul(problem.q, problem.kv[split::config.splits])
    return out.to(torch.bfloat16)
""",
    "compiled torch code": """
import torch

torch.backends.cuda.matmul.allow_tf32 = True
torch._dynamo.config.cache_size_limit = 64
torch.set_float32_matmul_precision("high")


@torch.compile(mode="max-autotune-no-cudagraphs", dynamic=False)
def _attention(q, kv, scale):
    p = torch.softmax(torch.einsum("bhd,bsd->bhs", q, kv) * scale, dim=-1)
    return torch.einsum("bhs,bsd->bhd", p, kv[..., :512])


@torch.inference_mode()
def custom_kernel(data):
    q, kv_data, _, _, config = data
    kv = kv_data["bf16"].view(config["batch_size"], config["kv_seq_len"], 576)
    return _attention(q, kv, config["sm_scale"])
""",
    "output buffer in the input": """
import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + offsets, tl.load(a + offsets) + tl.load(b + offsets), mask=offsets < n)


def custom_kernel(data):
    a, b, output = data
    n = output.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    add[grid](a, b, output, n, BLOCK=1024)
    return output
""",
    "output buffer in the input, in torch": """
import torch


def custom_kernel(data):
    x, output = data
    if x.dtype != torch.float32:
        x = x.float()
    output[...] = x.sum(-1)
    return output
""",
    "quantised inputs in a loop with a pipeline": """
import contextlib
import logging
import os
import torch

log = logging.getLogger(__name__)
DEBUG = os.environ.get("MLA_DEBUG") == "1"
NUM_SPLITS = int(os.getenv("MLA_SPLITS", "8"))


def quantise(x, dtype=torch.float8_e4m3fn):
    limit = torch.finfo(dtype).max
    scale = x.abs().amax().clamp(min=1e-12) / limit
    return (x / scale).clamp(-limit, limit).to(dtype), scale


def custom_kernel(data, splits=NUM_SPLITS):
    q, kv_data, qo_indptr, kv_indptr, config = data
    q8, scale = quantise(q)
    kv, kv_scale = kv_data["fp8"]
    parts = []
    with contextlib.nullcontext():
        for index in range(splits):
            rows = kv[index::splits, 0]
            scores = (q8.float() @ rows.float().T) * (scale * kv_scale * config["sm_scale"])
            parts.append((scores.logsumexp(-1), scores.softmax(-1) @ rows[:, :512].float()))
    lse = torch.stack([lse for lse, _ in parts])
    weights = (lse - lse.logsumexp(0)).exp()
    if DEBUG:
        print("weights", weights.shape)
        log.warning("splits %d", splits)
    out = sum(w[..., None] * o for w, (_, o) in zip(weights, parts))
    return (out * kv_scale).to(torch.bfloat16)
""",
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_submission_gives_no_finding(name):
    assert lint_source(HEAD + HONEST[name], "submission.py") == []


def test_there_are_enough_of_them_to_mean_something():
    assert len(HONEST) >= 9
