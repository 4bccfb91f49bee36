"""What a wave or warp of a kernel asks of the hardware, once in its busiest loop and once outside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from harness.inspection.assembly import Assembly
from harness.inspection.sass import Sass


@dataclass(frozen=True)
class Work:
    """Of one wave (64 lanes) or warp (32).

    instructions: all but the matrix and the special ones; vector: those of them that take the vector pipe; special:
    exponentials, logarithms, reciprocals; matrix_clocks: of the matrix pipe of one SIMD or sub-core; shared_bytes: to
    and from LDS or shared memory; memory_bytes: loaded from memory, None where the instruction does not say (TMA).
    """

    instructions: int
    vector: int
    special: int
    matrix_clocks: float
    shared_bytes: int
    memory_bytes: int | None

    @classmethod
    def of_json(cls, raw: Mapping[str, object] | None) -> Work | None:
        """What `to_json` gave, None for None."""
        return None if raw is None else cls(**raw)

    def to_json(self) -> dict[str, object]:
        """Plain numbers."""
        return asdict(self)


# FLOP a clock of one of 4 SIMDs, from the data sheet's dense peaks at 2.4 GHz and 256 compute units (AMD Instinct
# MI355X: 2.5 PF in f16 and bf16, 5.0 PF in FP8, 10 PF in FP6 and FP4). With one FP8 operand it is FP8's.
_AMD_FLOPS = {"f16": 1024, "fp8": 2048}
_AMD_MATRIX = re.compile(r"^v_mfma_(?:scale_)?f32_(\d+)x(\d+)x(\d+)_(\w+?)(?:_\w+)?$")
_AMD_SPECIAL = ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_")
_AMD_WIDTH = {
    "ubyte": 1, "sbyte": 1, "ushort": 2, "sshort": 2, "short": 2, "byte": 1, "dword": 4, "dwordx2": 8, "dwordx3": 12,
    "dwordx4": 16,
}  # fmt: skip
# FLOP a clock of one of 4 sub-cores: 989 TF dense in f16, twice in FP8, 132 SMs at 1.83 GHz (NVIDIA H100 data sheet).
_SM_FLOPS = {"16": 1024, "8": 2048}
# A wgmma reads its 64 rows of A, 32 bytes each, from shared memory at 128 bytes a clock: 16, however narrow B is.
_WGMMA_LEAST_CLOCKS = 16.0
_SASS_SPECIAL = ("MUFU",)


def amd_work(code: Assembly) -> tuple[Work | None, Work]:
    """The busiest loop's work, None without a loop that multiplies matrices, and that of all the rest."""
    whole = Counter(each.mnemonic for each in code.instructions)
    loops = [Counter(each.mnemonic for each in code.in_loop(loop)) for loop in code.loops]
    busiest = max(loops, key=lambda each: (_amd(each).matrix_clocks, each.total()), default=None)
    if busiest is None or not _amd(busiest).matrix_clocks:
        return None, _amd(whole)
    return _amd(busiest), _amd(whole - busiest)


def nvidia_work(code: Sass) -> tuple[Work | None, Work]:
    """As `amd_work`, of machine code for sm_90."""
    loops = [Counter(code.mnemonics[first : last + 1]) for first, last in code.loops]
    busiest = max(loops, key=lambda each: (_sass(each).matrix_clocks, each.total()), default=None)
    whole = Counter(code.mnemonics)
    if busiest is None or not _sass(busiest).matrix_clocks:
        return None, _sass(whole)
    return _sass(busiest), _sass(whole - busiest)


