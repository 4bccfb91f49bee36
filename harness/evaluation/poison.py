"""Fills memory that nobody has written yet, so that reading it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_UNINITIALISED = {
    torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty, torch.Tensor.new_empty_strided,
    torch.Tensor.resize_,
}  # fmt: skip
# Block sizes of a caching allocator that a decode call asks for, from a row of scratch to a whole output.
_BLOCK_BYTES = tuple(1 << power for power in range(9, 27))
_BLOCKS_OF_EACH = 4


class _FilledAllocations(TorchFunctionMode):
    def __init__(self, byte: int) -> None:
        super().__init__()
        self._byte = byte

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _UNINITIALISED and type(result) is torch.Tensor:
            fill(result, self._byte)
        return result


def fill(tensor: torch.Tensor, byte: int) -> None:
    """Set every byte of a tensor's own elements."""
    if tensor.numel():
        storage = torch.empty((), dtype=torch.uint8, device=tensor.device)
        storage.set_(tensor.untyped_storage()).fill_(byte)


@contextmanager
def poisoned_memory(byte: int, on_gpu: bool) -> Iterator[None]:
    """Within it, what torch allocates uninitialised holds `byte`; on a GPU so do the allocator's free blocks before."""
    if on_gpu:
        for size in _BLOCK_BYTES:
            blocks = [torch.empty(size, dtype=torch.uint8, device="cuda").fill_(byte) for _ in range(_BLOCKS_OF_EACH)]
            del blocks
    with _FilledAllocations(byte):
        yield
