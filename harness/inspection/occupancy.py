"""How many waves of a kernel fit on a compute unit at once, and what keeps more from fitting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Occupancy:
    """resident: waves a SIMD on gfx950, warps a multiprocessor on sm_90; most: what the hardware takes. limit: why."""

    resident: int
    most: int
    limit: str


# Source: AMD CDNA3 and CDNA4 ISA guides: 512 vector registers a lane and SIMD, architectural and accumulation registers
# together, given out 8 at a time; 8 waves a SIMD; 4 SIMDs; 160 KB of LDS a compute unit on CDNA4. LDS is given out
# 2,048 bytes at a time: LLVM's test lds-size-hsa-gfx950.ll, where 131,076 bytes take 65 granules and 163,840 take 80.
AMD_REGISTERS, AMD_GRANULE, AMD_WAVES, AMD_SIMDS, AMD_LDS_BYTES = 512, 8, 8, 4, 160 * 1024
AMD_LDS_GRANULE = 2048
# Source: CUDA programming guide, table of compute capability 9.0, and the CUDA occupancy calculator: 65,536 registers
# an SM given out 256 a warp, at most 64 warps and 32 blocks, 228 KB of shared memory an SM of which 1 KB a block is
# the system's, 227 KB a block. A warp's registers are those of one of 4 sub-cores, so what is left over of each is of
# no use: the calculator's warp allocation granularity of 4.
SM_REGISTERS, SM_GRANULE, SM_WARPS, SM_BLOCKS, SM_SUBCORES = 65536, 256, 64, 32, 4
SM_SHARED_BYTES, SM_BLOCK_SHARED_BYTES, SM_RESERVED_BYTES = 228 * 1024, 227 * 1024, 1024


def amd_occupancy(registers: int, lds_bytes: int, waves: int) -> Occupancy:
    """Of workgroups of so many waves. registers: vector registers a lane, both kinds together."""
    taken = max(AMD_GRANULE, -(-registers // AMD_GRANULE) * AMD_GRANULE)
    by_registers = min(AMD_WAVES, AMD_REGISTERS // taken)
    lds_taken = -(-lds_bytes // AMD_LDS_GRANULE) * AMD_LDS_GRANULE
    groups = AMD_LDS_BYTES // lds_taken if lds_taken else AMD_WAVES * AMD_SIMDS
    by_lds = groups * waves // AMD_SIMDS if waves >= AMD_SIMDS else -(-groups * waves // AMD_SIMDS)
    # A workgroup is on one compute unit or nowhere, so whole workgroups are counted.
    whole = by_registers * AMD_SIMDS // waves * waves
    by_groups = -(-whole // AMD_SIMDS)
    resident = min(by_groups, by_lds, AMD_WAVES)
    if resident == 0:
        return Occupancy(0, AMD_WAVES, "LDS" if by_lds == 0 else "registers")
    if resident == AMD_WAVES:
        return Occupancy(resident, AMD_WAVES, "nothing")
    limit = "LDS" if by_lds < by_groups else "registers" if by_registers < AMD_WAVES else "workgroup size"
    return Occupancy(resident, AMD_WAVES, limit)


def nvidia_occupancy(registers: int, shared_bytes: int, warps: int) -> Occupancy:
    """Of thread blocks of so many warps. registers: a thread."""
    a_warp = max(SM_GRANULE, -(-registers * 32 // SM_GRANULE) * SM_GRANULE)
    blocks = {
        "registers": SM_REGISTERS // SM_SUBCORES // a_warp * SM_SUBCORES // warps,
        "shared memory": SM_SHARED_BYTES // (shared_bytes + SM_RESERVED_BYTES),
        "warps": SM_WARPS // warps,
        "blocks": SM_BLOCKS,
    }
    fits = min(blocks.values())
    limit = next(name for name, count in blocks.items() if count == fits)
    if fits * warps == SM_WARPS:
        limit = "nothing"
    return Occupancy(fits * warps, SM_WARPS, limit)