def _amd(counts: Mapping[str, int]) -> Work:
    matrix = {name: count for name, count in counts.items() if name.startswith(("v_mfma", "v_smfmac"))}
    special = sum(count for name, count in counts.items() if name.startswith(_AMD_SPECIAL))
    return Work(
        instructions=sum(counts.values()) - sum(matrix.values()) - special,
        vector=sum(n for name, n in counts.items() if name.startswith("v_")) - sum(matrix.values()) - special,
        special=special,
        matrix_clocks=sum(count * _amd_clocks(name) for name, count in matrix.items()),
        shared_bytes=64 * sum(count * _lds_width(name) for name, count in counts.items()),
        memory_bytes=64 * sum(count * _amd_load_width(name) for name, count in counts.items()),
    )


def _amd_clocks(name: str) -> float:
    found = _AMD_MATRIX.match(name)
    if found is None:
        return 16.0
    m, n, k = (int(found[group]) for group in (1, 2, 3))
    # The older instructions on two fp8 operands, 16x16x32, keep f16's rate: 16 clocks. Source: AMD matrix instruction
    # calculator, CDNA3.
    kind = "fp8" if found[4] == "f8f6f4" else "f16"
    return 2 * m * n * k / _AMD_FLOPS[kind]


def _amd_load_width(name: str) -> int:
    found = re.match(r"^(?:global|buffer|flat)_load_(?:lds_)?(dwordx?[234]?|[us]?(?:byte|short))", name)
    return _AMD_WIDTH.get(found[1], 0) if found else 0


def _lds_width(name: str) -> int:
    found = re.match(r"^ds_(?:read|write)(2(?:st64)?)?_[a-z]*(\d+)", name)
    return (2 if found[1] else 1) * int(found[2]) // 8 if found else 0


def _sass(counts: Mapping[str, int]) -> Work:
    matrix = {name: count for name, count in counts.items() if re.match(r"[HQI]G?MMA\.", name)}
    special = sum(count for name, count in counts.items() if name.startswith(_SASS_SPECIAL))
    by_tma = any(name.startswith("UTMALDG") for name in counts)
    return Work(
        instructions=sum(counts.values()) - sum(matrix.values()) - special,
        # A scheduler issues one instruction a clock, whichever pipe it is for.
        vector=sum(counts.values()) - sum(matrix.values()) - special,
        special=special,
        matrix_clocks=sum(count * _sass_clocks(name) for name, count in matrix.items()),
        shared_bytes=32 * sum(count * _sass_shared_width(name) for name, count in counts.items()),
        memory_bytes=None if by_tma else 32 * sum(count * _sass_load_width(name) for name, count in counts.items()),
    )


def _sass_clocks(name: str) -> float:
    """Of a warp's share: a wgmma is issued by each of 4 warps and is one instruction of the multiprocessor."""
    if found := re.match(r"([HQI])GMMA\.(\d+)x(\d+)x(\d+)", name):
        m, n, k = (int(found[group]) for group in (2, 3, 4))
        rate = 4 * _SM_FLOPS["16" if found[1] == "H" else "8"]
        return max(2 * m * n * k / rate, _WGMMA_LEAST_CLOCKS)
    if found := re.match(r"[HQI]MMA\.(\d\d?)(\d)(\d\d)\b", name):
        m, n, k = (int(found[group]) for group in (1, 2, 3))
        return 2 * m * n * k / _SM_FLOPS["16" if name[0] == "H" else "8"]
    return 4.0


def _sass_load_width(name: str) -> int:
    return _sass_width(name) if re.match(r"(?:LDG|LDGSTS)\b", name) else 0


def _sass_shared_width(name: str) -> int:
    # ldmatrix and stmatrix: 1, 2 or 4 matrices of 8×8 times 16 bits, 4 bytes a thread each.
    if found := re.match(r"(?:LDSM|STSM)\..*88(?:\.([24]))?(?:\.|$)", name):
        return 4 * int(found[1] or 1)
    return _sass_width(name) if re.match(r"(?:LDS|STS)\b", name) else 0


def _sass_width(name: str) -> int:
    for text, width in ((".128", 16), (".64", 8), (".U8", 1), (".S8", 1), (".U16", 2), (".S16", 2)):
        if text in name:
            return width
    return 4
