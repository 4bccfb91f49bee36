"""Makes a process look as if it had the target's GPU, as far as a submission's host code asks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch

from harness.evaluation.cpu_redirect import CudaOnCpu

# Sources: AMD Instinct MI355X data sheet (256 CUs, 288 GB), NVIDIA H200 as torch reports it (132 SMs, 141 GB).
_PROPERTIES: dict[str, dict[str, Any]] = {
    "gfx950": {
        "name": "AMD Instinct MI355X", "gcnArchName": "gfx950:sramecc+:xnack-", "multi_processor_count": 256,
        "total_memory": 288 << 30, "warp_size": 64, "major": 9, "minor": 5, "L2_cache_size": 4 << 20,
        "max_threads_per_multi_processor": 2048, "regs_per_multiprocessor": 131072,
        "shared_memory_per_block": 160 << 10, "shared_memory_per_multiprocessor": 160 << 10,
    },
    "sm_90": {
        "name": "NVIDIA H200", "multi_processor_count": 132, "total_memory": 141 << 30, "warp_size": 32, "major": 9,
        "minor": 0, "L2_cache_size": 60 << 20, "max_threads_per_multi_processor": 2048,
        "regs_per_multiprocessor": 65536, "shared_memory_per_block": 48 << 10,
        "shared_memory_per_block_optin": 227 << 10, "shared_memory_per_multiprocessor": 228 << 10,
    },
}  # fmt: skip
TARGETS = tuple(_PROPERTIES)
_DEVICE = torch.device("cuda", 0)


def shared_memory_limit(target: str) -> int:
    """Bytes of LDS or shared memory that one program can have."""
    properties = _PROPERTIES[target]
    return properties.get("shared_memory_per_block_optin", properties["shared_memory_per_block"])


class AsIfOn(CudaOnCpu):
    """Within it, tensors say that they lie on a GPU of `target`, and torch.cuda describes that GPU."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self._properties = SimpleNamespace(**_PROPERTIES[target])
        self._is_hip = target.startswith("gfx")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # A getter is a new object each time it is looked up, so these are equal and not the same.
        if func == torch.Tensor.device.__get__:
            return _DEVICE
        if func == torch.Tensor.is_cuda.__get__:
            return True
        if func is torch.Tensor.get_device:
            return 0
        return super().__torch_function__(func, types, args, kwargs)

    def pretend(self) -> None:
        """Replace what torch.cuda and torch.version say, for the rest of the process."""
        properties = self._properties
        torch.version.hip = "7.1" if self._is_hip else None
        torch.version.cuda = None if self._is_hip else "13.0"
        answers: dict[str, Callable[..., Any]] = {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "init": lambda: None,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "set_device": lambda device: None,
            "get_device_name": lambda device=None: properties.name,
            "get_device_capability": lambda device=None: (properties.major, properties.minor),
            "get_device_properties": lambda device=None: properties,
            "synchronize": lambda device=None: None,
            "empty_cache": lambda: None,
            "mem_get_info": lambda device=None: (properties.total_memory, properties.total_memory),
            "is_current_stream_capturing": lambda: False,
            "current_stream": lambda device=None: SimpleNamespace(cuda_stream=0, device=_DEVICE),
            "device": lambda device: nullcontext(),
            "device_of": lambda tensor: nullcontext(),
        }
        for name, answer in answers.items():
            setattr(torch.cuda, name, answer)
