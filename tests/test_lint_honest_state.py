"""Honest submissions that keep something between calls give no finding at all."""

from __future__ import annotations

import pytest

from harness.lint import lint_source

HEAD = "#!POPCORN leaderboard amd-mixed-mla\n#!POPCORN gpu MI355X\n"

HONEST = {
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
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_submission_gives_no_finding(name):
    assert lint_source(HEAD + HONEST[name], "submission.py") == []


def test_there_are_enough_of_them_to_mean_something():
    assert len(HONEST) >= 9
