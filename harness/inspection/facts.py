"""What is read off a compiled kernel, for either vendor."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import MissingCapability
from harness.inspection.assembly import parse
from harness.inspection.occupancy import (
    AMD_LDS_BYTES,
    SM_BLOCK_SHARED_BYTES,
    Occupancy,
    amd_occupancy,
    nvidia_occupancy,
)

_AMD_WIDE = re.compile(r"^(?:global|buffer|flat)_load_(?:lds_)?dwordx([234])$")
_AMD_BYTE = re.compile(r"^(?:(?:global|buffer|flat|scratch)_load_[us]byte(?:_d16(?:_hi)?)?|ds_read_[ui]8\w*)$")
_PTX = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)", re.MULTILINE)
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


@dataclass(frozen=True)
class Facts:
    """registers: vector registers a lane (both kinds together), or registers a thread. accumulators, scalars: AGPRs
    and SGPRs of gfx950, None elsewhere. spills: registers that did not fit (sm_90: None, see scratch_bytes).
    scratch_bytes: memory a thread for what did not fit. shared_bytes: LDS or shared memory. matrix: matrix
    instructions by name. in_loop: those of the largest loop that has any. byte_loads: loads of a single byte, of
    shared memory too; wide_loads: of 8 bytes and more from memory, by name. problems: what makes the kernel unfit.
    """

    registers: int
    accumulators: int | None
    scalars: int | None
    spills: int | None
    scratch_bytes: int
    shared_bytes: int
    occupancy: Occupancy
    matrix: dict[str, int]
    matrix_in_loop: dict[str, int]
    byte_loads: int
    wide_loads: dict[str, int]
    shared_reads: dict[str, int]
    waits: int
    barriers: int
    instructions: int
    loop_instructions: int | None
    problems: tuple[str, ...] = field(default=())


def amd_facts(kernel: dict[str, Any]) -> Facts:
    """Of a kernel as the driver gives it, for gfx950. Raises ValueError for assembly that is not one kernel's."""
    code = parse(kernel["assembly"])
    held = code.metadata
    counts = Counter(each.mnemonic for each in code.instructions)
    loops = [Counter(each.mnemonic for each in code.in_loop(loop)) for loop in code.loops]
    busiest = max(loops, key=lambda each: (sum(_matrix(each).values()), each.total()), default=None)
    registers, shared = held["vgpr_count"], max(kernel["shared"], held["group_segment_fixed_size"])
    spills, scratch = held["vgpr_spill_count"] + held["sgpr_spill_count"], held["private_segment_fixed_size"]
    return Facts(
        registers=registers,
        accumulators=held.get("agpr_count", 0),
        scalars=held["sgpr_count"],
        spills=spills,
        scratch_bytes=scratch,
        shared_bytes=shared,
        occupancy=amd_occupancy(registers, shared, kernel["warps"]),
        matrix=_matrix(counts),
        matrix_in_loop=_matrix(busiest or {}),
        byte_loads=sum(count for name, count in counts.items() if _AMD_BYTE.match(name)),
        wide_loads={name: count for name, count in sorted(counts.items()) if _AMD_WIDE.match(name)},
        shared_reads={name: count for name, count in sorted(counts.items()) if name.startswith("ds_read")},
        waits=sum(count for name, count in counts.items() if name.startswith("s_wait")),
        barriers=counts["s_barrier"],
        instructions=counts.total(),
        loop_instructions=None if busiest is None else busiest.total(),
        problems=tuple(_problems(spills, scratch, shared, AMD_LDS_BYTES, "160 KB of LDS")),
    )


def nvidia_facts(kernel: dict[str, Any]) -> Facts:
    """Of a kernel as the driver gives it, for sm_90. Raises MissingCapability where Triton brings no cuobjdump."""
    registers, stack, _, local = _resource_usage(bytes.fromhex(kernel["cubin"]))
    counts = Counter(_PTX.findall(kernel["assembly"]))
    scratch, shared = stack + local, kernel["shared"]
    matrix = {name: count for name, count in sorted(counts.items()) if name.startswith(("wgmma.mma", "mma.sync"))}
    return Facts(
        registers=registers,
        accumulators=None,
        scalars=None,
        spills=None,
        scratch_bytes=scratch,
        shared_bytes=shared,
        occupancy=nvidia_occupancy(registers, shared, kernel["warps"]),
        matrix=matrix,
        matrix_in_loop={},
        byte_loads=sum(n for name, n in counts.items() if re.match(r"ld\.(?:global|shared)\S*\.[bus]8$", name)),
        wide_loads={
            name: count
            for name, count in sorted(counts.items())
            if re.match(r"ld\.global\S*(?:\.v[248]\.\w+|\.b(?:64|128))$", name) or name.startswith("cp.async")
        },
        shared_reads={
            name: count for name, count in sorted(counts.items()) if name.startswith(("ld.shared", "ldmatrix"))
        },
        waits=sum(count for name, count in counts.items() if "wait" in name),
        barriers=sum(count for name, count in counts.items() if name.startswith("bar")),
        instructions=counts.total(),
        loop_instructions=None,
        problems=tuple(_problems(None, scratch, shared, SM_BLOCK_SHARED_BYTES, "227 KB of shared memory a block")),
    )


def _matrix(counts: Any) -> dict[str, int]:
    return {name: count for name, count in sorted(counts.items()) if name.startswith(("v_mfma", "v_smfmac"))}


def _problems(spills: int | None, scratch: int, shared: int, most: int, said: str) -> Iterable[str]:
    if spills:
        yield f"{spills} registers spilled"
    if scratch:
        yield f"{scratch} bytes of scratch a thread"
    if shared > most:
        yield f"{shared:,} bytes of shared memory, more than the {said}"


def _resource_usage(cubin: bytes) -> tuple[int, int, int, int]:
    """Registers, stack, shared and local bytes of the one function in a cubin."""
    import triton

    program = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not program.is_file():
        raise MissingCapability("inspecting for sm_90 needs the cuobjdump that Triton's wheels for Linux bring")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([program, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = _USAGE.search(text)
    if found is None:
        raise MissingCapability("cuobjdump does not say what the kernel uses; this Triton's is another than known")
    registers, stack, shared, local = map(int, found.groups())
    return registers, stack, shared, local
