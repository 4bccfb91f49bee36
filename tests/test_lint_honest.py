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
    "extension compiled on the first call": """
import threading
import torch
from torch.utils.cpp_extension import load_inline

_lock = threading.Lock()
_module = None


def _load():
    global _module
    with _lock:
        if _module is None:
            _module = load_inline(name="decode", cpp_sources=["..."], functions=["decode"])
    return _module


def custom_kernel(data):
    q, kv_data, *_ = data
    out = torch.empty_like(q)
    _load().decode(q.data_ptr(), kv_data["bf16"].data_ptr(), out.data_ptr())
    return out
""",
    "workspace kept by device": """
import torch
import triton

_workspaces: dict = {}


@triton.jit
def kernel(q, kv, scratch, out):
    pass


def _workspace(device, size):
    scratch = _workspaces.get(device)
    if scratch is None or scratch.numel() < size:
        scratch = torch.empty(size, dtype=torch.float32, device=device)
        _workspaces[device] = scratch
    return scratch[:size]


def custom_kernel(data):
    q, kv_data, *_ = data
    scratch = _workspace(q.device, q.numel() * 8)
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    kernel[(q.shape[0],)](q, kv_data["bf16"], scratch, out)
    return out
""",
    "schedule kept by the values of the indptrs": """
import torch
from collections import OrderedDict
from aiter import get_mla_metadata_v1, dtypes
from aiter.mla import mla_decode_fwd

_SCHEDULES = OrderedDict()
_LIMIT = 16


def _schedule(qo_indptr, kv_indptr):
    key = (tuple(qo_indptr.tolist()), tuple(kv_indptr.tolist()), qo_indptr.device)
    if key in _SCHEDULES:
        _SCHEDULES.move_to_end(key)
        return _SCHEDULES[key]
    meta = {"work_indptr": torch.empty(8, dtype=torch.int32, device=qo_indptr.device)}
    get_mla_metadata_v1(qo_indptr, kv_indptr, **meta)
    _SCHEDULES[key] = meta
    while len(_SCHEDULES) > _LIMIT:
        _SCHEDULES.popitem(last=False)
    return meta


def custom_kernel(data):
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data["fp8"]
    meta = _schedule(qo_indptr, kv_indptr)
    q8 = q.to(dtypes.fp8)
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    mla_decode_fwd(q8, kv.view(-1, 1, 1, 576), out, qo_indptr, kv_indptr, kv_scale=kv_scale, **meta)
    return out
""",
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
    "functools.cache on a pure host function": """
import functools
import math
import torch
import triton


@functools.cache
def _splits(batch: int, length: int, units: int) -> int:
    return max(1, min(32, math.ceil(units * 2 / batch), length // 128))


@functools.lru_cache(maxsize=None)
def _units(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def kernel(q, kv, out, SPLITS):
    pass


def custom_kernel(data):
    q, kv_data, _, kv_indptr, config = data
    splits = _splits(config["batch_size"], config["kv_seq_len"], _units(q.device.index or 0))
    out = torch.empty((q.shape[0], 16, 512), dtype=q.dtype, device=q.device)
    kernel[(config["batch_size"], splits)](q, kv_data["bf16"], out, SPLITS=splits)
    return out
""",
    "dispatch by shape": """
import torch
import triton


@triton.jit
def kernel(q, kv, out, BLOCK):
    pass


def _small(q, kv):
    out = torch.empty_like(q[..., :512])
    kernel[(4,)](q, kv, out, BLOCK=64)
    return out


def _large(q, kv):
    out = torch.empty_like(q[..., :512])
    kernel[(256,)](q, kv, out, BLOCK=256)
    return out


_DISPATCH = {(4, 1024): _small, (256, 8192): _large}


def custom_kernel(data):
    q, kv_data, _, _, config = data
    run = _DISPATCH.get((config["batch_size"], config["kv_seq_len"]), _small)
    return run(q, kv_data["bf16"])
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
    "a graph captured and replayed on copies of the inputs": """
import torch
import triton


@triton.jit
def kernel(q, kv, out):
    pass


_graphs = {}


def _capture(q, kv):
    static = (q.clone(), kv.clone(), torch.empty_like(q[..., :512]))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel[(8,)](*static)
    return graph, static


def custom_kernel(data):
    q, kv_data, *_ = data
    key = (q.shape, q.device)
    if key not in _graphs:
        _graphs[key] = _capture(q, kv_data["bf16"])
    graph, (static_q, static_kv, static_out) = _graphs[key]
    static_q.copy_(q)
    static_kv.copy_(kv_data["bf16"])
    graph.replay()
    out = torch.empty_like(static_out)
    out.copy_(static_out)
    return out
""",
    "a runner object": '''
import torch
import triton


@triton.jit
def kernel(q, kv, scratch, out):
    pass


class Runner:
    """Scratch memory by device, and the launch."""

    def __init__(self):
        self.scratch = {}
        self.calls = 0

    def scratch_for(self, device):
        if device not in self.scratch:
            self.scratch[device] = torch.empty(1 << 20, device=device)
        return self.scratch[device]

    def __call__(self, data):
        q, kv_data, *_ = data
        self.calls += 1
        out = torch.empty_like(q[..., :512])
        kernel[(8,)](q, kv_data["bf16"], self.scratch_for(q.device), out)
        return out


custom_kernel = Runner()
''',
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
    "a table in base64 and a compiler by hand": """
import base64
import ctypes
import os
import subprocess
import tempfile
import zlib

import torch

_TABLE = torch.frombuffer(bytearray(zlib.decompress(base64.b64decode("eJxjYGBgAAAABAAB"))), dtype=torch.uint8)
_SOURCE = "extern C __global__ void decode() {}"


def _build():
    folder = tempfile.mkdtemp()
    source = os.path.join(folder, "decode.hip")
    with open(source, "w") as file:
        file.write(_SOURCE)
    library = source.replace(".hip", ".so")
    subprocess.run(["/opt/rocm/bin/hipcc", "-O3", "--offload-arch=gfx950", source, "-o", library], check=True)
    return ctypes.CDLL(library)


_library = None


def custom_kernel(data):
    global _library
    if _library is None:
        _library = _build()
    q, kv_data, *_ = data
    out = torch.empty((q.shape[0], 16, 512), dtype=torch.bfloat16, device=q.device)
    _library.decode(ctypes.c_void_p(q.data_ptr()), ctypes.c_void_p(out.data_ptr()))
    return out
""",
    "kernels generated from a template": """
import re
import types
import torch

_TEMPLATE = "def scale_{n}(x):\\n    return x * {n}\\n"
_namespace: dict = {}
for _n in (2, 4):
    exec(_TEMPLATE.format(n=_n), _namespace)
pattern = re.compile(r"\\d+")


def custom_kernel(data):
    q, *_ = data
    return _namespace["scale_2"](q)
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


def test_there_are_enough_honest_submissions_to_mean_something():
    assert len(HONEST) >= 12
