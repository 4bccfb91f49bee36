"""One submission in its child, with inputs in place: what the modes are written in terms of."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import BrokenTask, WorkerFailed
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
from harness.timing.clocks import Clock

if TYPE_CHECKING:
    import torch

# What reading an answer raises when it is not what the protocol says.
_NOT_AN_ANSWER = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, OverflowError)
# The platform gives the first import, where extensions are built, 120 s. Source: kernelbot consts.py.
LOAD_LIMIT_S = 120.0
_ROOM_FOR_OUTPUT = 1 << 32


@dataclass(frozen=True)
class Call:
    """What one call gave: the output on the parent's device, its time, and whether a stand-in computed it.

    reused: for a held output, whether it lies in the memory of an earlier held one.
    """

    output: Any
    time_ns: float | None
    stand_in: bool
    reused: bool = False


@dataclass
class _Slot:
    """Inputs as the child holds them, and the parent's views of those on the GPU."""

    specs: list[TensorSpec]
    skeleton: Any
    handles: list[dict[str, Any]]
    mapped: list[torch.Tensor | None]

    def unmap(self) -> None:
        """Let go of the child's memory; the child may then free it."""
        self.mapped = []

    def sweep(self) -> None:
        """Remove what the child left in shared memory. Only once it is gone: it does so itself when it frees."""
        for handle in self.handles:
            forget_counter(handle)


