"""What lives outside of the file, once in a process: extension modules, operator namespaces, Triton's allocator."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.assembly.definitions import Definition, Unit
from harness.assembly.likeness import classes_of
from harness.errors import CannotMerge

_EXTENSION_CALLS = (
    "torch.utils.cpp_extension.load_inline", "torch.utils.cpp_extension.load",
    "torch.utils.cpp_extension.CUDAExtension", "torch.utils.cpp_extension.CppExtension",
)  # fmt: skip
_LIBRARY_CALLS = "torch.library."
_LIBRARY_IN_CPP = re.compile(r"\bTORCH_LIBRARY(?:_FRAGMENT|_IMPL)?\(\s*(\w+)")
_ALLOCATOR_CALL = "triton.set_allocator"
EXTENSION, NAMESPACE, ALLOCATOR = "extension module", "operator namespace", "allocator of Triton"


@dataclass(frozen=True)
class Claim:
    """One name taken in a process-wide table. kind: one of the names above."""

    kind: str
    name: str
    definition: Definition
    line: int


def claims_of(unit: Unit) -> Iterator[Claim]:
    """What the definitions of a unit register. Raises CannotMerge for an extension whose name is built at run time."""
    for definition in unit.definitions:
        for part in definition.parts:
            for node in part.nodes:
                yield from _claims_of_node(unit, definition, node)


def _claims_of_node(unit: Unit, definition: Definition, node: ast.AST) -> Iterator[Claim]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        for name in _LIBRARY_IN_CPP.findall(node.value):
            yield Claim(NAMESPACE, name, definition, node.lineno)
    if not isinstance(node, ast.Call):
        return
    full = unit.file.dotted(node.func) or ""
    if full in _EXTENSION_CALLS:
        yield Claim(EXTENSION, _text_argument(unit, node, full), definition, node.lineno)
    elif full == _ALLOCATOR_CALL:
        yield Claim(ALLOCATOR, full, definition, node.lineno)
    elif full.startswith(_LIBRARY_CALLS):
        first = _first_argument(node, ("name", "ns", "qualname", "op_name"))
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield Claim(NAMESPACE, first.value.partition("::")[0], definition, node.lineno)


def _text_argument(unit: Unit, call: ast.Call, full: str) -> str:
    value = _first_argument(call, ("name",))
    if isinstance(value, ast.Name) and isinstance(meaning := unit.meaning(value.id), Definition):
        values = [part.node.value for part in meaning.parts if isinstance(part.node, ast.Assign | ast.AnnAssign)]
        value = values[0] if len(values) == 1 else None
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    raise CannotMerge(
        unit.file.path,
        call.lineno,
        f"{full.rpartition('.')[2]}(name=…) is built at run time: two variants could take one name; write it as a "
        "string",
    )


def _first_argument(call: ast.Call, keywords: Iterable[str]) -> ast.expr | None:
    if call.args:
        return call.args[0]
    return next((keyword.value for keyword in call.keywords if keyword.arg in keywords), None)


def refuse_shared_registrations(units: Iterable[Unit], classes: Mapping[Definition, int]) -> None:
    """One name in a process-wide table must come from one content.

    classes: definitions of one class are written once. An extension of equal content may be made twice (torch then
    loads the first again), and so may an allocator; an operator namespace may not.
    Raises CannotMerge at the later of two variants that register one name otherwise.
    """
    units = list(units)
    taken: dict[tuple[str, str], list[Claim]] = {}
    for unit in units:
        found: dict[tuple[str, str], list[Claim]] = {}
        for claim in claims_of(unit):
            found.setdefault((claim.kind, claim.name), []).append(claim)
        for key, claims in found.items():
            first = taken.setdefault(key, claims)
            if first is claims:
                continue
            if first[0].definition.unit.owner == unit.owner:
                first += claims
                continue
            equal = classes if key[0] == NAMESPACE else classes_of(units, apart_with_state=False)
            made = {equal[claim.definition] for claim in first}
            for claim in claims:
                if equal[claim.definition] not in made:
                    _refuse(claim, first[0])


def _refuse(claim: Claim, first: Claim) -> None:
    raise CannotMerge(
        claim.definition.unit.file.path,
        claim.line,
        f"the {claim.kind} '{claim.name}' is also made by {first.definition.unit.file.path}:{first.line} with other "
        "content: a process can hold only one; give one of them another name",
    )
