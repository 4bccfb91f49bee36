"""Lets the parent write into tensors that the child owns on the same GPU (CUDA and HIP inter-process handles).

The child exports its own input tensors; nothing of the parent's memory is ever mapped into the child.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import WorkerFailed
from harness.evaluation.protocol import TensorSpec

if TYPE_CHECKING:
    import torch

# torch keeps a reference counter of each exported block in a file of this name.
_COUNTER_FILE = re.compile(rb"^/torch_[0-9A-Za-z_]+$")


def export_handle(tensor: torch.Tensor) -> dict[str, Any]:
    """A JSON object from which another process can map this GPU tensor's memory."""
    device, handle, size, offset, counter, counter_offset, event, event_sync = tensor.untyped_storage()._share_cuda_()
    return {
        "device": device,
        "handle": handle.hex(),
        "size": size,
        "offset": offset,
        "counter": counter.hex(),
        "counter_offset": counter_offset,
        "event": event.hex(),
        "event_sync": event_sync,
        "storage_offset": tensor.storage_offset(),
    }


def map_handle(spec: TensorSpec, raw: dict[str, Any]) -> torch.Tensor:
    """The tensor behind a handle, as a view of the other process's memory. Raises WorkerFailed if it is bad."""
    import torch

    try:
        storage = torch.UntypedStorage._new_shared_cuda(
            int(raw["device"]),
            bytes.fromhex(raw["handle"]),
            int(raw["size"]),
            int(raw["offset"]),
            bytes.fromhex(raw["counter"]),
            int(raw["counter_offset"]),
            bytes.fromhex(raw["event"]),
            bool(raw["event_sync"]),
        )
        view = torch.empty((), dtype=getattr(torch, spec.dtype), device="cuda")
        return view.set_(storage, int(raw["storage_offset"]), spec.shape, spec.stride)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise WorkerFailed(f"the child's GPU memory cannot be mapped: {error}") from None


def forget_counter(raw: dict[str, Any]) -> None:
    """Remove the counter file that a killed child left in shared memory."""
    with suppress(KeyError, TypeError, ValueError, OSError):
        name = bytes.fromhex(raw["counter"])
        if _COUNTER_FILE.match(name):
            Path("/dev/shm" + name.decode()).unlink()