class Bench:
    """A child with the submission imported; replaced by a fresh one after it died.

    `put` inputs into a named slot, then `call` on it. Raises what Child.request raises.
    """

    def __init__(self, folder: RunFolder, machine: Machine) -> None:
        self._folder, self._machine = folder, machine
        self._child: Child | None = None
        self._loaded = False
        self._slots: dict[str, _Slot] = {}
        self._printed: list[tuple[str, str]] = []
        self.has_entries = False

    def start(self) -> None:
        """Start the child, which imports torch meanwhile and leaves the device alone until it loads the submission."""
        if self._child is None:
            self._child = Child(self._folder, interpret=not self._machine.on_gpu)

    def load(self, deadline: Deadline) -> None:
        """Import the submission in the child, unless that has been done and it lives."""
        if self._loaded:
            return
        self.start()
        child = self._child
        assert child is not None
        self._loaded = True
        try:
            answer, _ = child.request("load", deadline.earlier_of(Deadline.after(LOAD_LIMIT_S)))
            self.has_entries = bool(answer.get("entries"))
        except WorkerFailed:
            self.close()
            raise

    def put(self, data: Any, deadline: Deadline, slot: str = "inputs", *, counted: bool = False) -> None:
        """Write inputs to a slot's tensors: in place where they have the same kind as before.

        counted: afterwards the tensors' version counters see a write; without it the write goes past them.
        """
        self.load(deadline)
        leaves: list[torch.Tensor] = []
        try:
            skeleton = flatten(data, leaves)
        except TypeError as error:
            raise BrokenTask(f"these inputs cannot be handed to a submission: {error}") from None
        specs = [TensorSpec.of(leaf) for leaf in leaves]
        held = self._slots.get(slot)
        if held is None or (held.specs, held.skeleton) != (specs, skeleton):
            held = self._allocate(slot, specs, skeleton, deadline)
        for index, leaf in enumerate(leaves):
            target = held.mapped[index]
            if target is None:
                self._request("write", deadline, tensor_to_bytes(leaf), slot=slot, leaf=index)
            else:
                as_bytes_view(target).copy_(as_bytes_view(leaf))
        if self._machine.on_gpu:
            import torch

            torch.cuda.synchronize()
        if counted:
            self._request("count_write", deadline, slot=slot)

    def free(self, deadline: Deadline, slot: str) -> None:
        """Drop a slot's tensors, if it has any."""
        held = self._slots.pop(slot, None)
        if held is not None:
            held.unmap()
            self._request("free", deadline, slot=slot)

    def _allocate(self, name: str, specs: list[TensorSpec], skeleton: Any, deadline: Deadline) -> _Slot:
        self.free(deadline, name)
        answer, _ = self._request(
            "allocate", deadline, slot=name, specs=[spec.to_json() for spec in specs], skeleton=skeleton
        )
        with self._protocol():
            handles = answer["handles"]
            mapped = [map_handle(spec, raw) if spec.on_gpu else None for spec, raw in zip(specs, handles, strict=True)]
        slot = _Slot(specs, skeleton, [raw for raw in handles if raw is not None], mapped)
        self._slots[name] = slot
        return slot

    def call(
        self,
        deadline: Deadline,
        key: tuple[Any, ...] | None = None,
        slot: str = "inputs",
        keep: str | None = None,
        poison: int | None = None,
        *,
        hold: bool = False,
    ) -> Call:
        """One call on a slot's inputs; `key` sends it to a merged file's entry for that shape.

        keep: the child keeps the output under this name. poison: uninitialised memory is filled with this byte.
        hold: the child keeps the output alive from now on, and says whether it lies in an earlier one's memory.
        """
        return self._call(deadline, {"slot": slot, "key": key, "keep": keep, "poison": poison, "hold": hold})

    def kept(self, deadline: Deadline, name: str) -> Any:
        """A kept output as its memory is now."""
        return self._tensors_of("kept", deadline, name=name)

    def overlap(self, deadline: Deadline, first: str, second: str) -> bool:
        """Whether two kept outputs share memory."""
        answer, _ = self._request("overlap", deadline, names=[first, second])
        with self._protocol():
            return bool(answer["overlap"])

    def inputs(self, deadline: Deadline, slot: str = "inputs") -> list[torch.Tensor]:
        """A slot's input tensors as they are now; those on the GPU are live views."""
        held = self._slots[slot].mapped
        if all(view is not None for view in held):
            return list(held)
        return list(self._tensors_of("read", deadline, slot=slot))

    def early_and_late(
        self, deadline: Deadline, key: tuple[Any, ...] | None = None, slot: str = "inputs"
    ) -> tuple[Any, Any]:
        """One call's output at once, and after everything has come to rest."""
        return self._tensors_of("early_and_late", deadline, slot=slot, key=key)

    def repeat(
        self, deadline: Deadline, count: int, key: tuple[Any, ...] | None = None, slot: str = "inputs"
    ) -> tuple[float, float, Any]:
        """`count` calls in a row: this process's clock and the events' claim, both in ns, and the last output."""
        began = time.perf_counter_ns()
        answer, payload = self._request(
            "repeat", deadline, max_payload_bytes=_ROOM_FOR_OUTPUT, slot=slot, key=key, count=count
        )
        seen_ns = time.perf_counter_ns() - began
        with self._protocol():
            return float(seen_ns), float(answer["claimed_ns"]), self._read_output(answer, payload)

    def _tensors_of(self, command: str, deadline: Deadline, **arguments: Any) -> Any:
        answer, payload = self._request(command, deadline, max_payload_bytes=_ROOM_FOR_OUTPUT, **arguments)
        with self._protocol():
            return self._read_output(answer, payload)

    def time(
        self,
        deadline: Deadline,
        clear_bytes: int | None,
        key: tuple[Any, ...] | None = None,
        slot: str = "inputs",
        clock: Clock = "queued",
    ) -> Call:
        """One timed call after a cache clear of so many bytes (None: the platform's own clear)."""
        call = self._call(deadline, {"slot": slot, "key": key, "clear": clear_bytes, "clock": clock})
        with self._protocol():
            _check_duration(call.time_ns)
        return call

    def empty(
        self, deadline: Deadline, clear_bytes: int | None, clock: Clock, *, launches: bool, count: int
    ) -> list[float]:
        """What a clock shows, in nanoseconds, for `count` calls without a submission in them.

        launches: one trivial kernel in each call; without it, nothing at all.
        """
        self.load(deadline)
        answer, _ = self._request("empty", deadline, clear=clear_bytes, clock=clock, launches=launches, count=count)
        with self._protocol():
            times_ns = [float(time_ns) for time_ns in answer["times_ns"]]
            if len(times_ns) != count:
                raise ValueError(f"{len(times_ns)} times for {count} empty calls")
            for time_ns in times_ns:
                _check_duration(time_ns)
            return times_ns

    def _call(self, deadline: Deadline, arguments: dict[str, Any]) -> Call:
        answer, payload = self._request("call", deadline, max_payload_bytes=_ROOM_FOR_OUTPUT, **arguments)
        with self._protocol():
            output = self._read_output(answer, payload)
            time_ns = None if answer["time_ns"] is None else float(answer["time_ns"])
            return Call(output, time_ns, bool(answer["stand_in"]), bool(answer["reused"]))

    @contextmanager
    def _protocol(self) -> Iterator[None]:
        """End the child over an answer that is not what the protocol says."""
        try:
            yield
        except _NOT_AN_ANSWER as error:
            self.close()
            what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise WorkerFailed(f"the submission's process answered outside the protocol ({what})") from None

    def _read_output(self, answer: dict[str, Any], payload: bytearray) -> Any:
        leaves, offset = [], 0
        for raw in answer["specs"]:
            spec = TensorSpec.from_json(raw)
            packed = tensor_from_bytes(spec, memoryview(payload)[offset : offset + spec.bytes])
            offset += spec.bytes
            leaves.append(_laid_out(spec, packed.cuda() if self._machine.on_gpu and spec.on_gpu else packed))
        return rebuild(answer["skeleton"], leaves)

    def profile(self, deadline: Deadline, key: tuple[Any, ...] | None = None) -> str:
        """The profiler's table of one call."""
        answer, _ = self._request("profile", deadline, slot="inputs", key=key)
        with self._protocol():
            return str(answer["table"])

    def _request(self, command: str, deadline: Deadline, payload: bytes = b"", **arguments: Any) -> Any:
        if self._child is None:
            raise WorkerFailed("the submission's process is gone; inputs must be put anew")
        try:
            return self._child.request(command, deadline, payload, **arguments)
        except WorkerFailed as error:
            if not isinstance(error, SubmissionError) or error.leaves_device_unusable:
                self.close()
            raise

    def printed(self) -> tuple[str, str]:
        """What the submission printed so far: standard output and standard error, each bounded."""
        now = list(self._printed)
        if self._child is not None:
            now.append((self._child.stdout.text(), self._child.stderr.text()))
        return "".join(out for out, _ in now), "".join(err for _, err in now)

    def close(self) -> None:
        """End the child; a later `put` starts another."""
        child, self._child, self._loaded = self._child, None, False
        slots = list(self._slots.values())
        self._slots.clear()
        for slot in slots:
            slot.unmap()
        if child is not None:
            child.close()
            self._printed.append((child.stdout.text(), child.stderr.text()))
        for slot in slots:
            slot.sweep()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):
            self.close()


def _check_duration(time_ns: float | None) -> None:
    if time_ns is None or not 0 < time_ns < math.inf:
        raise ValueError(f"a time of {time_ns} ns")


def _laid_out(spec: TensorSpec, packed: torch.Tensor) -> torch.Tensor:
    """The values in the strides that the child's tensor has, so that its layout can be judged too.

    Elements may share memory there (an expanded tensor), so each is written to its place by index.
    """
    import torch

    if spec.stride == packed.stride() or not packed.numel():
        return packed
    span = 1 + sum((size - 1) * step for size, step in zip(spec.shape, spec.stride, strict=True))
    if span > _ROOM_FOR_OUTPUT:
        raise ValueError(f"a tensor spread over {span} elements")
    flat = torch.empty(span, dtype=packed.dtype, device=packed.device)
    places = torch.arange(span, device=packed.device).as_strided(spec.shape, spec.stride)
    as_bytes_view(flat)[places.reshape(-1)] = as_bytes_view(packed).reshape(-1)
    return flat.as_strided(spec.shape, spec.stride)
