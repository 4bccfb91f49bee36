"""The child: imports the submission and calls it on inputs that the parent writes. Knows no seed and no truth.

Everything that measures is bound before the submission is imported, to functions of C that it cannot patch
from Python.
"""

from __future__ import annotations

import importlib
import math
import os
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.evaluation.process_tree import die_with_parent
from harness.evaluation.protocol import (
    TensorSpec,
    as_bytes_view,
    flatten,
    rebuild,
    receive,
    send,
    tensor_from_bytes,
    tensor_to_bytes,
)
from harness.evaluation.shared_memory import export_handle

_exit = os._exit
_MAX_TEXT = 16 << 10
# One buffer of at most this size is written as often as a clear of more bytes needs.
_CLEAR_BUFFER_BYTES = 1 << 30
_OFFICIAL_CLEAR_SHAPE = (16000, 1024, 1024)


@dataclass
class Slot:
    """Input tensors at fixed addresses, and the nested value that is handed to the submission."""

    specs: list[TensorSpec]
    tensors: list[torch.Tensor]
    skeleton: Any


class GpuClock:
    """Times one call by device events on the current queue, after a clear of the last-level cache."""

    def __init__(self) -> None:
        self._event = torch._C._CudaEventBase
        self._synchronize = torch._C._cuda_synchronize
        self._current = torch._C._cuda_getCurrentStream
        self._elapsed = torch._C._CudaEventBase.elapsed_time
        self._record = torch._C._CudaEventBase.record
        self._queue_type = torch.cuda.Stream
        self._buffer: torch.Tensor | None = None

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        self._synchronize()

    def time(self, call: Callable[[], Any], clear_bytes: int | None) -> tuple[Any, float]:
        """The call's result and its time in nanoseconds. clear_bytes: None clears as the platform does."""
        queue = self._queue()
        self._synchronize()
        self._clear(clear_bytes)
        start, end = self._event(enable_timing=True), self._event(enable_timing=True)
        self._record(start, queue)
        result = call()
        self._record(end, queue)
        self._synchronize()
        return result, self._elapsed(start, end) * 1e6

    def _queue(self) -> Any:
        stream_id, device_index, device_type = self._current(torch._C._cuda_getDevice())
        return self._queue_type(stream_id=stream_id, device_index=device_index, device_type=device_type)

    def _clear(self, clear_bytes: int | None) -> None:
        if clear_bytes is None:
            # As the platform does it: 62.5 GiB of normal numbers, made and dropped.
            torch.randn(_OFFICIAL_CLEAR_SHAPE, device="cuda")
            return
        if clear_bytes == 0:
            return
        size = min(clear_bytes, _CLEAR_BUFFER_BYTES)
        if self._buffer is None or self._buffer.numel() != size:
            self._buffer = torch.empty(size, dtype=torch.uint8, device="cuda")
        for turn in range(math.ceil(clear_bytes / size)):
            self._buffer.fill_(turn & 0xFF)


