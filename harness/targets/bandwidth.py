"""The memory bandwidth of the device at hand, measured and not read from a data sheet."""

from __future__ import annotations

import subprocess
import time
from functools import cache
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

# Read once: 8 GiB is 30 times the largest last-level cache (MI355X, 256 MB), so that what a cache still holds of the
# last pass is 3 % there and 0.7 % on an H200 (60 MB), at most. Less where the device has less free.
_BYTES = 8 << 30
_SHARE_OF_FREE = 4
_REPEATS = 15
# An idle device takes its time to reach its clocks: on one H200 the first passes read 3.95 TB/s and later ones 4.55
# (2026-12-01).
_WARM_S = 0.5
# One program reads 64 KiB: enough loads in flight, and 131,072 programs over 8 GiB keep every unit busy to the end.
_VALUES_PER_PROGRAM = 1 << 14


@cache
def measured_bandwidth() -> float:
    """Bytes a second that a kernel which only reads gets from memory, on the current GPU.

    A decode kernel reads nearly all that it moves, so a read and not a copy is what it can be held against: a copy
    pays for turning the memory bus from reading to writing. Two kernels are tried on a buffer far larger than any
    cache, one in Triton where that is there and torch's `amax`; each is the median of 15 passes and the better one
    counts. Measured once in a process, in about a second. Raises RuntimeError where there is no GPU.
    """
    import torch

    free_bytes, _ = torch.cuda.mem_get_info()
    count = min(_BYTES, free_bytes // _SHARE_OF_FREE) // (4 * _VALUES_PER_PROGRAM) * _VALUES_PER_PROGRAM
    values = torch.zeros(count, dtype=torch.int32, device="cuda")
    reads = [values.amax, *_triton_read(values)]
    _warm_up(values.amax)
    fastest_s = min(_median_ms(read) for read in reads) / 1e3
    # The submission's process needs the room, and torch would keep it.
    del values, reads
    torch.cuda.empty_cache()
    return 4 * count / fastest_s


def _triton_read(values: torch.Tensor) -> list[Callable[[], object]]:
    try:
        from harness.targets.read_kernel import reader

        read = reader(values, _VALUES_PER_PROGRAM)
        read()
    except (ImportError, RuntimeError, OSError, subprocess.SubprocessError):
        # No Triton, or no C compiler for it: torch's kernel alone then says what a read gets.
        return []
    return [read]


def _warm_up(call: Callable[[], object]) -> None:
    import torch

    began_s = time.monotonic()
    while time.monotonic() - began_s < _WARM_S:
        call()
        torch.cuda.synchronize()


def _median_ms(call: Callable[[], object]) -> float:
    import torch

    times_ms = []
    for _ in range(1 + _REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times_ms.append(start.elapsed_time(end))
    return median(times_ms[1:])
