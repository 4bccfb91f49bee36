"""NVIDIA Nsight Compute: its command line, and its raw CSV page read back.

Source of options and format: docs.nvidia.com/nsight-compute, NsightComputeCli (2025): with `--csv --page raw` one row a
kernel, the metric names in the header, their units in the row below it, and lines of its own that begin with `==`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import MissingCapability, WorkerFailed
from harness.profiling.kernel_profile import KernelProfile

PROGRAM = "ncu"
ADVICE = "it comes with the CUDA toolkit, or alone as nsight-compute from NVIDIA's package repositories"
NO_PERMISSION = "ERR_NVGPUCTRPERM"

_DURATION = "gpu__time_duration.sum"
_READ, _WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
_L2_HIT = "lts__t_sector_hit_rate.pct"
_TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
_REGISTERS = "launch__registers_per_thread"
_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# Every reason for which a warp waits; `gmma`, waiting for wgmma, exists on sm_90 only, and ncu ends at a metric that
# the chip does not have.
_REASONS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "short_scoreboard",
    "sleeping", "tex_throttle", "wait",
)  # fmt: skip
_REASONS_OF_TARGET = {"sm_90": ("gmma",)}
# ncu's units, short and long names of different versions, in nanoseconds and in bytes.
_UNITS = {
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
    "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "%": 0.01,
}  # fmt: skip


def metrics(target: str) -> list[str]:
    """The metrics to ask of a GPU of this target."""
    reasons = (*_REASONS, *_REASONS_OF_TARGET.get(target, ()))
    return [_DURATION, _READ, _WRITE, _L2_HIT, _TENSOR, _REGISTERS, _OCCUPANCY, *map(_STALL.format, reasons)]


def command(program: str, target: str, output: Path, application: Sequence[str]) -> list[str]:
    """ncu over an application that calls cudaProfilerStart before what is to be seen; the CSV goes to `output`.

    Caches are flushed before each of ncu's passes, as the clear does before a timed call, and the clocks are left as
    they are, so that durations compare with `queued`.
    """
    return [
        program,
        "--profile-from-start", "off", "--cache-control", "all", "--clock-control", "none",
        "--metrics", ",".join(metrics(target)),
        "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(output),
        *application,
    ]  # fmt: skip


def read_output(output: Path) -> list[KernelProfile]:
    """The kernels of the log file. Raises MissingCapability without permission, WorkerFailed for no kernels."""
    text = output.read_text(encoding="utf-8", errors="replace") if output.is_file() else ""
    if NO_PERMISSION in text:
        raise MissingCapability(
            f"{PROGRAM} may not read this GPU's counters ({NO_PERMISSION}): run as root, in a container with "
            "CAP_SYS_ADMIN, or load the driver with NVreg_RestrictProfilingToAdminUsers=0; --profiler torch needs none"
        )
    profiles = parse(text)
    if not profiles:
        complaints = [line.strip() for line in text.splitlines() if "==ERROR==" in line or "==WARNING==" in line]
        raise WorkerFailed(f"{PROGRAM} profiled no kernel: {complaints[0] if complaints else 'no kernel ran'}")
    return profiles


def parse(text: str) -> list[KernelProfile]:
    """Read the raw page's CSV, whatever of ncu's own lines stands around it; [] where there is none."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    table = list(csv.reader(io.StringIO("\n".join(lines))))
    header = next((index for index, row in enumerate(table) if "Kernel Name" in row), None)
    if header is None or len(table) < header + 2:
        return []
    names, units = table[header], table[header + 1]
    kernel = names.index("Kernel Name")
    rows = [row for row in table[header + 2 :] if len(row) == len(names)]
    return [_profile(_values(names, units, row), row[kernel]) for row in rows]


def _values(names: Sequence[str], units: Sequence[str], row: Sequence[str]) -> dict[str, float]:
    values = {}
    for name, unit, text in zip(names, units, row, strict=True):
        try:
            # Thousands are grouped by commas in some versions. A figure that is not there reads `n/a` or nothing.
            values[name] = float(text.replace(",", "")) * _UNITS.get(unit, 1.0)
        except ValueError:
            continue
    return values


def _profile(values: Mapping[str, float], kernel: str) -> KernelProfile:
    reasons = {reason: values.get(_STALL.format(reason)) for reason in (*_REASONS, *_REASONS_OF_TARGET["sm_90"])}
    stalls = sorted(((name, size) for name, size in reasons.items() if size), key=lambda pair: -pair[1])
    registers = values.get(_REGISTERS)
    return KernelProfile(
        kernel=kernel,
        duration_ns=values.get(_DURATION),
        dram_read_bytes=values.get(_READ),
        dram_write_bytes=values.get(_WRITE),
        l2_hit=values.get(_L2_HIT),
        matrix_pipe=values.get(_TENSOR),
        registers=None if registers is None else int(registers),
        occupancy=values.get(_OCCUPANCY),
        stalls=tuple(stalls),
        stall_unit="warps waiting per issue",
    )