class Worker:
    """Answers the parent's commands, one at a time."""

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}
        self._submission: Any = None
        self._on_gpu = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
        self._clock = GpuClock() if self._on_gpu else None
        self._stand_in_calls = 0

    def load(self, request: dict[str, Any], payload: bytearray) -> dict[str, Any]:
        """Import the submission; what is missing here is stood in for first."""
        self._prepare_interpreter()
        self._prepare_aiter()
        sys.path.insert(0, os.getcwd())
        with self._device_mode():
            self._submission = importlib.import_module("submission")
        if not callable(getattr(self._submission, "custom_kernel", None)):
            raise TypeError("custom_kernel is not a function")
        return {"entries": callable(getattr(self._submission, "entry_for", None))}

    def _prepare_interpreter(self) -> None:
        if self._on_gpu:
            torch.cuda.init()
            return
        try:
            from harness.evaluation.interpreter import mend_fp8_casts
        except ImportError:
            return
        mend_fp8_casts()

    def _device_mode(self) -> AbstractContextManager[Any]:
        if self._on_gpu:
            return nullcontext()
        from harness.evaluation.cpu_redirect import CudaOnCpu

        return CudaOnCpu()

    def _prepare_aiter(self) -> None:
        if b"aiter" not in Path("submission.py").read_bytes():
            return
        from harness import aiter_stand_in

        if aiter_stand_in.real_aiter() is not None:
            return
        aiter_stand_in.install()
        for module in (sys.modules["aiter"], sys.modules["aiter.mla"]):
            for name, function in list(vars(module).items()):
                if callable(function) and not isinstance(function, type) and not name.startswith("_"):
                    setattr(module, name, self._counted(function))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import functools

        @functools.wraps(function)
        def counting(*positional: Any, **named: Any) -> Any:
            self._stand_in_calls += 1
            return function(*positional, **named)

        return counting

    def allocate(self, request: dict[str, Any], payload: bytearray) -> dict[str, Any]:
        """Make uninitialised input tensors; answers the handles through which the parent writes GPU ones."""
        specs = [TensorSpec.from_json(raw) for raw in request["specs"]]
        tensors = [spec.empty() for spec in specs]
        self._slots[request["slot"]] = Slot(specs, tensors, request["skeleton"])
        return {"handles": [export_handle(t) if s.on_gpu else None for s, t in zip(specs, tensors, strict=True)]}

    def free(self, request: dict[str, Any], payload: bytearray) -> dict[str, Any]:
        """Drop a slot's tensors."""
        self._slots.pop(request["slot"], None)
        return {}

    def write(self, request: dict[str, Any], payload: bytearray) -> dict[str, Any]:
        """Overwrite one CPU input tensor in place with the payload."""
        slot, index = self._slots[request["slot"]], request["leaf"]
        source = tensor_from_bytes(slot.specs[index], payload)
        as_bytes_view(slot.tensors[index]).copy_(as_bytes_view(source))
        return {}

    def call(self, request: dict[str, Any], payload: bytearray) -> tuple[dict[str, Any], bytes]:
        """One call on a slot's inputs; `clear` given: timed, after a cache clear of so many bytes."""
        slot = self._slots[request["slot"]]
        data = rebuild(slot.skeleton, slot.tensors)
        kernel = self._kernel(request.get("key"))
        before = self._stand_in_calls
        if self._clock is None:
            with self._device_mode():
                output, time_ns = kernel(data), None
        elif "clear" in request:
            output, time_ns = self._clock.time(lambda: kernel(data), request["clear"])
        else:
            output, time_ns = kernel(data), None
            self._clock.synchronize()
        leaves: list[torch.Tensor] = []
        skeleton = flatten(output, leaves)
        header = {
            "time_ns": time_ns,
            "skeleton": skeleton,
            "specs": [TensorSpec.of(leaf).to_json() for leaf in leaves],
            "stand_in": self._stand_in_calls > before,
        }
        return header, b"".join(tensor_to_bytes(leaf) for leaf in leaves)

    def _kernel(self, key: list[Any] | None) -> Callable[[Any], Any]:
        if key is not None and hasattr(self._submission, "entry_for"):
            return self._submission.entry_for(tuple(key))
        return self._submission.custom_kernel

    def profile(self, request: dict[str, Any], payload: bytearray) -> dict[str, Any]:
        """The platform's profiler table for one call."""
        from torch.profiler import ProfilerActivity, profile

        slot = self._slots[request["slot"]]
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if self._on_gpu else [])
        with self._device_mode(), profile(activities=activities) as profiler:
            self._kernel(request.get("key"))(rebuild(slot.skeleton, slot.tensors))
            if self._clock is not None:
                self._clock.synchronize()
        order = "self_cuda_time_total" if self._on_gpu else "self_cpu_time_total"
        return {"table": profiler.key_averages().table(sort_by=order, row_limit=20)}


def _own_line(error: BaseException) -> int | None:
    """The innermost line of the submission that an error passed through."""
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if _is_submission(frame.filename)]
    return lines[-1] if lines else None


def _is_submission(file_name: str) -> bool:
    return Path(file_name).name == "submission.py"


def _describe(error: BaseException) -> dict[str, Any]:
    if isinstance(error, SystemExit):
        message = f"called sys.exit({error.code!r})"
    else:
        message = f"{type(error).__name__}: {error}"
    text = "".join(traceback.format_exception(error))
    return {"error": message[:_MAX_TEXT], "traceback": text[-_MAX_TEXT:], "line": _own_line(error)}


def main() -> None:
    """Serve the parent on the descriptor named in the arguments until it closes."""
    die_with_parent()
    channel = socket.socket(fileno=int(sys.argv[1]))
    sys.argv[:] = ["submission.py"]
    worker = Worker()
    commands = {name: getattr(worker, name) for name in ("load", "allocate", "free", "write", "call", "profile")}
    while True:
        try:
            request, payload = receive(channel)
        except (EOFError, OSError):
            _exit(0)
        try:
            answer = commands[request["command"]](request, payload)
        except BaseException as error:
            answer = _describe(error)
        header, data = answer if isinstance(answer, tuple) else (answer, b"")
        send(channel, header, data)


if __name__ == "__main__":
    main()
