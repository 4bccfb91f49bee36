"""What each clock does and in which order: shown on a scripted device, without a GPU."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
import torch

from harness.evaluation import gpu_clock
from harness.evaluation.gpu_clock import GpuClock


class Event:
    """An event that says when it is recorded; 4 µs lie between two."""

    log: list[str]

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, queue: object) -> None:
        self.log.append(f"event on {queue}")

    def elapsed_time(self, end: Event) -> float:
        return 0.004


@pytest.fixture
def device(monkeypatch) -> list[str]:
    """A scripted device, and what it was asked, in order."""
    log: list[str] = []
    Event.log = log
    host_ns = iter(range(1_000, 100_000, 7_000))

    def look() -> int:
        log.append("host clock")
        return next(host_ns)

    monkeypatch.setattr(torch._C, "_CudaEventBase", Event)
    monkeypatch.setattr(torch._C, "_cuda_synchronize", lambda: log.append("synchronize"), raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentStream", lambda device: (7, device, 1), raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch.cuda, "Stream", lambda stream_id, device_index, device_type: f"queue {stream_id}")
    monkeypatch.setattr(gpu_clock, "time", SimpleNamespace(perf_counter_ns=look))
    return log


@pytest.fixture
def log(device, monkeypatch) -> list[str]:
    """The same, with clears that are only noted."""
    monkeypatch.setattr(GpuClock, "_clear", lambda self, size: device.append(f"clear {size}"))
    return device


def call_in(log: list[str], fails: bool = False):
    def call() -> str:
        assert not gc.isenabled()
        log.append("call")
        if fails:
            raise ValueError("too tired")
        return "output"

    return call


def test_the_queued_clock_enqueues_the_call_behind_a_running_clear(log):
    assert GpuClock().measure("queued", call_in(log), 512) == ("output", 4000.0)
    assert log == ["synchronize", "clear 512", "event on queue 7", "call", "event on queue 7", "synchronize"]


def test_the_exposed_clock_starts_on_an_idle_device_with_cold_caches_and_waits_for_the_end(log):
    assert GpuClock().measure("exposed", call_in(log), 512) == ("output", 7000.0)
    assert log == ["clear 512", "synchronize", "host clock", "call", "synchronize", "host clock"]


@pytest.mark.parametrize("clock", ["queued", "exposed"])
def test_garbage_is_collected_again_after_a_call_that_raises(log, clock):
    with pytest.raises(ValueError, match="too tired"):
        GpuClock().measure(clock, call_in(log, fails=True), None)
    assert gc.isenabled()


def test_the_clocks_are_bound_before_a_submission_can_patch_them(log, monkeypatch):
    clock = GpuClock()
    monkeypatch.setattr(gpu_clock, "time", SimpleNamespace(perf_counter_ns=lambda: 0))
    monkeypatch.setattr(torch._C, "_cuda_synchronize", lambda: None, raising=False)
    assert clock.measure("exposed", call_in(log), 512)[1] == 7000.0
    assert log.count("synchronize") == 2


@pytest.mark.parametrize(("size", "words"), [(None, "the official clear of 62.5 GiB"), (1 << 40, "a clear of 1099511")])
def test_a_clear_that_does_not_fit_is_not_said_to_be_the_submissions_fault(device, monkeypatch, size, words):
    def full(self, clear_bytes):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(GpuClock, "_write_over_caches", full)
    with pytest.raises(RuntimeError, match=f"{words}.* does not fit"):
        GpuClock()._clear(size)


def test_a_clear_writes_all_of_its_bytes_through_one_buffer_of_a_gibibyte_at_most(device, monkeypatch):
    written = []

    class Buffer:
        def __init__(self, size: int) -> None:
            self.size = size

        def numel(self) -> int:
            return self.size

        def fill_(self, value: int) -> None:
            written.append(self.size)

    made = []
    monkeypatch.setattr(torch, "empty", lambda size, **options: made.append(size) or Buffer(size))
    clock = GpuClock()
    for size in (8 << 30, 8 << 30, 512_000_000):
        written.clear()
        clock._write_over_caches(size)
        assert sum(written) >= size
    assert made == [1 << 30, 512_000_000]
