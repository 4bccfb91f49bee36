"""Machine code of NVIDIA GPUs as nvdisasm prints it: enough to count the instructions of the busiest loop."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.errors import MissingCapability

_LABEL = re.compile(r"^(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")


@dataclass(frozen=True)
class Sass:
    """mnemonics: of every instruction, in order. loops: (first, last) places of each backward branch's body."""

    mnemonics: tuple[str, ...]
    loops: tuple[tuple[int, int], ...]


def disassemble(cubin: bytes) -> Sass:
    """The one function in a cubin. Raises MissingCapability where Triton brings no nvdisasm."""
    import triton

    program = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    if not program.is_file():
        raise MissingCapability("estimates for sm_90 need the nvdisasm that Triton's wheels for Linux bring")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([program, "-c", file.name], capture_output=True, text=True, check=True).stdout
    return parse(text)


def parse(text: str) -> Sass:
    """What `disassemble` reads out of nvdisasm's text."""
    places: dict[str, int] = {}
    mnemonics: list[str] = []
    loops: list[tuple[int, int]] = []
    for line in text.splitlines():
        if found := _LABEL.match(line):
            places[found[1]] = len(mnemonics)
        elif found := _INSTRUCTION.match(line):
            target = _TARGET.search(found[2]) if found[1].startswith("BRA") else None
            if target is not None and places.get(target[1], len(mnemonics)) < len(mnemonics):
                loops.append((places[target[1]], len(mnemonics)))
            mnemonics.append(found[1])
    return Sass(tuple(mnemonics), tuple(loops))
