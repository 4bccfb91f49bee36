"""Which definitions of different files are the same, so that one copy serves all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from harness.assembly.definitions import Definition, Unit, is_comment
from harness.assembly.imports import Import


def classes_of(units: Iterable[Unit], *, apart_with_state: bool) -> dict[Definition, int]:
    """Definition → number of its class; two are in one class where no code could tell them apart.

    That is: equal syntax trees (comments, layout and docstrings aside) under equal names, and every module-level
    name in them means the same in turn. apart_with_state: definitions that hold state are alike only within one
    variant. Found by refining: start from equal trees, split where needed names differ, until nothing splits.
    """
    definitions = [definition for unit in units for definition in unit.definitions]
    names_used: dict[tuple[str, ...], int] = {}
    for definition in definitions:
        names_used[definition.names] = names_used.get(definition.names, 0) + 1
    keys: list[Hashable] = []
    for index, definition in enumerate(definitions):
        if names_used[definition.names] == 1 or is_comment(definition.parts[0]):
            keys.append(index)  # nothing to compare with: spares the dump
        else:
            owner = definition.unit.owner if apart_with_state and definition.has_state else None
            keys.append((definition.names, owner, tuple(part.meaning for part in definition.parts)))
    classes = _numbered(definitions, keys)
    while True:
        refined = _numbered(definitions, [_with_needs(definition, classes) for definition in definitions])
        if len(set(refined.values())) == len(set(classes.values())):
            return classes
        classes = refined


def _numbered(definitions: list[Definition], keys: list[Hashable]) -> dict[Definition, int]:
    numbers: dict[Hashable, int] = {}
    return {
        definition: numbers.setdefault(key, len(numbers)) for definition, key in zip(definitions, keys, strict=True)
    }


def _with_needs(definition: Definition, classes: dict[Definition, int]) -> Hashable:
    needs = []
    for name in definition.needs:
        meaning = definition.unit.meaning(name)
        if isinstance(meaning, Definition):
            needs.append((name, classes[meaning]))
        else:
            needs.append((name, meaning.identity if isinstance(meaning, Import) else None))
    return (classes[definition], tuple(needs))
