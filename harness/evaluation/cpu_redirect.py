"""Lets a submission that asks for device "cuda" run on a machine without one: its tensors land on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def _redirected(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value


class CudaOnCpu(TorchFunctionMode):
    """Within it, `device="cuda"`, `.to("cuda")` and `.cuda()` mean the CPU; waiting for the device does nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        named = {name: _redirected(value) for name, value in (kwargs or {}).items()}
        if func is torch.Tensor.to or func is torch.device:
            args = tuple(_redirected(value) for value in args)
        return func(*args, **named)

    def __enter__(self) -> CudaOnCpu:
        self._synchronize = torch.cuda.synchronize
        torch.cuda.synchronize = lambda device=None: None
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        torch.cuda.synchronize = self._synchronize
        super().__exit__(*exception)
