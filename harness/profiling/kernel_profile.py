"""What a profiler saw of one kernel, reduced to what decides a memory-bound decode; and its table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_NAME_WIDTH = 44
_STALLS_SHOWN = 3
_TABLE_WIDTH = 200


@dataclass(frozen=True)
class KernelProfile:
    """One kernel of one call; a figure that the tool does not give is None.

    duration_ns: of the kernel alone, in nanoseconds. dram_read_bytes, dram_write_bytes: between memory and the last
    cache. l2_hit, matrix_pipe, occupancy: shares of 1; matrix_pipe is how busy the tensor pipe or MFMA unit was,
    occupancy the warps or waves that were resident over what fits. registers: of a thread. stalls: reason and size,
    the largest first; stall_unit says what the size is.
    """

    kernel: str
    duration_ns: float | None = None
    dram_read_bytes: float | None = None
    dram_write_bytes: float | None = None
    l2_hit: float | None = None
    matrix_pipe: float | None = None
    registers: int | None = None
    occupancy: float | None = None
    stalls: tuple[tuple[str, float], ...] = ()
    stall_unit: str = ""

    @property
    def dram_bandwidth(self) -> float | None:
        """Bytes a second that moved between memory and the last cache."""
        moved = (self.dram_read_bytes, self.dram_write_bytes)
        if None in moved or not self.duration_ns:
            return None
        return sum(moved) / self.duration_ns * 1e9


def profile_table(profiles: Sequence[KernelProfile]) -> str:
    """The kernels in the order in which they ran, one a row, as plain text."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("kernel", no_wrap=True)
    for heading in ("µs", "TB/s", "MB read", "MB written", "L2 hit", "matrix pipe", "registers", "occupancy"):
        table.add_column(heading, justify="right", no_wrap=True)
    units = list(dict.fromkeys(profile.stall_unit for profile in profiles if profile.stalls))
    table.add_column(f"stalls ({', '.join(units)})" if units else "stalls", no_wrap=True)
    for profile in profiles:
        table.add_row(*(Text(cell) for cell in _cells(profile)))
    stream = io.StringIO()
    Console(file=stream, width=_TABLE_WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).strip("\n") + "\n"


def _cells(profile: KernelProfile) -> list[str]:
    name = profile.kernel if len(profile.kernel) <= _NAME_WIDTH else profile.kernel[: _NAME_WIDTH - 1] + "…"
    return [
        name,
        _number(profile.duration_ns, 1e-3, 2),
        _number(profile.dram_bandwidth, 1e-12, 2),
        _number(profile.dram_read_bytes, 1e-6, 2),
        _number(profile.dram_write_bytes, 1e-6, 2),
        _percent(profile.l2_hit),
        _percent(profile.matrix_pipe),
        "–" if profile.registers is None else str(profile.registers),
        _percent(profile.occupancy),
        ", ".join(f"{reason} {size:.2f}" for reason, size in profile.stalls[:_STALLS_SHOWN]) or "–",
    ]


def _number(value: float | None, scale: float, digits: int) -> str:
    return "–" if value is None else f"{value * scale:.{digits}f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
