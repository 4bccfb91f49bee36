"""AMDGCN assembly as LLVM prints it: instructions, basic blocks, loops, source lines and the kernel's metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.inspection.operands import split_operands

_LABEL = re.compile(r"^([.\w$]+):")
_LOC = re.compile(r"^\s+\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r"^\s+\.file\s+(\d+)\s+(?:\"[^\"]*\"\s+)?\"([^\"]+)\"", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s+([a-z]\w+)\s*(.*)$")
_METADATA = re.compile(r"^\s*\.amdgpu_metadata\n(.*?)^\s*\.end_amdgpu_metadata", re.MULTILINE | re.DOTALL)
_DESCRIPTOR = re.compile(r"^\s*\.amdhsa_kernel\s+(\S+)\n(.*?)^\s*\.end_amdhsa_kernel", re.MULTILINE | re.DOTALL)
_DIRECTIVE = re.compile(r"^\s*\.amdhsa_(\w+)\s+([^;\n]+?)\s*(?:;.*)?$", re.MULTILINE)
_ENDS = ("s_endpgm", "s_setpc_b64", "s_trap")


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    operands: the text behind the mnemonic, without comments. line: of the source in `file`, which is the kernel's own
    or one whose functions were inlined, such as Triton's standard.py; None where nothing says it.
    """

    mnemonic: str
    operands: str
    line: int | None
    file: str | None = None

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The operands one by one, modifiers left out. Raises ValueError where they are not understood."""
        return split_operands(self.operands)[0]

    @cached_property
    def modifiers(self) -> Mapping[str, str]:
        """Name → text of the value, '' for a flag. Raises ValueError where they are not understood."""
        return split_operands(self.operands)[1]


@dataclass(frozen=True)
class Block:
    """Instructions that run one after the other. label: '' for what follows a branch without one."""

    label: str
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class Loop:
    """A natural loop: the indices of its blocks, the first of them its head."""

    head: int
    blocks: frozenset[int]


@dataclass(frozen=True)
class Assembly:
    """One kernel.

    metadata: the amdhsa entry of the kernel, keys without their leading dot. descriptor: the .amdhsa_ directives, which
    set up its registers and modes; a number, or the text where LLVM prints an expression.
    """

    name: str
    blocks: tuple[Block, ...]
    metadata: Mapping[str, Any]
    descriptor: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def instructions(self) -> Iterator[Instruction]:
        """Every instruction, in the order of the text."""
        for block in self.blocks:
            yield from block.instructions

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For each block, the blocks that may run next."""
        places = {block.label: index for index, block in enumerate(self.blocks) if block.label}
        found = []
        for index, block in enumerate(self.blocks):
            after: list[int] = []
            last = block.instructions[-1] if block.instructions else None
            falls = index + 1 < len(self.blocks)
            if last is not None and last.mnemonic.startswith(("s_branch", "s_cbranch")):
                target = places.get(last.operands.split()[-1] if last.operands else "")
                after += [] if target is None else [target]
                falls = falls and last.mnemonic != "s_branch"
            elif last is not None and last.mnemonic in _ENDS:
                falls = False
            found.append((*after, index + 1) if falls else tuple(after))
        return tuple(found)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The natural loops, outer ones before those inside; those with one head are one loop."""
        dominators = _dominators(self.successors)
        predecessors: dict[int, list[int]] = {}
        for index, after in enumerate(self.successors):
            for each in after:
                predecessors.setdefault(each, []).append(index)
        bodies: dict[int, set[int]] = {}
        for tail, after in enumerate(self.successors):
            for head in after:
                if head in dominators[tail]:
                    body = bodies.setdefault(head, {head})
                    waiting = [tail]
                    while waiting:
                        block = waiting.pop()
                        if block not in body:
                            body.add(block)
                            waiting += predecessors.get(block, ())
        found = [Loop(head, frozenset(body)) for head, body in bodies.items()]
        return tuple(sorted(found, key=lambda loop: -len(loop.blocks)))

    def in_loop(self, loop: Loop) -> Iterator[Instruction]:
        """The instructions of a loop's blocks, in the order of the text."""
        for index in sorted(loop.blocks):
            yield from self.blocks[index].instructions


def parse(text: str) -> Assembly:
    """The kernel in the assembly that Triton keeps of it. Raises ValueError where there is none, or several."""
    import yaml

    found = _METADATA.search(text)
    kernels = yaml.safe_load(found[1]).get("amdhsa.kernels", []) if found else []
    if len(kernels) != 1:
        raise ValueError(f"expected the assembly of one kernel, found {len(kernels)}")
    metadata = {key.lstrip("."): value for key, value in kernels[0].items()}
    name = str(metadata["name"])
    return Assembly(name, tuple(_blocks(text, name)), metadata, _descriptor(text, name))


def _descriptor(text: str, name: str) -> dict[str, int | str]:
    """The directives between .amdhsa_kernel and its end; none where the text has no such block."""
    held = next((found[2] for found in _DESCRIPTOR.finditer(text) if found[1] == name), "")
    return {key: _number(value) for key, value in _DIRECTIVE.findall(held)}


def _number(text: str) -> int | str:
    try:
        return int(text, 0)
    except ValueError:
        return text


def _blocks(text: str, name: str) -> Iterator[Block]:
    """The blocks of the kernel's body, which ends with its function."""
    body = text[text.index(f"\n{name}:") + 1 :]
    files = dict(_FILE.findall(text))
    label, instructions = "", list[Instruction]()
    line: int | None = None
    file: str | None = None
    for raw in body.splitlines():
        if raw.startswith((".Lfunc_end", "\t.section", "\t.size")):
            break
        if found := _LABEL.match(raw):
            # Labels that no branch leads to (.Ltmp0) mark places for the debugger.
            if not found[1].startswith((".Ltmp", ".Lfunc_begin")):
                if instructions or label:
                    yield Block(label, tuple(instructions))
                label, instructions = found[1], []
            continue
        if found := _LOC.match(raw):
            file, line = files.get(found[1]), int(found[2])
            continue
        if found := _INSTRUCTION.match(raw.partition(";")[0].rstrip()):
            instruction = Instruction(found[1], found[2].strip(), line, file)
            instructions.append(instruction)
            if instruction.mnemonic.startswith(("s_branch", "s_cbranch")) or instruction.mnemonic in _ENDS:
                yield Block(label, tuple(instructions))
                label, instructions = "", []
    if instructions:
        yield Block(label, tuple(instructions))


def _dominators(successors: tuple[tuple[int, ...], ...]) -> list[set[int]]:
    """For each block, those that every way to it passes, itself included; the first block is the entry."""
    count = len(successors)
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for index, after in enumerate(successors):
        for each in after:
            predecessors[each].append(index)
    everything = set(range(count))
    dominators = [{0}] + [set(everything) for _ in range(count - 1)]
    changed = True
    while changed:
        changed = False
        for block in range(1, count):
            incoming = [dominators[each] for each in predecessors[block]]
            new = {block} | (set.intersection(*incoming) if incoming else set())
            if new != dominators[block]:
                dominators[block], changed = new, True
    return dominators
