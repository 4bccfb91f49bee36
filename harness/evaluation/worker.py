"""The child: imports the submission and calls it on inputs that the parent writes. Knows no seed and no truth.

Everything that measures is bound before the submission is imported, to functions of C that it cannot patch
from Python.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.evaluation.gpu_clock import GpuClock
from harness.evaluation.poison import poisoned_memory
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
from harness.evaluation.shield import give_up_tracing

_exit = os._exit
_MAX_TEXT = 16 << 10


@dataclass
class Slot:
    """Input tensors at fixed addresses, and the nested value that is handed to the submission."""

    specs: list[TensorSpec]
    tensors: list[torch.Tensor]
    skeleton: Any


class Worker:
    """Answers the parent's commands, one at a time."""

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}
        self._submission: Any = None
        self._on_gpu = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
        self._clock = GpuClock() if self._on_gpu else None
        self._kept: dict[str, Any] = {}
        self._held: list[Any] = []
        self._held_extents: list[tuple[int, int]] = []

    def load(self, request: dict[str, Any], payload: bytearray) -> dict[str, Any]:
        """Import the submission; what is missing here is stood in for first."""
        self._prepare_interpreter()
        self._prepare_aiter()
        sys.path.insert(0, str(Path.cwd()))
        with self._device_mode():
            self._submission = importlib.import_module("submission")
        if not callable(getattr(self._submission, "custom_kernel", None)):
            raise TypeError("custom_kernel is not a function")
        return {"entries": callable(getattr(self._submission, "entry_for", None))}

    def _prepare_interpreter(self) -> None:
        if self._on_gpu:
            torch.cuda.init()
            return
        if b"triton" in Path("submission.py").read_bytes():
            from harness.evaluation.interpreter import mend_interpreter

            mend_interpreter()

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

    @staticmethod
    def _stand_in_entries() -> int:
        """How often the stand-in for aiter has begun to work in this process."""
        checks = sys.modules.get("harness.aiter_stand_in.checks")
        return checks.entries() if checks is not None else 0

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
        """Overwrite one CPU input tensor in place with the payload, past its version counter."""
        slot, index = self._slots[request["slot"]], request["leaf"]
        target = slot.tensors[index]
        source = torch.empty_strided(target.shape, target.stride(), dtype=target.dtype)
        as_bytes_view(source).copy_(as_bytes_view(tensor_from_bytes(slot.specs[index], payload)))
        extent = target.untyped_storage().nbytes() - target.storage_offset() * target.element_size()
        ctypes.memmove(target.data_ptr(), source.data_ptr(), min(extent, source.untyped_storage().nbytes()))
        return {}

    def count_write(self, request: dict[str, Any], payload: bytearray) -> dict[str, Any]:
        """Write a slot's tensors over themselves, so that their version counters see a change."""
        for tensor in self._slots[request["slot"]].tensors:
            view = as_bytes_view(tensor)
            view.copy_(view.clone())
        return {}

    def read(self, request: dict[str, Any], payload: bytearray) -> tuple[dict[str, Any], bytes]:
        """A slot's input tensors as they are now."""
        return self._answer(tuple(self._slots[request["slot"]].tensors))

    def kept(self, request: dict[str, Any], payload: bytearray) -> tuple[dict[str, Any], bytes]:
        """A kept output as its memory is now."""
        return self._answer(self._kept[request["name"]])

    def overlap(self, request: dict[str, Any], payload: bytearray) -> dict[str, Any]:
        """Whether two kept outputs share memory."""
        first, second = (self._extents(self._kept[name]) for name in request["names"])
        return {"overlap": _overlap(first, second)}

    def _extents(self, value: Any) -> list[tuple[int, int]]:
        """First and past-the-last address of each tensor's own elements."""
        extents = []
        for leaf in self._leaves(value):
            span = sum((size - 1) * step for size, step in zip(leaf.shape, leaf.stride(), strict=True)) + 1
            begin = leaf.data_ptr()
            extents.append((begin, begin + (span * leaf.element_size() if leaf.numel() else 0)))
        return extents

    def _hold(self, output: Any) -> bool:
        """Keep an output alive from now on; whether its memory is that of an earlier one that is still alive."""
        extents = self._extents(output)
        reused = _overlap(extents, self._held_extents)
        self._held.append(output)
        self._held_extents += extents
        return reused

    @staticmethod
    def _leaves(value: Any) -> list[torch.Tensor]:
        leaves: list[torch.Tensor] = []
        flatten(value, leaves)
        return leaves

    def _answer(self, value: Any, **header: Any) -> tuple[dict[str, Any], bytes]:
        leaves: list[torch.Tensor] = []
        header["skeleton"] = flatten(value, leaves)
        header["specs"] = [TensorSpec.of(leaf).to_json() for leaf in leaves]
        return header, b"".join(tensor_to_bytes(leaf) for leaf in leaves)

    def early_and_late(self, request: dict[str, Any], payload: bytearray) -> tuple[dict[str, Any], bytes]:
        """One call's output twice: as the current queue sees it at once, and when everything has come to rest."""
        slot = self._slots[request["slot"]]
        kernel = self._kernel(request.get("key"))
        with self._device_mode():
            output = kernel(rebuild(slot.skeleton, slot.tensors))
            early = [leaf.clone() for leaf in self._leaves(output)]
        if self._clock is None:
            time.sleep(0.3)
        else:
            self._clock.synchronize()
        return self._answer((early[0] if len(early) == 1 else tuple(early), output))

    def repeat(self, request: dict[str, Any], payload: bytearray) -> tuple[dict[str, Any], bytes]:
        """Many calls in a row with an event pair around each; answers the sum of what the events claim."""
        assert self._clock is not None
        slot = self._slots[request["slot"]]
        kernel = self._kernel(request.get("key"))
        output, claimed_ns = self._clock.loop(lambda: kernel(rebuild(slot.skeleton, slot.tensors)), request["count"])
        return self._answer(output, claimed_ns=claimed_ns)

    def call(self, request: dict[str, Any], payload: bytearray) -> tuple[dict[str, Any], bytes]:
        """One call on a slot's inputs; `clear` given: timed by `clock`, after a cache clear of so many bytes."""
        slot = self._slots[request["slot"]]
        data = rebuild(slot.skeleton, slot.tensors)
        kernel = self._kernel(request.get("key"))
        before = self._stand_in_entries()
        if request.get("poison") is not None:
            with self._device_mode(), poisoned_memory(request["poison"], self._on_gpu):
                output, time_ns = kernel(data), None
        elif self._clock is None:
            with self._device_mode():
                output, time_ns = kernel(data), None
        elif "clear" in request:
            output, time_ns = self._clock.measure(request["clock"], lambda: kernel(data), request["clear"])
        else:
            output, time_ns = kernel(data), None
            self._clock.synchronize()
        if request.get("keep"):
            self._kept[request["keep"]] = output
        reused = self._hold(output) if request.get("hold") else None
        return self._answer(output, time_ns=time_ns, stand_in=self._stand_in_entries() > before, reused=reused)

    def empty(self, request: dict[str, Any], payload: bytearray) -> dict[str, Any]:
        """Times of calls that launch nothing, or one trivial kernel: what a clock shows without a submission."""
        assert self._clock is not None
        call = self._clock.launch_trivial_kernel if request["launches"] else _do_nothing
        count, clock, clear = request["count"], request["clock"], request["clear"]
        return {"times_ns": [self._clock.measure(clock, call, clear)[1] for _ in range(count)]}

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


def _do_nothing() -> None:
    return None


def _overlap(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> bool:
    return any(a < d and c < b for a, b in first for c, d in second)


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


def _forget_editable_install() -> None:
    """Drop an editable install's import hook, which would lead past the child's part of the harness to all of it."""
    sys.meta_path[:] = [
        finder
        for finder in sys.meta_path
        if "harness" not in getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", {})
    ]


_COMMANDS = (
    "load", "allocate", "free", "write", "count_write", "read", "call", "kept", "overlap", "early_and_late", "repeat",
    "empty", "profile",
)  # fmt: skip


def main() -> None:
    """Serve the parent on the descriptor named in the arguments until it closes."""
    die_with_parent()
    give_up_tracing()
    _forget_editable_install()
    channel = socket.socket(fileno=int(sys.argv[1]))
    sys.argv[:] = ["submission.py"]
    worker = Worker()
    commands = {name: getattr(worker, name) for name in _COMMANDS}
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
