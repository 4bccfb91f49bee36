"""The two clocks of a timed call, in the child: by events on the device's queue, and by the host's clock.

Everything here is bound when the clock is made, before the submission is imported, to functions of C that the
submission cannot patch from Python.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

# One buffer of at most this size is written as often as a clear of more bytes needs.
_CLEAR_BUFFER_BYTES = 1 << 30
# 62.5 GiB of float32, as gpu-mode/reference-kernels' eval.py (2026) draws them before each timed call.
_OFFICIAL_CLEAR_SHAPE = (16000, 1024, 1024)


class GpuClock:
    """Times one call after a clear of the last-level cache, on the current queue of the current device."""

    def __init__(self) -> None:
        self._event = torch._C._CudaEventBase
        self._synchronize = torch._C._cuda_synchronize
        self._current = torch._C._cuda_getCurrentStream
        self._elapsed = torch._C._CudaEventBase.elapsed_time
        self._record = torch._C._CudaEventBase.record
        self._queue_type = torch.cuda.Stream
        self._host_ns = time.perf_counter_ns
        self._out_of_memory = torch.OutOfMemoryError
        self._fill = torch._C.TensorBase.fill_
        self._buffer: torch.Tensor | None = None
        self._one_value: torch.Tensor | None = None

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        self._synchronize()

    def measure(self, clock: str, call: Callable[[], Any], clear_bytes: int | None) -> tuple[Any, float]:
        """The call's result and its time in nanoseconds, on the clock `queued` or `exposed`.

        clear_bytes: None clears as the platform does.
        """
        return {"queued": self.queued, "exposed": self.exposed}[clock](call, clear_bytes)

    def queued(self, call: Callable[[], Any], clear_bytes: int | None) -> tuple[Any, float]:
        """The platform's clock: events around a call that is enqueued while the clear before it still runs.

        What the host does for the call is hidden as far as the clear is longer; gaps between kernels are not.
        """
        queue = self._queue()
        self._synchronize()
        self._clear(clear_bytes)
        start, end = self._event(enable_timing=True), self._event(enable_timing=True)
        with _no_garbage_collection():
            self._record(start, queue)
            result = call()
            self._record(end, queue)
        self._synchronize()
        return result, self._elapsed(start, end) * 1e6

    def exposed(self, call: Callable[[], Any], clear_bytes: int | None) -> tuple[Any, float]:
        """The host's clock from an idle device to an idle device again: launch costs and the wait are in it.

        The clear has ended before the clock starts, so the caches are as cold as for `queued` and nothing hides.
        """
        self._clear(clear_bytes)
        self._synchronize()
        with _no_garbage_collection():
            began_ns = self._host_ns()
            result = call()
            self._synchronize()
            ended_ns = self._host_ns()
        return result, float(ended_ns - began_ns)

    def launch_trivial_kernel(self) -> None:
        """Enqueue a kernel that writes one value."""
        if self._one_value is None:
            self._one_value = torch.empty(1, dtype=torch.float32, device="cuda")
        self._fill(self._one_value, 0.0)

    def loop(self, call: Callable[[], Any], count: int) -> tuple[Any, float]:
        """The last of `count` calls' results, and the sum of their event times in nanoseconds; nothing is cleared."""
        queue, pairs, result = self._queue(), [], None
        self._synchronize()
        for _ in range(count):
            start, end = self._event(enable_timing=True), self._event(enable_timing=True)
            self._record(start, queue)
            result = call()
            self._record(end, queue)
            pairs.append((start, end))
        self._synchronize()
        return result, sum(self._elapsed(start, end) for start, end in pairs) * 1e6

    def _queue(self) -> Any:
        stream_id, device_index, device_type = self._current(torch._C._cuda_getDevice())
        return self._queue_type(stream_id=stream_id, device_index=device_index, device_type=device_type)

    def _clear(self, clear_bytes: int | None) -> None:
        try:
            self._write_over_caches(clear_bytes)
        except self._out_of_memory:
            # Not the submission's fault, and it must not read as if it were.
            size = "the official clear of 62.5 GiB" if clear_bytes is None else f"a clear of {clear_bytes} bytes"
            message = f"{size} does not fit in this device's memory beside the inputs: leave --clear out"
            raise RuntimeError(message) from None

    def _write_over_caches(self, clear_bytes: int | None) -> None:
        if clear_bytes is None:
            # As the platform does it: made and dropped.
            torch.randn(_OFFICIAL_CLEAR_SHAPE, device="cuda")
            return
        if clear_bytes == 0:
            return
        size = min(clear_bytes, _CLEAR_BUFFER_BYTES)
        if self._buffer is None or self._buffer.numel() != size:
            self._buffer = torch.empty(size, dtype=torch.uint8, device="cuda")
        for turn in range(math.ceil(clear_bytes / size)):
            self._buffer.fill_(turn & 0xFF)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection of garbage stops the host for longer than a clear hides: it waits until the call has ended."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
