"""The memory bandwidth of the device at hand, measured and not read from a data sheet."""

from __future__ import annotations

from functools import cache
from statistics import median

_BYTES = 2 << 30
_REPEATS = 15


@cache
def measured_bandwidth() -> float:
    """Bytes a second that a device-to-device copy reads and writes together, the median of 15 copies of 2 GiB.

    Measured once in a process, on the current GPU. Raises RuntimeError where there is none.
    """
    import torch

    source = torch.empty(_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times_ms = []
    for _ in range(_REPEATS + 3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize()
        times_ms.append(start.elapsed_time(end))
    return 2 * _BYTES / (median(times_ms[3:]) / 1e3)
