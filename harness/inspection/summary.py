"""An inspection for people: a table, a line a kernel for a file's header, and two files side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.inspection.inspect import Inspection, KernelReport

if TYPE_CHECKING:
    from rich.table import Table


def kernel_table(inspection: Inspection, names: Mapping[str, str]) -> Table:
    """One row a kernel and set of constants. names: shape label → name."""
    from rich.table import Table

    table = Table(title=f"{inspection.file} for {inspection.target}, Triton {inspection.triton}")
    amd = inspection.target.startswith("gfx")
    registers, shared = ("VGPR + AGPR", "LDS") if amd else ("registers", "shared")
    waves = "waves a SIMD" if amd else "warps an SM"
    for column in (
        "kernel",
        "shapes",
        "launch",
        registers,
        "scratch",
        shared,
        waves,
        "matrix",
        "byte loads",
        "wide loads",
    ):
        table.add_column(column, overflow="fold")
    for kernel in inspection.kernels:
        table.add_row(*_cells(kernel, names))
    return table


def _cells(kernel: KernelReport, names: Mapping[str, str]) -> tuple[str, ...]:
    facts = kernel.facts
    registers = str(facts.registers)
    if facts.accumulators:
        registers = f"{facts.registers - facts.accumulators} + {facts.accumulators}"
    spilled = f"{facts.spills} spilled, " if facts.spills else ""
    launch = f"{_grid(kernel)} × {kernel.warps} warps, {kernel.stages} stages; {_constants(kernel)}"
    return (
        kernel.name,
        _shapes(kernel, names),
        launch,
        registers,
        f"{spilled}{facts.scratch_bytes} B" if facts.scratch_bytes or facts.spills else "none",
        f"{facts.shared_bytes:,} B",
        f"{facts.occupancy.resident} of {facts.occupancy.most}, by {facts.occupancy.limit}",
        _counts(facts.matrix_in_loop or facts.matrix) or "none",
        str(facts.byte_loads),
        _counts(facts.wide_loads) or "none",
    )


def header_lines(inspection: Inspection, names: Mapping[str, str]) -> list[str]:
    """A plain line for each kernel, and for what could not be inspected, for the comment at the top of a file."""
    lines = []
    for kernel in inspection.kernels:
        facts = kernel.facts
        bound = "" if facts.occupancy.limit == "nothing" else f" (by {facts.occupancy.limit})"
        matrix = _counts(facts.matrix_in_loop or facts.matrix) or "no matrix instructions"
        lines.append(
            f"{kernel.name} [{_shapes(kernel, names)}] {_grid(kernel)} x {kernel.warps} warps: {facts.registers} "
            f"registers, {facts.spills or 0} spilled, {facts.shared_bytes} B shared, {facts.occupancy.resident} "
            f"waves{bound}, {matrix}, {facts.byte_loads} byte loads"
        )
    for label, why in inspection.failures.items():
        lines.append(f"not inspected, {names.get(label, label) or 'import'}: {why}")
    if inspection.stand_in:
        lines.append("aiter's own kernels are not inspected")
    return lines


def difference_rows(first: Inspection, second: Inspection, names: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    """Shape, figure, and its value in each file, for every figure of a shape's kernels that is not the same in both.

    Kernels of a shape are matched by the order of their launches; what a tuner only tries is left out.
    """
    rows = []
    for label, name in names.items():
        ours, theirs = (_of_shape(each, label) for each in (first, second))
        for place in range(max(len(ours), len(theirs))):
            a = _figures(ours[place]) if place < len(ours) else {}
            b = _figures(theirs[place]) if place < len(theirs) else {}
            for figure in {**a, **b}:
                if a.get(figure) != b.get(figure):
                    rows.append((f"{name} launch {place + 1}", figure, a.get(figure, "–"), b.get(figure, "–")))
    return rows


def _of_shape(inspection: Inspection, label: str) -> list[KernelReport]:
    return [
        kernel
        for kernel in inspection.kernels
        if any(launch.shape == label and launch.role == "launch" for launch in kernel.launches)
    ]


def _figures(kernel: KernelReport) -> dict[str, str]:
    facts = kernel.facts
    return {
        "kernel": kernel.name,
        "constants": _constants(kernel),
        "grid": _grid(kernel),
        "warps": str(kernel.warps),
        "registers": str(facts.registers),
        "scratch bytes": str(facts.scratch_bytes),
        "shared bytes": f"{facts.shared_bytes:,}",
        "resident": f"{facts.occupancy.resident}, by {facts.occupancy.limit}",
        "matrix": _counts(facts.matrix_in_loop or facts.matrix) or "none",
        "byte loads": str(facts.byte_loads),
        "wide loads": _counts(facts.wide_loads) or "none",
        "waits": str(facts.waits),
        "barriers": str(facts.barriers),
        "instructions": str(facts.instructions),
        "in the loop": "–" if facts.loop_instructions is None else str(facts.loop_instructions),
    }


def _shapes(kernel: KernelReport, names: Mapping[str, str]) -> str:
    shapes = " ".join(dict.fromkeys(names.get(launch.shape, launch.shape) for launch in kernel.launches))
    return shapes + {"launch": "", "trial": " (a tuner's trial)", "skipped": " (skipped by a tuner)"}[kernel.role]


def _grid(kernel: KernelReport) -> str:
    return " or ".join(dict.fromkeys("×".join(map(str, launch.grid)) for launch in kernel.launches))


def _constants(kernel: KernelReport) -> str:
    return ", ".join(f"{name} {value}" for name, value in kernel.constants.items())


def _counts(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
