"""One submission in its child, with inputs in place: what the modes are written in terms of."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import WorkerFailed
from harness.evaluation.child import Child, SubmissionError
from harness.evaluation.protocol import (
    Deadline,
    TensorSpec,
    as_bytes_view,
    flatten,
    rebuild,
    tensor_from_bytes,
    tensor_to_bytes,
)
from harness.evaluation.run_folder import RunFolder
from harness.evaluation.shared_memory import forget_counter, map_handle
from harness.targets.machine import Machine

if TYPE_CHECKING:
    import torch

# The platform gives the first import, where extensions are built, 120 s. Source: kernelbot consts.py.
LOAD_LIMIT_S = 120.0
_ROOM_FOR_OUTPUT = 1 << 32


@dataclass(frozen=True)
class Call:
    """What one call gave: the output on the parent's device, its time, and whether a stand-in computed it."""

    output: Any
    time_ns: float | None
    stand_in: bool


class Bench:
    """A child with the submission imported; replaced by a fresh one after it died.

    Raises what Child.request raises. `put` inputs, then `call` on them.
    """

    def __init__(self, folder: RunFolder, machine: Machine) -> None:
        self._folder, self._machine = folder, machine
        self._child: Child | None = None
        self._specs: list[TensorSpec] = []
        self._skeleton: Any = None
        self._mapped: list[torch.Tensor] = []
        self._handles: list[dict[str, Any]] = []
        self._printed: list[tuple[str, str]] = []

    def load(self, deadline: Deadline) -> None:
        """Start the child and import the submission, unless that has been done and it lives."""
        if self._child is not None:
            return
        child = Child(self._folder, interpret=not self._machine.on_gpu)
        self._child = child
        try:
            child.request("load", deadline.earlier_of(Deadline.after(LOAD_LIMIT_S)))
        except WorkerFailed:
            self.close()
            raise

    def put(self, data: Any, deadline: Deadline) -> None:
        """Write inputs to the child's input tensors: in place where they have the same kind as before."""
        self.load(deadline)
        leaves: list[torch.Tensor] = []
        skeleton = flatten(data, leaves)
        specs = [TensorSpec.of(leaf) for leaf in leaves]
        if specs != self._specs or skeleton != self._skeleton:
            self._allocate(specs, skeleton, deadline)
        for index, leaf in enumerate(leaves):
            if specs[index].on_gpu:
                as_bytes_view(self._mapped[index]).copy_(as_bytes_view(leaf))
            else:
                self._request("write", deadline, tensor_to_bytes(leaf), slot="inputs", leaf=index)
        if self._machine.on_gpu:
            import torch

            torch.cuda.synchronize()

    def _allocate(self, specs: list[TensorSpec], skeleton: Any, deadline: Deadline) -> None:
        self._forget_inputs()
        self._request("free", deadline, slot="inputs")
        answer, _ = self._request(
            "allocate", deadline, slot="inputs", specs=[spec.to_json() for spec in specs], skeleton=skeleton
        )
        self._specs, self._skeleton = specs, skeleton
        self._handles = [raw for raw in answer["handles"] if raw is not None]
        self._mapped = [
            map_handle(spec, raw) if raw is not None else spec.empty()
            for spec, raw in zip(specs, answer["handles"], strict=True)
        ]

    def call(self, deadline: Deadline, key: tuple[Any, ...] | None = None) -> Call:
        """One call on the inputs; `key` sends it to a merged file's entry for that shape."""
        return self._call(deadline, {"key": key})

    def time(self, deadline: Deadline, clear_bytes: int | None, key: tuple[Any, ...] | None = None) -> Call:
        """One timed call after a cache clear of so many bytes (None: the platform's own clear)."""
        return self._call(deadline, {"key": key, "clear": clear_bytes})

    def _call(self, deadline: Deadline, arguments: dict[str, Any]) -> Call:
        answer, payload = self._request("call", deadline, max_payload_bytes=_ROOM_FOR_OUTPUT, slot="inputs", **arguments)
        try:
            output = self._read_output(answer, payload)
            time_ns = None if answer["time_ns"] is None else float(answer["time_ns"])
            return Call(output, time_ns, bool(answer["stand_in"]))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            self.close()
            raise WorkerFailed(f"the submission's process answered outside the protocol ({error})") from None

    def _read_output(self, answer: dict[str, Any], payload: bytearray) -> Any:
        leaves, offset = [], 0
        for raw in answer["specs"]:
            spec = TensorSpec.from_json(raw)
            tensor = tensor_from_bytes(spec, memoryview(payload)[offset : offset + spec.bytes])
            offset += spec.bytes
            leaves.append(tensor.cuda() if self._machine.on_gpu and spec.on_gpu else tensor)
        return rebuild(answer["skeleton"], leaves)

    def profile(self, deadline: Deadline, key: tuple[Any, ...] | None = None) -> str:
        """The profiler's table of one call."""
        answer, _ = self._request("profile", deadline, slot="inputs", key=key)
        return str(answer["table"])

    def _request(self, command: str, deadline: Deadline, payload: bytes = b"", **arguments: Any) -> Any:
        if self._child is None:
            self.load(deadline)
        assert self._child is not None
        try:
            return self._child.request(command, deadline, payload, **arguments)
        except WorkerFailed as error:
            if not isinstance(error, SubmissionError) or error.leaves_device_unusable:
                self.close()
            raise

    def _forget_inputs(self) -> None:
        self._mapped = []
        for raw in self._handles:
            forget_counter(raw)
        self._handles, self._specs, self._skeleton = [], [], None

    def printed(self) -> tuple[str, str]:
        """What the submission printed so far: standard output and standard error, each bounded."""
        now = list(self._printed)
        if self._child is not None:
            now.append((self._child.stdout.text(), self._child.stderr.text()))
        return "".join(out for out, _ in now), "".join(err for _, err in now)

    def close(self) -> None:
        """End the child; a later `load` starts another."""
        child, self._child = self._child, None
        self._forget_inputs()
        if child is not None:
            child.close()
            self._printed.append((child.stdout.text(), child.stderr.text()))

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):
            self.close()
