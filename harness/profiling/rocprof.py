"""AMD rocprofv3: its command line, and its counter collection read back.

Source of options and format: rocm.docs.amd.com, ROCprofiler-SDK 7, "Using rocprofv3": an input file has one `pmc:` line
for each run of the application, and each run leaves PASS/…_counter_collection.csv with one row for each counter of each
dispatch. Source of the counters: the same, and "MI300 and MI200 series performance counters": FETCH_SIZE and WRITE_SIZE
count KiB, the others here are percentages. Never run by us: no AMD GPU was at hand.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from harness.errors import WorkerFailed
from harness.profiling.kernel_profile import KernelProfile

PROGRAM = "rocprofv3"
ADVICE = "it comes with ROCm 6.2 and later, package rocprofiler-sdk"

# One line a run: counters of one hardware block exclude one another, and a line that cannot be had gives no file.
_RUNS = (("FETCH_SIZE",), ("WRITE_SIZE",), ("L2CacheHit",), ("MfmaUtil", "OccupancyPercent"), ("MemUnitStalled",))
# What torch.cuda._sleep launches: the driver's mark before the call that is to be seen.
MARKER = "spin_kernel"
_KIB = 1024.0


def command(program: str, output: Path, application: Sequence[str]) -> list[str]:
    """rocprofv3 over an application that launches the marker before what is to be seen; CSVs go below `output`."""
    output.mkdir(parents=True, exist_ok=True)
    wanted = output / "counters.txt"
    wanted.write_text("".join(f"pmc: {' '.join(counters)}\n" for counters in _RUNS), encoding="utf-8")
    return [program, "-i", str(wanted), "-d", str(output), "--output-format", "csv", "--", *application]


def read_output(output: Path) -> list[KernelProfile]:
    """The kernels after the marker, each with the counters of all runs. Raises WorkerFailed where there are none."""
    runs = [read_run(path.read_text(encoding="utf-8")) for path in sorted(output.rglob("*counter_collection.csv"))]
    kernels = merge([run for run in runs if run])
    if not kernels:
        raise WorkerFailed(f"{PROGRAM} profiled no kernel: none of {', '.join(sum(_RUNS, ()))} was collected")
    return kernels


class Dispatch:
    """One kernel launch of one run: its name, nanoseconds, registers and counters."""

    def __init__(self, row: dict[str, str]) -> None:
        self.kernel = row["Kernel_Name"]
        self.duration_ns = float(row["End_Timestamp"]) - float(row["Start_Timestamp"])
        self.registers = int(row["VGPR_Count"]) + int(row.get("Accum_VGPR_Count") or 0)
        self.counters: dict[str, float] = {}


def read_run(text: str) -> list[Dispatch]:
    """The dispatches after the last marker of one run's CSV, in their order; [] where no marker ran."""
    dispatches: dict[int, Dispatch] = {}
    for row in csv.DictReader(text.splitlines()):
        dispatch = dispatches.setdefault(int(row["Dispatch_Id"]), Dispatch(row))
        # A counter may have a row for each instance of its block.
        name = row["Counter_Name"]
        dispatch.counters[name] = dispatch.counters.get(name, 0.0) + float(row["Counter_Value"])
    ordered = [dispatches[number] for number in sorted(dispatches)]
    marks = [index for index, dispatch in enumerate(ordered) if MARKER in dispatch.kernel]
    return ordered[marks[-1] + 1 :] if marks else []


def merge(runs: Sequence[Sequence[Dispatch]]) -> list[KernelProfile]:
    """One profile for each kernel, from runs that launched the same kernels; a run that did not is left out."""
    if not runs:
        return []
    names = [dispatch.kernel for dispatch in runs[0]]
    alike = [run for run in runs if [dispatch.kernel for dispatch in run] == names]
    return [_profile([run[index] for run in alike]) for index in range(len(names))]


def _profile(dispatches: Sequence[Dispatch]) -> KernelProfile:
    counters = {name: value for dispatch in dispatches for name, value in dispatch.counters.items()}

    def scaled(name: str, unit: float) -> float | None:
        return counters[name] * unit if name in counters else None

    stalled = scaled("MemUnitStalled", 1.0)
    return KernelProfile(
        kernel=dispatches[0].kernel,
        duration_ns=median(dispatch.duration_ns for dispatch in dispatches),
        dram_read_bytes=scaled("FETCH_SIZE", _KIB),
        dram_write_bytes=scaled("WRITE_SIZE", _KIB),
        l2_hit=scaled("L2CacheHit", 0.01),
        matrix_pipe=scaled("MfmaUtil", 0.01),
        registers=dispatches[0].registers,
        occupancy=scaled("OccupancyPercent", 0.01),
        stalls=() if stalled is None else (("memory unit", stalled),),
        stall_unit="% of the time",
    )
