"""A lower bound and an estimate of a shape's time from what its kernels compile to. It ranks; it does not promise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.inspection.inspect import Inspection, KernelReport, Launch
from harness.inspection.work import Work


@dataclass(frozen=True)
class Chip:
    """What the terms are worth.

    units: compute units or multiprocessors, of 4 SIMDs or sub-cores each. bandwidth: bytes a second. unit_bytes: what
    one unit takes from memory in a clock at most; shared_bytes: from LDS or shared memory. issue_clocks: how long an
    instruction keeps its SIMD or scheduler; special_clocks: a special one.
    """

    units: int
    clock_hz: float
    bandwidth: float
    unit_bytes: float
    shared_bytes: float
    issue_clocks: float
    special_clocks: float


# gfx950: AMD Instinct MI355X data sheet (256 CUs, 2.4 GHz, 8 TB/s) and CDNA3 ISA guide (a wave of 64 goes through a
# SIMD of 16 lanes in 4 clocks, special functions at a quarter of that; 64 bytes a clock from L1, 128 from LDS).
# sm_90: H200 as measured by this harness (4.55 TB/s read at 1.98 GHz, docs/results.md); CUDA programming guide (132 SMs
# as torch reports them, 4 schedulers, 16 special functions an SM and clock, 128 bytes a clock from shared memory).
CHIPS = {
    "gfx950": Chip(256, 2.4e9, 8e12, 64, 128, 4, 16),
    "sm_90": Chip(132, 1.98e9, 4.55e12, 64, 128, 1, 8),
}
# Nanoseconds on the queued clock of one H200: nothing between the events, and what each kernel adds (docs/results.md).
# The same is assumed for gfx950. A first load takes about a microsecond to come.
EMPTY_NS, LAUNCH_NS, LATENCY_NS = 1300.0, 1700.0, 1000.0


@dataclass(frozen=True)
class Terms:
    """One launch, in nanoseconds but for counts.

    memory, vector, matrix, shared: of all iterations of all rounds, as if each were alone. rest: before and after the
    loop. bound: of the unit with most programs, the largest of vector pipe, matrix pipe and shared memory. estimate:
    issue and matrix one after the other, or memory, or shared memory, whichever is longest, the rest, and a first load
    for each round.
    """

    kernel: str
    programs: int
    resident: int
    rounds: int
    iterations: int
    memory: float
    vector: float
    matrix: float
    shared: float
    rest: float
    bound: float
    estimate: float


@dataclass(frozen=True)
class Estimate:
    """One shape. bound, estimate: in nanoseconds, launches included."""

    shape: str
    bytes_needed: int
    launches: tuple[Terms, ...]
    bound: float
    estimate: float


def estimate_shapes(inspection: Inspection) -> list[Estimate]:
    """The estimate of every shape where a Triton kernel multiplies matrices in a loop and the problem says the bytes.

    Left out are shapes that were not inspected, and those whose work is done by kernels that are not Triton's.
    """
    chip = CHIPS[inspection.target]
    found = []
    for label, needed in inspection.bytes_needed.items():
        pairs = [
            (kernel, launch)
            for kernel in inspection.kernels
            for launch in kernel.launches
            if launch.shape == label and launch.role == "launch"
        ]
        if label not in inspection.failures and any(kernel.work[0] is not None for kernel, _ in pairs):
            found.append(_estimate(chip, label, needed, pairs))
    return found


def _estimate(chip: Chip, label: str, needed: int, pairs: Sequence[tuple[KernelReport, Launch]]) -> Estimate:
    # The declared bytes are those of the kernel that multiplies; the others move what they load themselves.
    terms = tuple(_terms(chip, kernel, launch, needed) for kernel, launch in pairs)
    launches = EMPTY_NS + LAUNCH_NS * len(terms)
    floor = needed / chip.bandwidth * 1e9
    bound = launches + max(floor, sum(each.bound for each in terms))
    return Estimate(label, needed, terms, bound, max(bound, launches + sum(each.estimate for each in terms)))


def _terms(chip: Chip, kernel: KernelReport, launch: Launch, needed: int) -> Terms:
    programs = math.prod(launch.grid)
    per_unit = -(-programs // chip.units)
    resident = max(1, min(_programs_at_once(kernel, chip), per_unit))
    rounds = -(-programs // (chip.units * resident))
    active = min(programs, chip.units)
    waves = resident * kernel.warps / 4
    loop, rest = kernel.work
    rest_clocks = waves * _issue(chip, rest) + waves * rest.matrix_clocks
    rest_bytes = (rest.memory_bytes or 0) * kernel.warps * resident
    rest_clocks = max(rest_clocks, rest_bytes / _share(chip, active))
    iterations, clocks, bound = 0, (0.0, 0.0, 0.0, 0.0), 0.0
    if loop is not None:
        bytes_each = _bytes_an_iteration(kernel, launch, loop)
        iterations = max(1, round(needed / programs / bytes_each)) if bytes_each else 1
        clocks = (
            resident * bytes_each / _share(chip, active),
            waves * _issue(chip, loop),
            waves * loop.matrix_clocks,
            resident * kernel.warps * loop.shared_bytes / chip.shared_bytes,
        )
        # Scalar instructions, waits and loads of other waves are issued beside the vector pipe: they do not bound it.
        pipes = (_vector(chip, loop) / 4, loop.matrix_clocks / 4, loop.shared_bytes / chip.shared_bytes)
        bound = per_unit * kernel.warps * iterations * max(pipes)
    in_ns = 1e9 / chip.clock_hz
    memory, vector, matrix, shared = (rounds * iterations * each * in_ns for each in clocks)
    rest_ns = rounds * rest_clocks * in_ns
    whole = max(memory, vector + matrix, shared) + rest_ns + rounds * LATENCY_NS
    return Terms(
        kernel.name, programs, resident, rounds, iterations, memory, vector, matrix, shared, rest_ns,
        bound * in_ns, whole,
    )  # fmt: skip


def _programs_at_once(kernel: KernelReport, chip: Chip) -> int:
    waves = kernel.facts.occupancy.resident
    return waves * 4 // kernel.warps if chip is CHIPS["gfx950"] else waves // kernel.warps


def _issue(chip: Chip, work: Work) -> float:
    return chip.issue_clocks * work.instructions + chip.special_clocks * work.special


def _vector(chip: Chip, work: Work) -> float:
    return chip.issue_clocks * work.vector + chip.special_clocks * work.special


def _share(chip: Chip, active: int) -> float:
    """Bytes a clock that one unit gets while `active` of them ask."""
    return min(chip.unit_bytes, chip.bandwidth / chip.clock_hz / active)


def _bytes_an_iteration(kernel: KernelReport, launch: Launch, loop: Work) -> float:
    """Loaded by one program in one turn. Through TMA: whole rows of the largest tile among the launch's descriptors."""
    if loop.memory_bytes is None:
        return max(launch.tiles, default=0)
    return loop.memory_bytes * kernel.warps
