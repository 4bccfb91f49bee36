"""What parent and child say to each other: JSON headers with raw bytes behind them, never pickles.

A frame is `u32 header length, u64 payload length, header (UTF-8 JSON), payload`. The parent treats all that
comes from the child as hostile: lengths are bounded before anything is read, and nothing is evaluated.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import WorkerFailed

if TYPE_CHECKING:
    import torch

_LENGTHS = struct.Struct("!IQ")
MAX_HEADER_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Deadline:
    """A moment of the monotonic clock after which waiting stops."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The moment `seconds` from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the moment has come."""
        return time.monotonic() >= self.at

    def earlier_of(self, other: Deadline) -> Deadline:
        """Whichever comes first."""
        return self if self.at <= other.at else other


class DeadlinePassed(WorkerFailed):
    """The child did not answer in time."""


def send(
    channel: socket.socket,
    header: Mapping[str, Any],
    payload: bytes | memoryview = b"",
    deadline: Deadline | None = None,
) -> None:
    """Write one frame. Raises OSError when the other side is gone, DeadlinePassed when it does not read in time."""
    text = json.dumps(header).encode()
    _write(channel, _LENGTHS.pack(len(text), len(payload)) + text, deadline)
    _write(channel, payload, deadline)


def _write(channel: socket.socket, data: bytes | memoryview, deadline: Deadline | None) -> None:
    view = memoryview(data)
    while len(view):
        if not select.select([], [channel], [], None if deadline is None else deadline.remaining_s)[1]:
            raise DeadlinePassed("no answer in time")
        with suppress(BlockingIOError):
            view = view[channel.send(view[:_CHUNK_BYTES], socket.MSG_DONTWAIT) :]


def receive(
    channel: socket.socket, deadline: Deadline | None = None, max_payload_bytes: int = 1 << 40
) -> tuple[dict[str, Any], bytearray]:
    """Read one frame.

    Raises EOFError when the other side closed, DeadlinePassed when `deadline` comes first, and WorkerFailed
    when a length is over its bound or the header is no JSON object.
    """
    header_bytes, payload_bytes = _LENGTHS.unpack(_read(channel, _LENGTHS.size, deadline))
    if header_bytes > MAX_HEADER_BYTES or payload_bytes > max_payload_bytes:
        size = f"{header_bytes} + {payload_bytes} bytes"
        raise WorkerFailed(f"the submission's process sent {size}, more than an answer has")
    text = _read(channel, header_bytes, deadline)
    payload = _read(channel, payload_bytes, deadline)
    try:
        header = json.loads(text.decode())
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise WorkerFailed("the submission's process answered outside the protocol")
    return header, payload


def _read(channel: socket.socket, size: int, deadline: Deadline | None) -> bytearray:
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        if deadline is not None and not select.select([channel], [], [], deadline.remaining_s)[0]:
            raise DeadlinePassed("no answer in time")
        count = channel.recv_into(view[filled : filled + _CHUNK_BYTES])
        if count == 0:
            raise EOFError
        filled += count
    return data


@dataclass(frozen=True)
class TensorSpec:
    """Shape, strides (in elements) and dtype name (`bfloat16`) of one tensor, and whether it lies on a GPU."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    on_gpu: bool

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorSpec:
        """The spec of a real tensor."""
        dtype = str(tensor.dtype).removeprefix("torch.")
        return cls(tuple(tensor.shape), tuple(tensor.stride()), dtype, tensor.device.type != "cpu")

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        return {"shape": self.shape, "stride": self.stride, "dtype": self.dtype, "on_gpu": self.on_gpu}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> TensorSpec:
        """Read what `to_json` wrote. Raises KeyError, TypeError or ValueError when it is something else."""
        return cls(
            tuple(int(size) for size in raw["shape"]),
            tuple(int(step) for step in raw["stride"]),
            str(raw["dtype"]),
            bool(raw["on_gpu"]),
        )

    @property
    def bytes(self) -> int:
        """Bytes of its values, packed."""
        import torch

        count = 1
        for size in self.shape:
            count *= size
        return count * getattr(torch, self.dtype).itemsize

    def empty(self) -> torch.Tensor:
        """An uninitialised tensor of this kind."""
        import torch

        device = "cuda" if self.on_gpu else "cpu"
        return torch.empty_strided(self.shape, self.stride, dtype=getattr(torch, self.dtype), device=device)


def flatten(value: Any, leaves: list[torch.Tensor]) -> Any:
    """A JSON skeleton of nested tuples, lists, dicts, scalars and tensors; tensors go to `leaves` by index.

    Raises TypeError for anything else, naming its type.
    """
    import torch

    if type(value) is torch.Tensor:
        leaves.append(value)
        return {"tensor": len(leaves) - 1}
    if type(value) is tuple or isinstance(value, list):
        kind = "tuple" if type(value) is tuple else "list"
        return {kind: [flatten(item, leaves) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str | int) for key in value):
        return {"dict": [[key, flatten(item, leaves)] for key, item in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    raise TypeError(f"{name} is no tensor, number, text, tuple, list or dictionary of these by name")


def rebuild(skeleton: Mapping[str, Any], leaves: list[torch.Tensor]) -> Any:
    """The nested value of a skeleton, with these tensors in it."""
    ((kind, content),) = skeleton.items()
    if kind == "tensor":
        return leaves[content]
    if kind == "value":
        return content
    if kind == "dict":
        return {key: rebuild(item, leaves) for key, item in content}
    return {"tuple": tuple, "list": list}[kind](rebuild(item, leaves) for item in content)


def as_bytes_view(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as bytes where the dtype is one byte wide (copies of packed types are not everywhere)."""
    import torch

    return tensor.view(torch.uint8) if tensor.element_size() == 1 and tensor.dtype != torch.bool else tensor


def tensor_to_bytes(tensor: torch.Tensor) -> bytes:
    """The packed values of a tensor in row-major order."""
    import torch

    return as_bytes_view(tensor.detach()).cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def tensor_from_bytes(spec: TensorSpec, data: bytes | bytearray | memoryview) -> torch.Tensor:
    """A CPU tensor of the spec's shape and dtype, contiguous. Raises ValueError when the length is wrong."""
    import torch

    if len(data) != spec.bytes:
        raise ValueError(f"{len(data)} bytes for a tensor of {spec.bytes}")
    dtype = getattr(torch, spec.dtype)
    if not len(data):
        return torch.empty(spec.shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).view(spec.shape)
